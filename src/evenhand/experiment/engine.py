"""The local engine: many runs, here or in processes of their own, each with its share of the cores."""

import multiprocessing
import os
import queue
import signal
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch

from evenhand import errors
from evenhand.experiment.folder import Folder
from evenhand.experiment.process import stop_requests
from evenhand.experiment.result import Result
from evenhand.experiment.runs import Interrupted, Progress, run
from evenhand.experiment.spec import Spec


@dataclass(frozen=True)
class Failure:
    """A run that did not end: by a mistake that a user can mend, by request, or by a fault of ours."""

    spec: Spec
    cause: Literal["mistake", "stopped", "fault"]
    sentence: str
    trace: str = ""


Outcome = Result | Failure
Listener = Callable[[Progress | Outcome], None]


class How(TypedDict):
    """Options of a run that are not part of the experiment."""

    anyway: bool
    compile: bool | None


@dataclass(frozen=True)
class Share:
    """How the cores are used: so many processes with so many threads each."""

    workers: int
    threads: int

    @classmethod
    def of(cls, runs: int, workers: int | None = None, threads: int | None = None) -> "Share":
        """Use all cores and no more: as many processes as there are runs, then threads."""
        cores = len(os.sched_getaffinity(0))
        if workers is not None:
            errors.whole("The number of 'workers'", workers, 1)
        if threads is not None:
            errors.whole("The number of 'threads'", threads, 1)
        workers = workers or max(1, min(runs, cores // (threads or 1)))
        threads = threads or max(1, cores // workers)
        if workers * threads > cores:
            raise errors.wrong("Workers times threads", f"not exceed the {cores} cores", f"{workers} x {threads}")
        return cls(workers, threads)


def run_all(
    specs: Sequence[Spec],
    root: Path,
    *,
    workers: int | None = None,
    threads: int | None = None,
    anyway: bool = False,
    compile: bool | None = None,
    listen: Listener = lambda _: None,
) -> list[Outcome]:
    """Run what is missing of the specs and return all outcomes in their order; one failure does not stop the others.

    A run that was begun with a number of threads goes on with it, since the bits depend on it.
    """
    done: dict[str, Outcome] = {}
    begun: list[int] = []  # the threads of runs that were stopped
    for spec in specs:
        with suppress(errors.RunError, KeyError):  # what is damaged is named when its run is tried
            folder = Folder(root, spec)
            if result := folder.result():
                done[spec.key] = result
            elif folder.state.exists():
                begun.append(folder.status()["environment"]["threads"])
    missing = [spec for spec in specs if spec.key not in done]
    if threads is None and begun:
        threads = max(begun)
    share = Share.of(len(missing), workers, threads)
    engine = _inline if share.workers == 1 else _processes
    outcomes = (
        {**done, **engine(missing, root, share, {"anyway": anyway, "compile": compile}, listen)} if missing else done
    )
    return [outcomes[spec.key] for spec in specs]


def _inline(specs: Sequence[Spec], root: Path, share: Share, how: How, listen: Listener) -> dict[str, Outcome]:
    torch.set_num_threads(share.threads)
    outcomes: dict[str, Outcome] = {}
    stopped = False
    for spec in specs:
        outcome = Failure(spec, "stopped", "Not begun.") if stopped else _attempt(spec, root, how, listen)
        stopped = isinstance(outcome, Failure) and outcome.cause == "stopped"
        outcomes[spec.key] = outcome
        listen(outcome)
    return outcomes


def _processes(specs: Sequence[Spec], root: Path, share: Share, how: How, listen: Listener) -> dict[str, Outcome]:
    context = multiprocessing.get_context("spawn")
    events: Any = context.Queue()
    closing = context.Event()
    outcomes: dict[str, Outcome] = {}
    with (
        stop_requests() as stopping,
        ProcessPoolExecutor(
            share.workers, context, initializer=_begin, initargs=(events, closing, share.threads)
        ) as pool,
    ):
        waiting: dict[Future[Outcome], Spec] = {pool.submit(_work, spec, root, how): spec for spec in specs}
        while waiting:
            finished, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            _drain(events, listen)
            for future in finished:
                spec = waiting.pop(future)
                outcomes[spec.key] = outcome = _outcome(future, spec)
                listen(outcome)
            if stopping.is_set():
                closing.set()
    return outcomes


def _outcome(future: "Future[Outcome]", spec: Spec) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        return Failure(spec, "fault", "Its process died. The same command goes on with it.")


def _drain(events: Any, listen: Listener) -> None:
    try:
        while True:
            listen(events.get_nowait())
    except queue.Empty:
        return


_events: Any = None
_closing: Any = None


def _begin(events: Any, closing: Any, threads: int) -> None:
    """Set up a worker once; a Ctrl-C reaches it through the parent."""
    global _events, _closing
    _events, _closing = events, closing
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)


def _work(spec: Spec, root: Path, how: How) -> Outcome:
    if _closing.is_set():
        return Failure(spec, "stopped", "Not begun.")
    return _attempt(spec, root, how, _events.put, _closing.is_set)


def _attempt(
    spec: Spec, root: Path, how: How, report: Callable[[Progress], None], stop: Callable[[], bool] = lambda: False
) -> Outcome:
    try:
        return run(spec, root, report=report, stop=stop, **how)
    except errors.EvenhandError as error:
        return Failure(spec, "mistake", str(error))
    except Interrupted as request:
        return Failure(spec, "stopped", str(request))
    except Exception as error:
        return Failure(spec, "fault", f"{type(error).__name__}: {error}", traceback.format_exc())
