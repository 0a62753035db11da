"""Files in a folder, a tar or a zip, read by name and never unpacked to disk."""

import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from evenhand import errors

MAX_BYTES = 1 << 31  # of all files in an archive; more is a mistake or an attack
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, ValueError, LookupError, OverflowError, MemoryError, NotImplementedError, RuntimeError),
)


class DamagedError(errors.InputError):
    """Corrupt or incomplete data; a known dataset adds what to do about it."""


@dataclass(frozen=True)
class Tree:
    """Files by their names relative to the root; the only top folder of an archive is its root."""

    path: Path
    names: tuple[str, ...]
    content: Callable[[str], bytes]

    @cached_property
    def files(self) -> frozenset[str]:
        """All names, for lookups."""
        return frozenset(self.names)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        if name not in self.files:
            raise DamagedError(f"{self.path} is incomplete: it has no '{name}'.")
        return self.content(name)

    def lines(self, name: str) -> list[str]:
        """Return the non-empty lines of a text file."""
        try:
            return [line.strip() for line in self.read(name).decode().splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise errors.InputError(f"{self.path / name} is damaged: it is not a text file.") from None

    def reader(self, names: Sequence[str]) -> Callable[[int], bytes]:
        """Return a function that reads these files by index, even after the archive is closed."""
        if self.path.is_dir():
            return lambda index: (self.path / names[index]).read_bytes()
        return [self.read(name) for name in names].__getitem__


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Open a folder or an archive; any damage found while it is open is reported in one sentence."""
    try:
        if path.is_dir():
            files = tuple(str(file.relative_to(path)) for file in walk(path))
            yield Tree(path, files, lambda name: (path / name).read_bytes())
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                sizes = {info.filename: info.file_size for info in archive.infolist() if not info.is_dir()}
                yield _archive_tree(path, sizes, archive.read)
        else:
            contents = _read_tar(path)
            sizes = {name: len(content) for name, content in contents.items()}
            yield _archive_tree(path, sizes, contents.__getitem__)
    except errors.EvenhandError:
        raise
    except DAMAGE as error:
        raise DamagedError(f"{path} is damaged or incomplete ({type(error).__name__}).") from None
    except OSError as error:
        raise errors.InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def walk(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder in order, without hidden ones; fast enough for a hundred thousand."""
    seen = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        facts = os.stat(place)  # noqa: PTH116 - faster than Path
        if (facts.st_dev, facts.st_ino) in seen:  # a link to a parent folder would never end
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        inside = Path(place)
        yield from (inside / name for name in sorted(names) if name[0] != ".")


def _read_tar(path: Path) -> dict[str, bytes]:
    """Read all files at once: a compressed tar can only be read from beginning to end."""
    contents: dict[str, bytes] = {}
    total = 0
    with tarfile.open(path) as archive:
        for member in archive:
            if member.size < 0:  # would lead back to this member for ever
                raise EOFError
            total += member.size
            _check_size(path, total)
            if member.isfile() and not member.issparse() and (file := archive.extractfile(member)):
                contents[member.name] = file.read()
                if len(contents[member.name]) != member.size:
                    raise EOFError
    return contents


def _archive_tree(path: Path, sizes: Mapping[str, int], content: Callable[[str], bytes]) -> Tree:
    parts = {name: PurePosixPath(name).parts for name in sizes}
    if outside := [name for name in sizes if name.startswith("/") or ".." in parts[name]]:
        raise errors.InputError(f"{path} holds a file outside its own folder, '{outside[0]}'. Do not trust it.")
    _check_size(path, sum(sizes.values()))
    nested = len({name[:1] for name in parts.values()}) == 1 and all(len(name) > 1 for name in parts.values())
    short = {"/".join(inner[nested:]): name for name, inner in parts.items()}
    return Tree(path, tuple(short), lambda name: content(short[name]))


def _check_size(path: Path, size: int) -> None:
    if size > MAX_BYTES:
        raise errors.InputError(f"{path} is too large: its files have more than 2 GB.")
