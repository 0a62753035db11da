"""What can go from below a root: leftovers, stale locks, failed and outdated runs, and the states of done ones.

Only files that a run has written are ever removed, and only while its lock is ours.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evenhand import errors
from evenhand.experiment import lock
from evenhand.experiment.inventory import Row, read

STATES = ("state.safetensors", "state.previous.safetensors")
# In this order, so that a removal that was cut short can be finished: the status still says that the run failed.
WRITTEN = (*STATES, "metrics.jsonl", "timing.jsonl", "status.json", "spec.json")
TRACKED = ("tensorboard", "wandb")  # the folders of trackers


@dataclass(frozen=True)
class Removal:
    """What goes of one run.

    Attributes
    ----------
    sizes
        The files, each with its bytes, in the order in which they go.
    what
        The kinds of files; for a run that goes as a whole, its state.
    """

    row: Row
    sizes: Mapping[Path, int]
    what: str

    @property
    def whole(self) -> bool:
        """Whether the run itself goes, not just files beside its records."""
        return self.row.state in ("failed", "outdated")


def plan(row: Row, states: bool = False) -> Removal | None:
    """What of a run can go; None if there is nothing, or if the run must be left alone.

    Parameters
    ----------
    states
        Whether the states of done runs go too.
    """
    # A link may lead out of the root, and a damaged folder may be something else altogether.
    if row.state in ("running", "damaged") or row.path.is_symlink():
        return None
    whole, bare = row.state in ("failed", "outdated"), states and row.state == "done"
    kinds = {
        "leftovers": _leftovers(row.path),
        "tracking": [path for name in TRACKED if whole for path in _below(row.path / name)],
        "state": [row.path / name for name in STATES if whole or bare],
        "records": [row.path / name for name in WRITTEN if whole and name not in STATES],
        "stale lock": [row.path / lock.NAME],
    }
    found = {kind: {path: size for path in paths if (size := _size(path)) is not None} for kind, paths in kinds.items()}
    sizes = {path: size for files in found.values() for path, size in files.items()}
    what = f"the run, {row.state}" if whole else ", ".join(kind for kind, files in found.items() if files)
    return Removal(row, sizes, what) if sizes else None


def prune(removal: Removal, states: bool = False) -> int:
    """Remove what was planned, and return the bytes that are free now: none if the run has changed since."""
    folder = removal.row.path
    with lock.held(folder / lock.NAME):  # this buries a stale lock, and in the end the file goes with ours
        fresh = plan(read(folder, ours=True), states)
        if fresh is not None and fresh.row.state == removal.row.state:
            for path in fresh.sizes:
                if path.name != lock.NAME:
                    _unlink(path)
    if removal.whole:
        tracked = [folder / name for name in TRACKED if not (folder / name).is_symlink()]
        places = [Path(place) for inner in tracked for place, _, _ in os.walk(inner, topdown=False)]
        for place in (*places, folder):
            with suppress(OSError):  # a file of somebody's own is there, or the run was begun anew
                place.rmdir()
    return sum(size for path, size in removal.sizes.items() if _size(path) is None)


def _leftovers(folder: Path) -> list[Path]:
    """Files of a process that was killed while it wrote or looked at the lock."""
    starts = (f"{lock.NAME}.", *(f".{name}." for name in WRITTEN))
    return sorted(path for path in folder.iterdir() if path.name.startswith(starts))


def _below(folder: Path) -> list[Path]:
    """All files and links below a folder; no link is followed."""
    if folder.is_symlink():
        return [folder]
    return sorted(Path(place, name) for place, inner, names in os.walk(folder) for name in (*inner, *names))


def _size(path: Path) -> int | None:
    """The bytes of a file or a link itself; None for what is neither."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode) else None


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise errors.RunError(f"{path} cannot be removed: {error.strerror}.") from None
