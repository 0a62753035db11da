"""Files in a folder, a tar or a zip, read by name and never unpacked to disk."""

import os
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
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)


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
            raise errors.InputError(f"{self.path} is incomplete: it has no '{name}'. Fetch it anew.")
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
                    if sum(map(len, whole.values())) + member.size > LARGEST:
                        raise errors.InputError(f"{path} is not what it should be: it holds more than 2 GB.")
                    if member.isfile() and (file := bundle.extractfile(member)):
                        whole[member.name] = file.read()
                        if len(whole[member.name]) != member.size:
                            raise EOFError
                yield _tree(path, whole, lambda content: content, len)
    except errors.EvenhandError:
        raise
    except DAMAGE as error:
        raise errors.InputError(f"{path} is damaged or incomplete ({type(error).__name__}). Fetch it anew.") from None
    except OSError as error:
        raise errors.InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def walk(folder: Path) -> Iterator[Path]:
    """All files below a folder that are not hidden, in order; thousands of them take no time."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        inside = Path(place)
        yield from (inside / name for name in sorted(names) if name[0] != ".")


def _tree(path: Path, members: dict[str, Any], content: Callable[[Any], bytes], size: Callable[[Any], int]) -> Tree:
    for name, member in members.items():
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise errors.InputError(f"{path} holds a file that would leave its folder, '{name}'. Do not trust it.")
        if size(member) > LARGEST:
            raise errors.InputError(f"{path} is not what it should be: '{name}' has more than 2 GB.")
    tops = {PurePosixPath(name).parts[0] for name in members}
    nested = len(tops) == 1 and all(len(PurePosixPath(name).parts) > 1 for name in members)
    short = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) if nested else name: name for name in members}
    return Tree(path, tuple(short), lambda name: content(members[short[name]]))
