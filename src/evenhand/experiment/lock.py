"""A lock file with a heartbeat, so that only one worker runs a spec, on one machine or on a shared disk.

The file names its holder, who touches it every few seconds. The lock is stale, and free to take, if the holder is a
process of this machine that is gone, or if nobody has touched the file for a minute. Should two workers ever believe
that they hold it, nothing is lost: both write the same bits, and the late one notices before it writes again.
"""

import fcntl
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evenhand import errors

BEAT = 5.0  # seconds between two touches
PATIENCE = 60.0  # seconds without a touch after which a lock is stale
NAME = ".lock"


class Lock:
    """A held lock; `is_ours` tells whether another process has taken it over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = {**_here(), "token": uuid.uuid4().hex}
        self._done = threading.Event()

    def is_ours(self) -> bool:
        """Whether the file still has our token. A file that cannot be read at the moment counts as ours."""
        try:
            return _read(self.path).get("token") == self.owner["token"]
        except OSError:
            return True

    def acquire(self) -> bool:
        """Create the file; False if it exists."""
        try:
            file = self.path.open("x")
        except FileExistsError:
            return False
        try:
            with file:
                file.write(json.dumps(self.owner))
        except OSError:
            self.path.unlink(missing_ok=True)
            raise
        threading.Thread(target=self._beat, name=f"heartbeat of {self.path}", daemon=True).start()
        return True

    def release(self) -> None:
        """Stop the heartbeat and remove the file if it is still ours."""
        self._done.set()
        if self.is_ours():
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._done.wait(BEAT):
            with suppress(OSError):  # the disk may be gone for a moment
                if not self.is_ours():
                    return
                os.utime(self.path)


@contextmanager
def held(path: Path) -> Iterator[Lock]:
    """Hold the lock file, whose folder must exist; raise if another process holds it."""
    lock = Lock(path)
    try:
        while not lock.acquire():
            if (other := holder(path)) is not None:
                raise errors.BusyError(f"The run {path.parent.name} is locked by {other}.")
            _remove_stale(path)
    except FileNotFoundError:  # the folder, which was there a moment ago
        raise errors.BusyError(f"The folder {path.parent} is being removed by another process.") from None
    except OSError as error:
        raise errors.RunError(f"The run folder {path.parent} cannot be written: {error.strerror}.") from None
    try:
        yield lock
    finally:
        lock.release()


def holder(path: Path) -> str | None:
    """Description of the live holder of a lock, or None."""
    try:
        beat = path.stat().st_mtime
    except OSError:
        return None
    if _now(path) - beat > PATIENCE:
        return None
    try:
        owner, here = _read(path), _here()
    except OSError:
        return "a process that cannot be identified at the moment"
    if all(owner.get(name) == here[name] for name in ("machine", "boot", "space")):
        alive = _began(owner.get("process")) == owner.get("began", "never")
        return f"process {owner['process']}" if alive else None
    if not {"process", "machine"} <= owner.keys():
        return "a process that has not named itself"
    return f"process {owner['process']} on {owner['machine']}"


def _now(path: Path) -> float:
    """The time by the clock of the disk, since machines that share it may disagree."""
    probe = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove a stale lock. If several processes try at once, one succeeds."""
    moved = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every disk can exclude others that remove stale locks here
            fcntl.flock(folder, fcntl.LOCK_EX)
        if not path.exists() or holder(path) is not None:
            return
        path.rename(moved)
        if holder(moved) is not None:  # another process was faster and this is its lock: give it back
            with suppress(FileExistsError):
                os.link(moved, path)
        moved.unlink(missing_ok=True)
    except FileNotFoundError:  # another process has removed it
        pass
    finally:
        os.close(folder)


def _read(path: Path) -> dict[str, Any]:
    """The owner named in the file; {} if the file is gone or incomplete."""
    try:
        owner = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _here() -> dict[str, Any]:
    """The current process, with the boot and the namespace in which its id is valid."""
    return {
        "machine": platform.node(),
        "boot": _proc("sys/kernel/random/boot_id"),
        "space": _proc("self/ns/pid"),
        "process": os.getpid(),
        "began": _began(os.getpid()),
    }


def _began(process: Any) -> str | None:
    """Start time of a process, to tell it from a later one with the same id; None if it is gone."""
    if not isinstance(process, int) or (stat := _proc(f"{process}/stat")) is None:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state == "Z" else fields[18]


def _proc(name: str) -> str | None:
    """Content of a file below /proc, or the target of a link; None if it is not there."""
    path = Path("/proc", name)
    try:
        return str(path.readlink()) if path.is_symlink() else path.read_text().strip()
    except OSError:
        return None
