"""The engine: many runs, here, in processes of their own or on a cluster; one failure does not stop the others."""

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from evenhand import errors
from evenhand.datasets import Dataset
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.runs import Interrupted, Note, Paused, Progress, Report, finished, run
from evenhand.experiment.spec import Spec

Cause = Literal["mistake", "diverged", "stopped", "paused", "busy", "fault", "lost"]
ENGINES = ("auto", "inline", "processes", "ray")
AGAIN = 2.0  # seconds until a run that somebody else is making is looked at again


@dataclass(frozen=True)
class Failure:
    """A run that did not end.

    By a mistake that a user can mend, because its loss diverged, by request, because it was to go no further, because
    another process makes it, by a fault of ours, or because its worker was lost.
    """

    spec: Spec
    cause: Cause
    sentence: str
    trace: str = ""


@dataclass(frozen=True)
class Found:
    """How many of all runs were there already."""

    done: int
    of: int


Outcome = Result | Failure
Event = Found | Progress | Note | Outcome
Listener = Callable[[Event], None]


@dataclass(frozen=True)
class How:
    """Options of many runs that are not part of the experiment.

    Parameters
    ----------
    anyway, compile, until, track
        As in `run`.
    retries
        How often a run is tried again that failed by a fault, or whose worker was lost.
    patient
        Come back to a run that another process is making until it is done, or its worker dead.
    address, gpus, shared
        Of the cluster: where it is, the GPUs of a run, and whether all its nodes see the root.
    """

    anyway: bool = False
    compile: bool | None = None
    until: int | None = None
    track: tuple[str, ...] = ()
    retries: int = 0
    patient: bool = False
    address: str | None = None
    gpus: float = 0
    shared: bool = False


@dataclass(frozen=True)
class Share:
    """How the cores are used: so many processes with so many threads each."""

    workers: int
    threads: int

    @classmethod
    def of(cls, runs: int, workers: int | None = None, threads: int | None = None) -> "Share":
        """Use all cores and no more: as many processes as there are runs, then threads."""
        cores = _cores()
        if workers is not None:
            errors.whole("The number of 'workers'", workers, 1)
        if threads is not None:
            errors.whole("The number of 'threads'", threads, 1)
        workers = workers or max(1, min(runs, cores // (threads or 1)))
        threads = threads or max(1, cores // workers)
        if workers * threads > cores:
            raise errors.wrong("Workers times threads", f"not exceed the {cores} cores", f"{workers} x {threads}")
        return cls(workers, threads)


class Roster:
    """What is still to be run, how often it was tried, and what came of it."""

    def __init__(
        self, specs: Sequence[Spec], root: Path, how: How, listen: Listener, threads: Mapping[str, int] | None = None
    ) -> None:
        self.root = root
        self.how = how
        self.listen = listen
        self._threads = threads or {}
        self.outcomes: dict[str, Outcome] = {}
        self._waiting = list(specs)
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Spec | None:
        """The next spec to run, if there is one whose time has come."""
        now = time.monotonic()
        for position, spec in enumerate(self._waiting):
            if self._not_before.get(spec.key, 0) <= now:
                return self._waiting.pop(position)
        return None

    def threads(self, spec: Spec, share: int) -> int:
        """The threads of a run: those with which it was begun, or else its share."""
        return self._threads.get(spec.key, share)

    @property
    def widest(self) -> int:
        """The most threads that a run was begun with; 1 if none was."""
        return max(self._threads.values(), default=1)

    def settle(self, spec: Spec, outcome: Outcome) -> None:
        """Note what came of a run, or put it back."""
        cause = outcome.cause if isinstance(outcome, Failure) else None
        if cause == "busy" and (self.how.patient or spec.key in self._tries):
            self._put_back(spec)  # who has just been lost may still hold it
            return
        tried = self._tries[spec.key] = self._tries.get(spec.key, 0) + 1
        if isinstance(outcome, Failure) and cause in ("fault", "lost"):
            if tried <= self.how.retries:
                self.listen(Note(spec.key, f"{outcome.sentence} Trying again."))
                self._put_back(spec)
                return
            if cause == "lost":
                outcome = self._bury(spec, outcome)
        self.outcomes[spec.key] = outcome
        self.listen(outcome)

    def stop(self) -> None:
        """Begin nothing more."""
        for spec in self._waiting:
            self.outcomes[spec.key] = Failure(spec, "stopped", "Not begun.")
            self.listen(self.outcomes[spec.key])
        self._waiting.clear()

    def _put_back(self, spec: Spec) -> None:
        self._not_before[spec.key] = time.monotonic() + AGAIN
        self._waiting.append(spec)

    def _bury(self, spec: Spec, failure: Failure) -> Outcome:
        """Record the failure that a lost worker could not record itself, unless it was lost with its run done."""
        folder = Folder(self.root, spec)
        with suppress(errors.RunError), folder.locked():
            if result := folder.result():
                return result
            folder.fail(failure.sentence)
        return failure


def run_all(
    specs: Sequence[Spec],
    root: Path,
    how: How | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    listen: Listener = lambda _: None,
) -> list[Outcome]:
    """Run what is missing of the specs and return all outcomes in their order.

    A run that was begun with a number of threads goes on with it, since the bits depend on it; where there are too few
    cores for that, it says so, and the others are made.
    """
    errors.choice("The 'engine'", engine, ENGINES)
    how = how or How()
    done: dict[str, Result] = {}
    begun: dict[str, int] = {}  # the threads of runs that were stopped
    for spec in dict.fromkeys(specs):
        with suppress(errors.RunError, KeyError, TypeError):  # what is damaged is named when its run is tried
            folder = Folder(root, spec)
            if result := finished(folder):
                done[spec.key] = result
            elif folder.begun and threads is None:
                was = folder.status()["environment"]["threads"]
                if engine == "ray" or was <= _cores():
                    begun[spec.key] = was
    missing = [spec for spec in dict.fromkeys(specs) if spec.key not in done]
    listen(Found(len(done), len(done) + len(missing)))
    for name, value in {"threads": threads, "compile": how.compile}.items():
        if other := sum(value is not None and made.environment.get(name, value) != value for made in done.values()):
            listen(
                Note("", f"Made under another --{name} and taken as they are: {other}. Another root makes them anew.")
            )
    if workers is None and len(set(begun.values())) == 1:
        threads = max(begun.values())
    roster = Roster(missing, root, how, listen, begun)
    if missing:
        _start(engine, roster, workers, threads)
    outcomes = {**done, **roster.outcomes}
    return [outcomes[spec.key] for spec in specs]


def _start(engine: str, roster: Roster, workers: int | None, threads: int | None) -> None:
    if engine == "ray":
        from evenhand.experiment import cluster

        cluster.work(roster, workers, threads or 1)
        return
    share = Share.of(1 if engine == "inline" else len(roster), 1 if engine == "inline" else workers, threads)
    if share.workers * roster.widest > _cores():  # some keep more threads than their share
        share = Share.of(len(roster), _cores() // roster.widest, threads)
    if engine == "inline" or (engine == "auto" and share.workers == 1):
        _inline(roster, share.threads)
    else:
        from evenhand.experiment import processes

        processes.work(roster, share.workers, share.threads)


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _inline(roster: Roster, threads: int) -> None:
    while roster:
        if (spec := roster.take()) is None:
            time.sleep(0.1)
            continue
        torch.set_num_threads(roster.threads(spec, threads))
        outcome = attempt(spec, roster.root, roster.how, roster.listen)
        roster.settle(spec, outcome)
        if isinstance(outcome, Failure) and outcome.cause == "stopped":
            roster.stop()


def attempt(
    spec: Spec,
    root: Path,
    how: How,
    report: Report,
    stop: Callable[[], bool] = lambda: False,
    dataset: Dataset | None = None,
) -> Outcome:
    """Run a spec, and return what went wrong rather than raise it."""
    options: dict[str, Any] = {name: getattr(how, name) for name in ("anyway", "compile", "until", "track")}
    try:
        return run(spec, root, report=report, stop=stop, dataset=dataset, **options)
    except errors.BusyError as error:
        return Failure(spec, "busy", str(error))
    except errors.EvenhandError as error:
        return Failure(spec, "diverged" if isinstance(error, errors.DivergedError) else "mistake", str(error))
    except Interrupted as request:
        return Failure(spec, "paused" if isinstance(request, Paused) else "stopped", str(request))
    except Exception as error:
        return Failure(spec, "fault", f"{type(error).__name__}: {error}", traceback.format_exc())
