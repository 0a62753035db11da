"""Removing leftovers, stale locks, failed and outdated runs and, on request, the states of finished runs.

Only files that a run has written are ever removed, and only while this process holds the lock of the run.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evenhand import errors
from evenhand.experiment import lock
from evenhand.experiment.folder import STATES, WRITTEN, leftovers
from evenhand.experiment.records.inventory import RunEntry, read_entry

TRACKED = ("tensorboard", "wandb")  # folders that sinks write


@dataclass(frozen=True)
class Removal:
    """What to remove of one run."""

    entry: RunEntry
    sizes: Mapping[Path, int]
    """The files with their sizes in bytes, in the order of removal."""
    what: str
    """The kinds of files or, if the whole run goes, its state."""

    @property
    def whole(self) -> bool:
        """Whether the whole run goes, with its records."""
        return self.entry.state in ("failed", "outdated")

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(self.sizes.values())


def plan(entry: RunEntry, states: bool = False) -> Removal | None:
    """What to remove of a run; None if there is nothing, or if the run must not be touched.

    With `states`, that of a finished run goes too.
    """
    # A link may point outside the root, and a damaged folder may not be a run at all.
    if entry.state in ("running", "damaged") or entry.path.is_symlink():
        return None
    whole = entry.state in ("failed", "outdated")
    kinds = {
        "leftovers": leftovers(entry.path),
        "tracking": [path for name in TRACKED if whole for path in _below(entry.path / name)],
        "state": [entry.path / name for name in STATES if whole or (states and entry.state == "done")],
        "records": [entry.path / name for name in WRITTEN if whole and name not in STATES],
        "stale lock": [entry.path / lock.NAME],
    }
    found = {kind: {path: size for path in paths if (size := _size(path)) is not None} for kind, paths in kinds.items()}
    sizes = {path: size for files in found.values() for path, size in files.items()}
    what = f"the run, {entry.state}" if whole else ", ".join(kind for kind, files in found.items() if files)
    return Removal(entry, sizes, what) if sizes else None


def prune(removal: Removal, states: bool = False) -> int:
    """Remove what was planned, unless the run has changed since, and return the number of bytes freed."""
    folder = removal.entry.path
    with lock.held(folder / lock.NAME):  # this replaces a stale lock, and removes the file in the end
        fresh = plan(read_entry(folder, ours=True), states)
        if fresh is not None and fresh.entry.state == removal.entry.state:
            for path in fresh.sizes:
                if path.name != lock.NAME:
                    _unlink(path)
    if removal.whole:
        tracked = [folder / name for name in TRACKED if not (folder / name).is_symlink()]
        inner = [Path(path) for top in tracked for path, _, _ in os.walk(top, topdown=False)]
        for path in (*inner, folder):
            with suppress(OSError):  # it has a file of the user's, or the run was started again
                path.rmdir()
    return sum(size for path, size in removal.sizes.items() if _size(path) is None)


def _below(folder: Path) -> list[Path]:
    """All files and links below a folder, without following links."""
    if folder.is_symlink():
        return [folder]
    return sorted(Path(path, name) for path, folders, names in os.walk(folder) for name in (*folders, *names))


def _size(path: Path) -> int | None:
    """Size of a file, or of a link itself; None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise errors.RunError(f"{path} cannot be removed: {error.strerror}.") from None
