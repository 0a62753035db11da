"""A run: a learner learns a stream. It can be killed at any moment and resumes to the same bits."""

import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from evenhand import backbones, errors, files, names
from evenhand.core import draws
from evenhand.core.compiled import worth
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.settings import Conditions
from evenhand.datasets import Dataset, load, pinned
from evenhand.experiment.environment import environment, hardware, stop_requests
from evenhand.experiment.evaluate import HeadWatch, evaluate
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.experiment.tracking import Tracker
from evenhand.streams import Stream

AUTO, PLAIN = Conditions(), Conditions(compile="off")
CHECKPOINT_SHARE = 0.01  # of a run's time at most, not counting those at stage ends


@dataclass(frozen=True)
class Progress:
    """How far a run has come; reported a few times per second."""

    key: str
    step: int
    steps: int
    stage: int
    stages: int
    rate: float
    """Stream samples per second."""
    batch: int
    accuracy: float | None


@dataclass(frozen=True)
class Note:
    """A message about a run in progress, or about all runs if the key is empty."""

    key: str
    message: str


Report = Callable[[Progress | Note], None]


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """The run stopped on request and saved its state."""


class Paused(Interrupted):
    """The run reached the stage at which it was to pause, and saved its state."""


def build(
    spec: Spec,
    method: Method | None = None,
    conditions: Conditions = PLAIN,
    dataset: Dataset | None = None,
) -> tuple[Stream, Learner]:
    """Build the stream and the learner of a spec.

    Parameters
    ----------
    method
        A method to use in place of the spec's own.
    conditions
        How to compute; "auto" compiles if the run is long enough to pay for it.
    dataset
        The dataset that the spec names, if it is loaded already.
    """
    dataset = dataset or load(*spec.source)
    stream = Stream.split(
        dataset,
        spec.stages,
        spec.seed,
        spec.order,
        spec.batch,
        imbalance=spec.imbalance,
        keep_partial=spec.keep_partial,
        validation=spec.tested == "validation",
    )
    [(name, arguments)] = names.parse(spec.backbone)
    with draws.seeded(spec.seed, "init"):
        network = Network.of(backbones.build(name, dataset.shape, arguments), neck=spec.neck)
    compiles = worth(network.trunk, len(stream)) if conditions.compile == "auto" else conditions.compile == "on"
    learner = Learner(
        network,
        method or spec.resolved,
        **spec.learner,
        rows=len(dataset.classes) if spec.softmax == "all" else 0,
        **{**asdict(conditions), "compile": compiles},
    )
    return stream, learner


def run(
    spec: Spec,
    root: str | Path = "runs",
    *,
    report: Report = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    until: int | None = None,
    conditions: Conditions = AUTO,
    anyway: bool = False,
    track: Sequence[str] = (),
    checkpoint_seconds: float = 60,
    dataset: Dataset | None = None,
) -> Result:
    """Run a spec, resume it if it was interrupted, or return its result if it is finished.

    Parameters
    ----------
    root
        Directory with one subfolder per run.
    report
        Called a few times per second with the progress, and with notes.
    stop
        Called after every step. Once it returns true, the run saves its state and raises `Interrupted`; so it does on
        Ctrl-C and SIGTERM.
    until
        Save the state and raise `Paused` at the end of this stage, unless it is the last one.
    conditions
        How to compute; "auto" resumes a run as it was started.
    anyway
        Resume even under other threads or versions, though the numbers may then differ.
    track
        Sinks that also receive the records: tensorboard, mlflow, wandb or module:attribute.
    checkpoint_seconds
        Time between checkpoints: the most work that a kill can cost.
    dataset
        The dataset that the spec names, if it is loaded already.
    """
    folder = Folder(Path(root), spec)
    with folder.locked():
        if result := finished_result(folder, dataset):
            return result
        if until is not None and until < spec.stages and len(folder.records()) >= until:
            raise Paused(f"Paused after stage {until}; the state is saved.")
        tracker = Tracker(track, lambda message: report(Note(spec.key, message)))
        state = "failed"
        try:
            _Run(folder, report, conditions, anyway, tracker, dataset).finish(stop, until, checkpoint_seconds)
            state = "done"
        except Interrupted:
            state = "stopped"
            raise
        except errors.RunError:
            raise
        except Exception as error:
            trace = "" if isinstance(error, errors.EvenhandError) else traceback.format_exc()
            with suppress(errors.RunError):  # a full disk must not hide the error
                folder.fail(f"{type(error).__name__}: {error}", trace)
            raise
        finally:
            tracker.end(state)
        result = folder.result()
        assert result is not None
        return result


def finished_result(folder: Folder, dataset: Dataset | None = None) -> Result | None:
    """The result of a finished run, or None. Raises if its images have changed since; missing images pass."""
    result, spec = folder.result(), folder.spec
    if result is None or pinned(spec.data):
        return result
    with suppress(errors.InputError):
        dataset = dataset or load(*spec.source)
        if dataset.digest[:12] != result.environment.get("data"):
            raise errors.RunError(
                f"The run {result.key} used other images: {spec.data} has changed since. "
                "Remove its folder to run it again, or use another root."
            )
    return result


def keeps_up(step: int, cost: float) -> bool:
    """Whether a method is ready for a batch of a stream that does not wait; it misses the others, evenly spread.

    While it learns one batch, `cost` batches arrive (C_D, the cost relative to ER).

    >>> ["learned" if keeps_up(step, 1.5) else "missed" for step in range(4)]
    ['learned', 'missed', 'learned', 'learned']
    """
    return step == 0 or cost <= 1 or int(step / cost) > int((step - 1) / cost)


class _Run:
    """The mutable parts of one run, all of which a checkpoint contains."""

    def __init__(
        self,
        folder: Folder,
        report: Report,
        conditions: Conditions,
        anyway: bool,
        tracker: Tracker,
        dataset: Dataset | None,
    ) -> None:
        self.folder = folder
        self.report = report
        self.tracker = tracker
        if folder.begun:
            conditions = conditions.as_started(folder.status().get("environment", {}))
        with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
            self.stream, self.learner = build(folder.spec, conditions=conditions, dataset=dataset)
        for warning in caught:
            report(Note(folder.spec.key, str(warning.message)))
        self.environment = environment() | {
            **self.learner.conditions,
            "data": self.stream.dataset.digest[:12],
            **({} if self.learner.device.type == "cpu" else {"device": self.learner.device.type}),
        }
        if self.learner.method.parts("boundary") and not folder.spec.order.startswith("classes"):
            raise errors.InputError(
                f"{folder.spec.method} needs to know where the classes of a stage end, which only the order classes "
                f"tells. Got {folder.spec.order} instead."
            )
        self.position = 0
        self.lag = folder.spec.lag
        self.watch = HeadWatch(folder.spec.seed)
        self.metrics: list[dict[str, Any]] = []
        self.timing: list[dict[str, Any]] = []
        self.trained = self.saving = 0.0  # seconds in the current stage
        self.saved = self.pause = 0.0  # time of the last checkpoint, and the shortest pause until the next
        self.kept = 0  # position of the last checkpoint
        if folder.begun:
            self._resume(anyway)
        folder.mark("running", environment=self.environment, hardware=hardware())
        so_far = [{**line, **times} for line, times in zip(self.metrics, self.timing, strict=True)]
        tracker.begin(folder.path, folder.spec, {**self.environment, **hardware()}, so_far)

    def finish(self, stop: Callable[[], bool], until: int | None, checkpoint_seconds: float) -> None:
        """Learn the rest of the stream."""
        self.saved = reported = began = time.monotonic()
        started = self.position
        ends = {sum(self.stream.lengths[: i + 1]) for i in range(len(self.stream.stages))}
        with stop_requests() as stopping:
            for step in self.stream.steps(self.position):
                tick = time.monotonic()
                if keeps_up(self.position, self.lag):
                    self.learner.observe(step.x, step.y, second=step.second)
                self.position += 1
                now = time.monotonic()
                self.trained += now - tick
                if self.position in ends:
                    self._end_stage(step.stage)
                if step.stage + 1 == until and self.position in ends and self.position < len(self.stream):
                    raise Paused(f"Paused after stage {until}; the state is saved.")
                stopped = stopping.is_set() or stop()
                if stopped or now - self.saved > max(checkpoint_seconds, self.pause):
                    self._checkpoint()
                if stopped:
                    raise Interrupted(f"Stopped at step {self.position} of {len(self.stream)}; the state is saved.")
                if now - reported > 0.2:
                    rate = (self.position - started) * self.stream.batch / (now - began)
                    self.report(self._progress(step.stage, rate))
                    reported = now
        self.folder.complete(environment=self.environment, hardware=hardware(), classes=self._class_names())

    def _end_stage(self, stage: int) -> None:
        tick = time.monotonic()
        self.learner.boundary()
        record = evaluate(self.learner, self.stream, stage, self.watch)
        self.metrics.append({"stage": stage + 1, "step": self.position, **record})
        self.watch.begin_stage(self.learner)
        tested = time.monotonic() - tick
        times = {"train_seconds": self.trained, "test_seconds": tested, "save_seconds": self.saving}
        self.timing.append({"stage": stage + 1, **times})
        self.trained = self.saving = 0.0
        self._checkpoint()
        self.tracker.record({**self.metrics[-1], **times})

    def _progress(self, stage: int, rate: float) -> Progress:
        accuracy = sum(self.metrics[-1]["accuracy"]) / len(self.metrics) if self.metrics else None
        steps, stages = len(self.stream), len(self.stream.stages)
        return Progress(
            self.folder.spec.key, self.position, steps, stage + 1, stages, rate, self.stream.batch, accuracy
        )

    def _class_names(self) -> list[str]:
        return [self.stream.dataset.classes[label] for label in self.learner.labels]

    def _checkpoint(self) -> None:
        if self.position == self.kept:
            return
        tick = time.monotonic()
        tensors: dict[str, Tensor] = {**self.learner.state_dict(), **self.watch.state_dict()}
        self.folder.checkpoint(
            tensors,
            {
                "learner": self.learner.facts(),
                "position": self.position,
                "metrics": self.metrics,
                "timing": self.timing,
                "trained": self.trained,
                "saving": self.saving,
                "environment": self.environment,
            },
        )
        self.kept, self.saved = self.position, time.monotonic()
        self.saving += self.saved - tick
        self.pause = (self.saved - tick) / CHECKPOINT_SHARE

    def _resume(self, anyway: bool) -> None:
        tensors, facts, warning = self.folder.restore()
        if warning:
            self.report(Note(self.folder.spec.key, warning))
        try:
            before, now = {"precision": "fp32", **facts["environment"]}, self.environment  # older runs do not say
            pairs = {name: (before.get(name), now.get(name)) for name in {**before, **now}}
            changed = {name: (old, new) for name, (old, new) in pairs.items() if old != new}
            if before.get("data") and "data" in changed:
                raise errors.RunError(
                    f"The run {self.folder.path.name} began with other images: {self.folder.spec.data} has changed "
                    "since. Restore it, or remove the folder of the run to start again."
                )
            if changed and not anyway:
                changes = ", ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())
                raise errors.RunError(
                    f"The run {self.folder.path.name} cannot resume to the same bits: {changes}. "
                    "Repeat the command with the earlier options, use --anyway to resume it under the new ones, or "
                    "remove its folder to start again."
                )
            self.learner.load_state_dict(tensors, facts["learner"])
            self.watch.load_state_dict(tensors)
            self.position = self.kept = facts["position"]
            self.trained, self.saving = facts["trained"], facts.get("saving", 0.0)
            self.metrics, self.timing = facts["metrics"], facts["timing"]
            self.folder.publish(facts)
            if changed:
                self.kept = 0
                self._checkpoint()  # from here on this is the environment of the run
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            if isinstance(error, errors.EvenhandError):
                raise
            raise errors.RunError(f"{self.folder.state} is damaged. {files.RESTART}") from None
