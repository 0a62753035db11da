"""Files in a folder, a tar or a zip, read by name and never unpacked to disk."""

import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from evenhand import errors

Content = Path | bytes  # a file's place in a folder, or its bytes out of an archive
Member = tuple[str, int, Callable[[], bytes] | None]  # of an archive: its name, its size and, if it is a file, a reader

JUNK = "__MACOSX"  # a folder that macOS adds to archives, with files of no use elsewhere
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
    files: Mapping[str, Content]

    def entry(self, name: str) -> tuple[str, Content]:
        """Return the full name of a file, for errors, and its content."""
        if name not in self.files:
            raise DamagedError(f"{self.path} is incomplete: it has no '{name}'.")
        return str(self.path / name), self.files[name]

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        return read(self.entry(name)[1])

    def lines(self, name: str) -> list[str]:
        """Return the non-empty lines of a text file."""
        try:
            return [line.strip() for line in self.read(name).decode("utf-8-sig").splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise errors.InputError(f"{self.path / name} is damaged: it is not a text file.") from None


def read(content: Content) -> bytes:
    """Return the bytes of a file."""
    return content.read_bytes() if isinstance(content, Path) else content


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Open a folder or an archive; any damage found while it is open is reported in one sentence."""
    try:
        folder = {str(file.relative_to(path)): file for file in walk(path)} if path.is_dir() else None
        yield Tree(path, _read_archive(path) if folder is None else folder)
    except errors.EvenhandError:
        raise
    except DAMAGE as error:
        raise DamagedError(f"{path} is damaged or incomplete ({type(error).__name__}).") from None
    except OSError as error:
        raise errors.InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def walk(path: Path) -> Iterator[Path]:
    """Yield all files below a folder in order, without hidden ones and junk; fast enough for a hundred thousand.

    A path that is not a folder is yielded itself.
    """
    if not path.is_dir():
        yield path
    seen = set()
    for place, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != JUNK)
        facts = os.stat(place)  # noqa: PTH116 - faster than Path
        if (facts.st_dev, facts.st_ino) in seen:  # a link to a parent folder would never end
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        inside = Path(place)
        yield from (inside / name for name in sorted(names) if name[0] != ".")


def _read_archive(path: Path) -> dict[str, bytes]:
    """Read all files at once: a compressed tar can only be read from beginning to end."""
    contents: dict[str, bytes] = {}
    total = 0
    for name, size, content in _zip_members(path) if path.suffix == ".zip" else _tar_members(path):
        if size < 0:  # would lead back to this member for ever
            raise EOFError
        total += size
        if total > MAX_BYTES:
            raise errors.InputError(f"{path} is too large: its files have more than 2 GB.")
        if content and not name.startswith(f"{JUNK}/"):
            contents[name] = content()
            if len(contents[name]) != size:
                raise EOFError
    parts = {name: PurePosixPath(name).parts for name in contents}
    if outside := [name for name in contents if name.startswith("/") or ".." in parts[name]]:
        raise errors.InputError(f"{path} holds a file outside its own folder, '{outside[0]}'. Do not trust it.")
    nested = len({name[:1] for name in parts.values()}) == 1 and all(len(name) > 1 for name in parts.values())
    return {"/".join(parts[name][nested:]): content for name, content in contents.items()}


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            yield member.filename, member.file_size, None if member.is_dir() else partial(archive.read, member)


def _tar_members(path: Path) -> Iterator[Member]:
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() and not member.issparse() else None
            yield member.name, member.size, file.read if file else None
