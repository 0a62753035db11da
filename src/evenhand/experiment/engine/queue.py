"""The queue of runs that all engines share: what is left to run, how often it was tried, and the outcomes."""

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenhand import errors
from evenhand.core.settings import Conditions
from evenhand.datasets import Dataset
from evenhand.experiment.environment import keep_freed_memory
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.run import AUTO, Interrupted, Note, Paused, Progress, Report, run
from evenhand.experiment.spec import Spec

Cause = Literal["mistake", "diverged", "stopped", "paused", "busy", "fault", "lost"]
RETRY_SECONDS = 2.0  # until a run that failed, or that another process holds, is tried again


@dataclass(frozen=True)
class Failure:
    """A run that did not finish.

    It was a mistake that the user can fix, or a fault, any other exception; it diverged; it was stopped on request, or
    paused where it was to pause; it is busy in another process; or it was lost with its worker.
    """

    spec: Spec
    cause: Cause
    message: str
    trace: str = ""


@dataclass(frozen=True)
class Reused:
    """How many of all runs were finished already."""

    count: int
    total: int


Outcome = Result | Failure
Event = Reused | Progress | Note | Outcome
Listener = Callable[[Event], None]


@dataclass(frozen=True)
class RunOptions:
    """Options of many runs that are not part of the experiment; the first four are those of `run`."""

    conditions: Conditions = AUTO
    anyway: bool = False
    until: int | None = None
    track: tuple[str, ...] = ()
    retries: int = 0  # how often to retry a run after a fault, or when its worker died
    patient: bool = False  # wait for a run that another process holds until it is finished or its holder is dead
    address: str | None = None  # of a cluster
    gpus: float = 0  # per run, on a cluster
    shared: bool = False  # whether all nodes of a cluster see the root


@dataclass(frozen=True)
class Allocation:
    """How the cores are used: the number of processes, and the threads of each."""

    workers: int
    threads: int

    @classmethod
    def of(cls, runs: int, workers: int | None = None, threads: int | None = None) -> "Allocation":
        """Use all cores but no more: first one process per run, then several threads per process."""
        available = cores()
        for name, count in (("workers", workers), ("threads", threads)):
            if count is not None:
                errors.whole(f"The number of '{name}'", count, 1)
        workers = workers or max(1, min(runs, available // (threads or 1)))
        threads = threads or max(1, available // workers)
        if workers * threads > available:
            each = f"{threads} thread{'' if threads == 1 else 's'}"
            who = f"{workers} workers with {each} each need" if workers > 1 else f"1 worker with {each} needs"
            only = "is 1" if available == 1 else f"are {available}"
            raise errors.InputError(f"{who} {workers * threads} cores, but there {only}.")
        return cls(workers, threads)


class RunQueue:
    """Runs that are left, how often each was tried, and the outcomes by key; `listen` is called with every event.

    Interrupted runs keep their number of threads, which `threads` has by key.
    """

    def __init__(
        self, specs: Sequence[Spec], root: Path, options: RunOptions, listen: Listener, threads: Mapping[str, int] = {}
    ) -> None:
        self.root = root
        self.options = options
        self.listen = listen
        self.threads = threads
        self.outcomes: dict[str, Outcome] = {}
        self._waiting = [(0.0, spec) for spec in specs]  # not before this moment
        self._tries: dict[str, int] = {}
        self._awaited: set[str] = set()  # held by another process when they were taken

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Spec | None:
        """The next spec to run; None if there is none, or all are waiting to be retried."""
        for position, (moment, spec) in enumerate(self._waiting):
            if moment <= time.monotonic():
                del self._waiting[position]
                return spec
        return None

    def record(self, outcome: Outcome) -> None:
        """Record the outcome of a run, or put the run back to try it again."""
        spec, cause = outcome.spec, outcome.cause if isinstance(outcome, Failure) else None
        if isinstance(outcome, Failure) and cause == "busy" and (self.options.patient or spec.key in self._tries):
            if spec.key not in self._awaited:
                self._awaited.add(spec.key)
                self.listen(Note(spec.key, f"{outcome.message} Waiting for it to end."))
            self._put_back(spec)  # a worker that has just died may still hold it
            return
        tried = self._tries[spec.key] = self._tries.get(spec.key, 0) + 1
        if isinstance(outcome, Failure) and cause in ("fault", "lost"):
            if tried <= self.options.retries:
                self.listen(Note(spec.key, f"{outcome.message.rstrip('.')}. Trying again."))
                self._put_back(spec)
                return
            if cause == "lost":
                outcome = self._record_loss(outcome)
        self.outcomes[spec.key] = outcome
        self.listen(outcome)

    def stop(self) -> None:
        """Drop the runs that are left."""
        for _, spec in self._waiting:
            self.outcomes[spec.key] = Failure(spec, "stopped", "Not started.")
            self.listen(self.outcomes[spec.key])
        self._waiting.clear()

    def _put_back(self, spec: Spec) -> None:
        self._waiting.append((time.monotonic() + RETRY_SECONDS, spec))

    def _record_loss(self, failure: Failure) -> Outcome:
        """Record the failure that a dead worker could not record itself, unless it died after finishing the run."""
        folder = Folder(self.root, failure.spec)
        with suppress(errors.RunError), folder.locked():
            if result := folder.result():
                return result
            folder.fail(failure.message)
        return failure


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def attempt(
    spec: Spec,
    root: Path,
    options: RunOptions,
    report: Report,
    stop: Callable[[], bool] = lambda: False,
    dataset: Dataset | None = None,
) -> Outcome:
    """Run a spec, and return a `Failure` rather than raise."""
    keep_freed_memory()
    given: dict[str, Any] = {name: getattr(options, name) for name in ("conditions", "anyway", "until", "track")}
    try:
        return run(spec, root, report=report, stop=stop, dataset=dataset, **given)
    except errors.BusyError as error:
        return Failure(spec, "busy", str(error))
    except errors.EvenhandError as error:
        return Failure(spec, "diverged" if isinstance(error, errors.DivergedError) else "mistake", str(error))
    except Interrupted as request:
        return Failure(spec, "paused" if isinstance(request, Paused) else "stopped", str(request))
    except Exception as error:
        return Failure(spec, "fault", f"{type(error).__name__}: {error}", traceback.format_exc())
