"""Where data lies: the folders that are searched, and the cache."""

import os
from collections.abc import Iterable
from pathlib import Path

SYSTEM = Path("/usr/share/datasets")  # where Debian's dataset packages put theirs


def cache() -> Path:
    """The folder for data that was fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


def folders() -> list[Path]:
    """All folders that are searched, the first find wins: EVENHAND_DATA (--data-dir), the cache, the system's own.

    EVENHAND_DATA is a search path, unless all of it is the name of one folder: --data-dir may have a colon in it.
    """
    given = os.environ.get("EVENHAND_DATA", "")
    one = os.path.isdir(given)  # noqa: PTH112 - Path's raises for a long search path
    parts = [given] if one else given.split(os.pathsep)
    return [*(expanded(folder) for folder in parts if folder), cache(), SYSTEM]


def home() -> Path:
    """Where data is put that is fetched: the first of EVENHAND_DATA, or the cache."""
    return folders()[0]


def find(names: Iterable[str]) -> tuple[Path, str] | None:
    """The first of these names that is there, relative to the first of the folders that has one: its path, and it."""
    candidates = list(names)
    found = ((folder / name, name) for folder in folders() for name in candidates)
    return next((pair for pair in found if os.path.exists(pair[0])), None)  # noqa: PTH110 - Path's raises for some


def expanded(path: str) -> Path:
    """A path with the home folder for ~; one of a user that is not known stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path's raises then
