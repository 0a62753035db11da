"""The tracker that a run talks to, and the sinks behind it, each in a thread of its own."""

import copy
import importlib
import importlib.util
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from evenhand import errors, metrics
from evenhand.experiment.spec import Spec

SINKS = {
    "mlflow": "evenhand.experiment.tracking.mlflow:MLflow",
    "tensorboard": "evenhand.experiment.tracking.tensorboard:TensorBoard",
    "wandb": "evenhand.experiment.tracking.wandb:WeightsAndBiases",
}
PATIENCE = 10.0  # seconds that the end of a run waits for all its sinks together


class Sink(Protocol):
    """Where a run is shown. It may be slow and it may raise; it is made, and all of it called, in one thread."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        """Begin, or begin again: what an earlier part of the run has left is replaced, since all its lines follow.

        Parameters
        ----------
        folder
            The run's folder, root/<key>.
        facts
            What the run is made with: versions, threads, processor.
        """

    def record(self, line: dict[str, Any]) -> None:
        """Take a stage end: a line of metrics.jsonl and of timing.jsonl, and `scalars`, its numbers by flat names."""

    def end(self, state: str) -> None:
        """Close; the run is done, stopped or failed."""


class Tracker:
    """Sends the records of a run to sinks, and goes on without those that raise or hang.

    Parameters
    ----------
    names
        tensorboard, mlflow, wandb, or module:attribute of a callable that makes a `Sink`.
    say
        Called with one sentence for each sink that was left out, always in the run's own thread.
    """

    def __init__(
        self, names: Sequence[str], say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
    ) -> None:
        self.makers = {name: find(name) for name in names}
        self.say = say
        self.workers: list[_Worker] = []

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any], records: Sequence[dict[str, Any]] = ()) -> None:
        """Start the sinks, and give them the lines that a resumed run has already."""
        self.workers = [_Worker(name, make) for name, make in self.makers.items()]
        for worker in self.workers:
            worker.begin(folder, spec, copy.deepcopy(facts))
        for line in records:
            self.record(line)

    def record(self, line: dict[str, Any]) -> None:
        """Pass on a stage end; returns at once."""
        self._leave_failed()
        for worker in self.workers:
            worker.record(copy.deepcopy(line))  # what a sink does to its line, it must not do to the run's

    def end(self, state: str) -> None:
        """Close the sinks, and wait for them, but not for long."""
        deadline = time.monotonic() + PATIENCE
        for worker in self.workers:
            worker.end(state)
        for worker in self.workers:
            worker.wait(deadline - time.monotonic())
        self._leave_failed()
        self.workers = []

    def _leave_failed(self) -> None:
        failed = [worker for worker in self.workers if worker.failure]  # once: another may fail meanwhile
        self.workers = [worker for worker in self.workers if worker not in failed]
        for worker in failed:
            sentence = (
                f"The tracking by {worker.name} failed and was left out: {worker.failure}; metrics.jsonl is whole."
            )
            with suppress(Exception):  # not even a closed stderr may harm the run
                self.say(sentence)


class _Worker:
    """A sink, and the thread that feeds it."""

    def __init__(self, name: str, make: Callable[[], Sink]) -> None:
        self.name, self.make = name, make
        self.failure = ""
        self.accuracy: list[list[float]] = []
        self.calls: SimpleQueue[Callable[[Sink], None] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"tracking by {name}", daemon=True)

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        self.calls.put(lambda sink: sink.begin(folder, spec, facts))
        try:
            self.thread.start()
        except RuntimeError as error:  # the system has no thread left
            self.failure = _reason(error)

    def record(self, line: dict[str, Any]) -> None:
        def call(sink: Sink) -> None:
            self.accuracy.append(list(line["accuracy"]))
            sink.record({**line, "scalars": scalars(self.accuracy, line)})

        self.calls.put(call)

    def end(self, state: str) -> None:
        self.calls.put(lambda sink: sink.end(state))
        self.calls.put(None)

    def wait(self, seconds: float) -> None:
        if self.thread.ident is not None:
            self.thread.join(max(0.0, seconds))
        if self.thread.is_alive():
            self.failure = f"it did not end within {PATIENCE:g} seconds"

    def _work(self) -> None:
        try:
            sink = self.make()
            # One that was given up on must not wake up later and write beside the run's next attempt.
            while (call := self.calls.get()) and not self.failure:
                call(sink)
        except BaseException as error:  # a library may well call sys.exit
            self.failure = self.failure or _reason(error)


def find(name: str) -> Callable[[], Sink]:
    """What makes the sink of a name, or one sentence on why there is none; the libraries are not imported yet."""
    if name not in SINKS and ":" not in name:
        raise errors.unknown("sink", name, SINKS)
    if name in SINKS and not _installed(name):
        raise errors.InputError(
            f"Tracking by {name} needs a library that is not installed. Try: pip install evenhand[tracking]"
        )
    module, _, attribute = SINKS.get(name, name).partition(":")
    try:
        make = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # the module is somebody's own, so anything may happen in it
        raise errors.InputError(f"The sink '{name}' cannot be loaded: {_reason(error)}.") from None
    if not callable(make):
        raise errors.wrong(f"The sink '{name}'", "be a callable that makes one", make)
    return make


def scalars(accuracy: metrics.Matrix, line: dict[str, Any]) -> dict[str, float]:
    """The numbers of a stage end by flat names; those that a first stage does not have are left out.

    >>> scalars([[0.5]], {"stage": 1, "step": 100, "train_seconds": 2.0})
    {'accuracy': 0.5, 'accuracy/stage_01': 0.5, 'current': 0.5, 'train_seconds': 2.0}
    """
    values = {
        "accuracy": metrics.average(accuracy),
        **{f"accuracy/stage_{stage:02}": value for stage, value in enumerate(accuracy[-1], 1)},
        "previous": metrics.previous(accuracy),
        "current": metrics.current(accuracy),
        "forgetting": metrics.forgetting(accuracy),
        "train_seconds": line.get("train_seconds"),
        "test_seconds": line.get("test_seconds"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _installed(library: str) -> bool:
    """Whether a library is there; a folder of that name, which wandb leaves behind where it ran, is none."""
    spec = importlib.util.find_spec(library)
    return spec is not None and spec.origin is not None


def _reason(error: BaseException) -> str:
    """The kind and text of an error in one line; unlike str, it stands errors that cannot be printed."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    return (text if len(text) <= 200 else text[:197] + "...").rstrip(".:")
