"""Where data lies: the folders that are searched, and the cache."""

import os
from collections.abc import Iterable
from pathlib import Path

SYSTEM = Path("/usr/share/datasets")  # where Debian's dataset packages put theirs


def cache() -> Path:
    """The folder for data that was fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


def folders() -> list[Path]:
    """All folders that are searched, the first find wins: EVENHAND_DATA (--data-dir), the cache, the system's own."""
    given = os.environ.get("EVENHAND_DATA", "").split(os.pathsep)
    return [*(Path(folder).expanduser() for folder in given if folder), cache(), SYSTEM]


def home() -> Path:
    """Where data is put that is fetched: the first of EVENHAND_DATA, or the cache."""
    return folders()[0]


def find(names: Iterable[str]) -> Path | None:
    """The first of these names that is there, relative to the folders."""
    candidates = list(names)
    return next((path for folder in folders() for name in candidates if (path := folder / name).exists()), None)
