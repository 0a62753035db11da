"""Files in a folder, a tar or a zip, read by name and never unpacked to disk."""

import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from evenhand import errors

LARGEST = 1 << 31  # bytes in an archive's files; what claims more is a mistake or an attack
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, ValueError, LookupError, OverflowError, MemoryError, NotImplementedError, RuntimeError),
)


class DamagedError(errors.InputError):
    """Data that are not whole; a known dataset adds what to do about it."""


@dataclass(frozen=True)
class Tree:
    """Files by their names below the root; the one top folder of an archive is its root."""

    path: Path
    names: tuple[str, ...]
    content: Callable[[str], bytes]

    @cached_property
    def files(self) -> frozenset[str]:
        """All names, for looking one up."""
        return frozenset(self.names)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        if name not in self.files:
            raise DamagedError(f"{self.path} is incomplete: it has no '{name}'.")
        return self.content(name)

    def lines(self, name: str) -> list[str]:
        """The lines of a text file that are not empty."""
        try:
            return [line.strip() for line in self.read(name).decode().splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise errors.InputError(f"{self.path / name} is damaged: it is no text.") from None

    def later(self, names: Sequence[str]) -> Callable[[int], bytes]:
        """A function that reads these files by their numbers, when the archive is closed already."""
        if self.path.is_dir():
            return lambda number: (self.path / names[number]).read_bytes()
        return [self.read(name) for name in names].__getitem__


@contextmanager
def opened(path: Path) -> Iterator[Tree]:
    """Open a folder or an archive; damage is one sentence, whenever it shows."""
    try:
        if path.is_dir():
            files = tuple(str(file.relative_to(path)) for file in walk(path))
            yield Tree(path, files, lambda name: (path / name).read_bytes())
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                infos = [info for info in archive.infolist() if not info.is_dir()]
                yield _tree(path, {info.filename: info for info in infos}, archive.read, lambda info: info.file_size)
        else:
            with tarfile.open(path) as bundle:
                # A compressed tar can be read only from its beginning to its end, so all of it is read at once.
                whole: dict[str, bytes] = {}
                for member in bundle:
                    if member.size < 0:  # the next member would be this one again, for ever
                        raise EOFError
                    if sum(map(len, whole.values())) + member.size > LARGEST:
                        raise _too_large(path)
                    if member.isfile() and not member.issparse() and (file := bundle.extractfile(member)):
                        whole[member.name] = file.read()
                        if len(whole[member.name]) != member.size:
                            raise EOFError
                yield _tree(path, whole, lambda content: content, len)
    except errors.EvenhandError:
        raise
    except DAMAGE as error:
        raise DamagedError(f"{path} is damaged or incomplete ({type(error).__name__}).") from None
    except OSError as error:
        raise errors.InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def walk(folder: Path) -> Iterator[Path]:
    """All files below a folder that are not hidden, in order; thousands of them take no time."""
    seen = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        facts = os.stat(place)  # noqa: PTH116 - as below, where there may be a hundred thousand
        if (facts.st_dev, facts.st_ino) in seen:  # a link to a folder above it would have no end
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        inside = Path(place)
        yield from (inside / name for name in sorted(names) if name[0] != ".")


def _tree(path: Path, members: dict[str, Any], content: Callable[[Any], bytes], size: Callable[[Any], int]) -> Tree:
    parts = {name: PurePosixPath(name).parts for name in members}
    if leaving := [name for name in members if name.startswith("/") or ".." in parts[name]]:
        raise errors.InputError(f"{path} holds a file that would leave its folder, '{leaving[0]}'. Do not trust it.")
    if sum(map(size, members.values())) > LARGEST:
        raise _too_large(path)
    nested = len({found[:1] for found in parts.values()}) == 1 and all(len(found) > 1 for found in parts.values())
    short = {"/".join(found[nested:]): name for name, found in parts.items()}
    return Tree(path, tuple(short), lambda name: content(members[short[name]]))


def _too_large(path: Path) -> errors.InputError:
    return errors.InputError(f"{path} is not what it should be: it holds more than 2 GB.")
