"""The tracker of a run, and the sinks that it feeds."""

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
    "mlflow": "evenhand.experiment.tracking.sinks:MLflow",
    "tensorboard": "evenhand.experiment.tracking.sinks:TensorBoard",
    "wandb": "evenhand.experiment.tracking.sinks:WeightsAndBiases",
}
PATIENCE = 10.0  # seconds that the end of a run waits for all its sinks together


class Sink(Protocol):
    """Where the records of a run go. It may be slow and it may raise; one thread creates it and makes all its calls."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        """Begin, or begin again after a resume: replace what is there, since all lines follow.

        The folder of the run is root/<key>; the facts are versions, threads and processor.
        """

    def record(self, line: dict[str, Any]) -> None:
        """Record a stage: its lines of metrics.jsonl and timing.jsonl, and its numbers by flat names as `scalars`."""

    def end(self, state: str) -> None:
        """Close; the run is done, stopped or failed."""


class Tracker:
    """Sends the records of a run to sinks, and drops sinks that raise or hang.

    A name is tensorboard, mlflow, wandb, or module:attribute of a callable that returns a `Sink`. `say` is called with
    one message per dropped sink, always in the thread of the run.
    """

    def __init__(
        self, names: Sequence[str], say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
    ) -> None:
        self.factories = {name: find_sink(name) for name in names}
        self.say = say
        self.threads: list[_SinkThread] = []
        self.accuracy: list[list[float]] = []

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any], records: Sequence[dict[str, Any]] = ()) -> None:
        """Start the sinks, and send them the lines that a resumed run has already."""
        self.threads = [_SinkThread(name, factory) for name, factory in self.factories.items()]
        self._send("begin", folder, spec, facts)
        for line in records:
            self.record(line)

    def record(self, line: dict[str, Any]) -> None:
        """Send the record of a stage; returns at once."""
        if self.threads:
            self.accuracy.append(line["accuracy"])
            self._send("record", {**line, "scalars": scalars(self.accuracy, line)})

    def end(self, state: str) -> None:
        """Close the sinks, wait a few seconds for them, then give up on those that have not ended."""
        self._send("end", state)
        deadline = time.monotonic() + PATIENCE
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                thread.failure = f"it did not end within {PATIENCE:g} seconds"
        self._drop_failed()
        self.threads = []

    def _send(self, method: str, *arguments: Any) -> None:
        self._drop_failed()
        for thread in self.threads:
            thread.calls.put((method, copy.deepcopy(arguments)))  # a sink must not change what others or the run have

    def _drop_failed(self) -> None:
        failed = [thread for thread in self.threads if thread.failure]  # read once: another may fail meanwhile
        self.threads = [thread for thread in self.threads if thread not in failed]
        for thread in failed:
            with suppress(Exception):  # not even a closed stderr may harm the run
                self.say(f"Stopped tracking with {thread.sink}: {thread.failure}. metrics.jsonl is not affected.")


class _SinkThread(threading.Thread):
    """A daemon thread that feeds one sink, so that a slow or hanging sink delays neither the run nor its exit."""

    def __init__(self, sink: str, factory: Callable[[], Sink]) -> None:
        super().__init__(name=f"tracking by {sink}", daemon=True)
        self.sink, self.factory = sink, factory
        self.failure = ""
        self.calls: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
        try:
            self.start()
        except RuntimeError as error:  # the system has no thread left
            self.failure = _reason(error)

    def run(self) -> None:
        try:
            sink, method = self.factory(), ""
            while method != "end":
                method, arguments = self.calls.get()
                if self.failure:  # given up on: it must not write while the run is tried again
                    return
                getattr(sink, method)(*arguments)
        except BaseException as error:  # a library may well call sys.exit
            self.failure = self.failure or _reason(error)


def find_sink(name: str) -> Callable[[], Sink]:
    """The factory of a sink. The library behind it is not imported yet."""
    if name not in SINKS and ":" not in name:
        raise errors.unknown("tracker", name, [*SINKS, "module:attribute"])
    if name in SINKS and not _installed(name):
        raise errors.missing("Tracking needs", name, "tracking")
    module, _, attribute = SINKS.get(name, name).partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # the module may be the user's, so anything can happen
        raise errors.InputError(f"The tracker '{name}' cannot be loaded: {_reason(error)}.") from None
    if not callable(factory):
        raise errors.wrong(f"The tracker '{name}'", "be a class, or a function that returns a tracker", factory)
    return factory


def scalars(accuracy: metrics.Matrix, line: dict[str, Any]) -> dict[str, float]:
    """Numbers of a stage by flat names, without those that a first stage does not have.

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
    """Whether a library is installed. A plain folder of that name, which wandb leaves where it ran, does not count."""
    spec = importlib.util.find_spec(library)
    return spec is not None and spec.origin is not None


def _reason(error: BaseException) -> str:
    """Type and text of an error in one line. Unlike str, it copes with errors that cannot be printed."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    return (text if len(text) <= 200 else text[:197] + "...").rstrip(".:")
