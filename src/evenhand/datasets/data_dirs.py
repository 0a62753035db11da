"""The directories in which datasets are searched, downloaded and cached."""

import os
from pathlib import Path

SYSTEM = Path("/usr/share/datasets")  # where Debian packages install datasets


def cache_dir() -> Path:
    """Return the directory for downloaded data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


def search_path() -> list[Path]:
    """Return the directories to search, in order: EVENHAND_DATA (--data-dir), the cache, the system's.

    Downloads go to the first one. EVENHAND_DATA is a list of directories with `:` between, unless it names one existing
    directory as a whole: --data-dir may contain a colon.
    """
    text = os.environ.get("EVENHAND_DATA", "")
    single = os.path.isdir(text)  # noqa: PTH112 - Path raises for a long list
    parts = [text] if single else text.split(os.pathsep)
    return [*(expand(part) for part in parts if part), cache_dir(), SYSTEM]


def expand(path: str) -> Path:
    """Replace ~ by the home directory; that of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path raises for unknown users
