"""A lock with a heartbeat: it keeps two workers off one run, on one machine or on a shared disk.

The lock is a file that says who holds it, touched every few seconds. A holder on this machine whose process is gone,
or one anywhere whose heart has not beaten for a minute, is dead: then the lock is free. Should two workers ever believe
that they hold it, nothing is lost: a run writes the same bits whoever makes it, and the one who was late finds out at
the next checkpoint.
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
PATIENCE = 60.0  # seconds without one, after which a holder counts as dead
NAME = ".lock"


class Lock:
    """A lock that is held; `still` tells whether somebody has taken it over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = {**_here(), "token": uuid.uuid4().hex}
        self._done = threading.Event()

    def still(self) -> bool:
        """Whether the file still says that it is ours, or cannot be read at the moment."""
        try:
            return _read(self.path).get("token") == self.owner["token"]
        except OSError:
            return True

    def take(self) -> bool:
        """Create the file; False if it is there already."""
        try:
            with self.path.open("x") as file:
                file.write(json.dumps(self.owner))
        except FileExistsError:
            return False
        threading.Thread(target=self._beat, name=f"heartbeat of {self.path}", daemon=True).start()
        return True

    def release(self) -> None:
        """Stop the heart and remove the file, if it is still ours."""
        self._done.set()
        if self.still():
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._done.wait(BEAT):
            with suppress(OSError):  # a disk that is away for a moment
                if not self.still():
                    return
                os.utime(self.path)


@contextmanager
def held(path: Path, wait: float = 0) -> Iterator[Lock]:
    """Hold the lock; if somebody else does, wait for so many seconds, then raise.

    Parameters
    ----------
    path
        The lock's file; its folder must exist.
    """
    lock, until = Lock(path), time.monotonic() + wait
    try:
        while not lock.take():
            if (other := holder(path)) is None:
                _bury(path)
            elif time.monotonic() >= until:
                raise errors.BusyError(f"The run {path.parent.name} is being made by {other}.")
            else:
                time.sleep(0.5)
    except OSError as error:
        raise errors.RunError(f"The run folder {path.parent} cannot be written: {error.strerror}.") from None
    try:
        yield lock
    finally:
        lock.release()


def holder(path: Path) -> str | None:
    """Who holds the lock; None if nobody does who is alive."""
    try:
        beat = path.stat().st_mtime
    except OSError:
        return None
    if _now(path) - beat > PATIENCE:
        return None
    try:
        owner, here = _read(path), _here()
    except OSError:
        return "a process that cannot be asked at the moment"
    if all(owner.get(name) == here[name] for name in ("machine", "boot", "space")):
        alive = _began(owner.get("process")) == owner.get("began", "never")
        return f"process {owner['process']}" if alive else None
    return f"process {owner.get('process', '?')} on {owner.get('machine', 'an unknown machine')}"


def _now(path: Path) -> float:
    """The time by the clock of the disk, since the machines that share it may differ."""
    probe = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _bury(path: Path) -> None:
    """Remove a dead holder's lock; of several who try at once one succeeds."""
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with suppress(FileNotFoundError), _alone(path.parent):
        if not path.exists() or holder(path) is not None:
            return
        path.rename(aside)
        if holder(aside) is not None:  # somebody was faster and this is theirs: give it back
            with suppress(FileExistsError):
                os.link(aside, path)
        aside.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let others wait who would bury in this folder, where its disk can do that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    """What the file says; {} for one that is gone, or not yet whole."""
    try:
        owner = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _here() -> dict[str, Any]:
    """The process, and the kernel and namespace in which its number means something."""
    return {
        "machine": platform.node(),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "space": _space(),
        "process": os.getpid(),
        "began": _began(os.getpid()),
    }


def _began(process: Any) -> str | None:
    """When a process began, which tells it from a later one of the same number; None if there is none."""
    if not isinstance(process, int):
        return None
    if (stat := _text(f"/proc/{process}/stat")) is not None:
        state, *fields = stat.rpartition(")")[2].split()
        return None if state == "Z" else fields[18]
    try:
        os.kill(process, 0)  # where there is no /proc, a number alone has to do
    except PermissionError:
        return "some time ago"
    except (OSError, OverflowError):
        return None
    return "some time ago"


def _space() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
