"""A run: a learner meets a stream. It can be killed at any moment and goes on to the same bits."""

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from evenhand import backbones, draws, errors, names
from evenhand.compiled import worth
from evenhand.datasets import Dataset, load
from evenhand.experiment.evaluate import HeadWatch, evaluate
from evenhand.experiment.folder import Folder
from evenhand.experiment.process import environment, hardware, stop_requests
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.experiment.tracking import Tracker
from evenhand.learner import Learner
from evenhand.method import Method
from evenhand.network import Network
from evenhand.streams import Stream

CHECKPOINT_SHARE = 0.01  # of a run's time at most, but for those at stage ends


@dataclass(frozen=True)
class Progress:
    """Where a run is; sent now and then while it goes on."""

    key: str
    step: int
    steps: int
    stage: int
    stages: int
    rate: float
    """Samples of the stream a second."""
    batch: int
    accuracy: float | None


@dataclass(frozen=True)
class Note:
    """Something to say about a run that goes on."""

    key: str
    sentence: str


Report = Callable[[Progress | Note], None]


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """The run was asked to stop and has saved its state."""


class Paused(Interrupted):
    """The run has come as far as it was to go."""


def build(
    spec: Spec, method: Method | None = None, compile: bool | None = False, dataset: Dataset | None = None
) -> tuple[Stream, Learner]:
    """Make the stream and the learner of a spec, or a learner with another method; None compiles where it pays."""
    dataset = dataset or load(spec.data, size=spec.size, skip_bad=spec.skip_bad)
    stream = Stream.split(
        dataset,
        spec.stages,
        spec.seed,
        spec.order,
        spec.batch,
        imbalance=spec.imbalance,
        validation=spec.tested == "validation",
    )
    [(name, arguments)] = names.parse(spec.backbone)
    with draws.seeded(spec.seed, "init"):
        network = Network.of(backbones.build(name, dataset.shape, arguments), neck=spec.neck)
    learner = Learner(
        network,
        method or spec.resolved,
        memory=spec.memory,
        replay=spec.replay,
        lr=spec.lr,
        iterations=spec.iterations,
        augment=spec.augment,
        views=spec.views,
        passes=spec.passes,
        classes=len(dataset.classes) if spec.softmax == "all" else 0,
        compile=worth(network.trunk, len(stream)) if compile is None else compile,
        seed=spec.seed,
    )
    return stream, learner


def run(
    spec: Spec,
    root: str | Path = "runs",
    *,
    report: Report = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    until: int | None = None,
    anyway: bool = False,
    compile: bool | None = None,
    track: Sequence[str] = (),
    wait: float = 0,
    checkpoint_seconds: float = 60,
    dataset: Dataset | None = None,
) -> Result:
    """Run a spec, or go on with it, or read its result if it is there.

    Parameters
    ----------
    root
        The folder below which runs live.
    report
        Called now and then with the progress.
    stop
        Asked after every step; once it is true, the state is saved and the run ends with `Interrupted`. Ctrl-C and
        SIGTERM do the same.
    until
        End with `Paused`, its state saved, when this stage has ended, unless it is the last one.
    anyway
        Go on with a run that was begun under other threads or versions, though its numbers may then differ.
    compile
        Whether torch.compile makes the trunk faster; None does so where it pays, and goes on as the run was begun.
    track
        Sinks that are told of the records as they come: tensorboard, mlflow, wandb or module:attribute.
    wait
        Seconds to wait for another process that makes this run.
    checkpoint_seconds
        The longest stretch of work that a kill can cost.
    dataset
        The data that the spec names, where they are at hand already.
    """
    folder = Folder(Path(root), spec)
    with folder.locked(wait):
        if result := finished(folder, dataset):
            return result
        if until is not None and until < spec.stages and len(folder.records()) >= until:
            raise Paused(f"Stage {until} has ended; the state is saved.")
        tracker = Tracker(track, lambda sentence: report(Note(spec.key, sentence)))
        state = "failed"
        try:
            _Run(folder, report, anyway, compile, tracker, dataset).finish(stop, until, checkpoint_seconds)
            state = "done"
        except Interrupted:
            state = "stopped"
            raise
        except errors.RunError:
            raise
        except Exception as error:
            trace = "" if isinstance(error, errors.EvenhandError) else traceback.format_exc()
            with suppress(errors.RunError):  # a full disk must not hide what went wrong
                folder.fail(f"{type(error).__name__}: {error}", trace)
            raise
        finally:
            tracker.end(state)
        result = folder.result()
        assert result is not None
        return result


def finished(folder: Folder, dataset: Dataset | None = None) -> Result | None:
    """The result of a run that is done; an error if it was made with images of your own that have changed since."""
    result, spec = folder.result(), folder.spec
    if result is None or ":" not in spec.data:
        return result
    with suppress(errors.InputError):  # images that are gone contradict nothing
        dataset = dataset or load(spec.data, size=spec.size, skip_bad=spec.skip_bad)
        if dataset.digest[:12] != result.environment.get("data"):
            raise errors.RunError(
                f"The run {folder.path.name} was made with other images: {spec.data} has changed since. "
                "Remove its folder to run it anew, or use another root."
            )
    return result


class _Run:
    """The moving parts of one run; all of them are in the checkpoint."""

    def __init__(
        self,
        folder: Folder,
        report: Report,
        anyway: bool,
        compile: bool | None,
        tracker: Tracker,
        dataset: Dataset | None,
    ) -> None:
        self.folder = folder
        self.report = report
        self.tracker = tracker
        if compile is None and folder.begun:
            compile = folder.status().get("environment", {}).get("compile", False)
        self.stream, self.learner = build(folder.spec, compile=compile, dataset=dataset)
        self.environment = environment() | {
            "compile": self.learner.compiled is not None,
            "data": self.stream.dataset.digest[:12],
            **({} if self.learner.device.type == "cpu" else {"device": self.learner.device.type}),
        }
        if self.learner.method.parts("boundary") and not folder.spec.order.startswith("classes"):
            raise errors.InputError(
                f"{folder.spec.method} needs to know where the classes of a stage end, and the order "
                f"{folder.spec.order} does not tell."
            )
        self.position = 0
        self.watch = HeadWatch(folder.spec.seed)
        self.metrics: list[dict[str, Any]] = []
        self.timing: list[dict[str, Any]] = []
        self.trained = self.saving = 0.0  # seconds in the current stage
        self.saved = self.spared = 0.0  # when the last checkpoint was made, and how long there is time until the next
        self.kept = 0  # the position of the last checkpoint
        if folder.begun:
            self._resume(anyway)
        folder.mark("running", environment=self.environment, hardware=hardware())
        so_far = [{**line, **times} for line, times in zip(self.metrics, self.timing, strict=True)]
        tracker.begin(folder.path, folder.spec, {**self.environment, **hardware()}, so_far)

    def finish(self, stop: Callable[[], bool], until: int | None, checkpoint_seconds: float) -> None:
        """Go through the rest of the stream."""
        self.saved = reported = began = time.monotonic()
        started = self.position
        ends = {sum(self.stream.lengths[: i + 1]) for i in range(len(self.stream.stages))}
        with stop_requests() as stopping:
            for step in self.stream.steps(self.position):
                tick = time.monotonic()
                self.learner.observe(step.x, step.y, beside=step.beside)
                self.position += 1
                now = time.monotonic()
                self.trained += now - tick
                if self.position in ends:
                    self._end_stage(step.stage)
                if step.stage + 1 == until and self.position in ends and self.position < len(self.stream):
                    raise Paused(f"Stage {until} has ended; the state is saved.")
                stopped = stopping.is_set() or stop()
                if stopped or now - self.saved > max(checkpoint_seconds, self.spared):
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
        record = evaluate(self.learner, self.stream, stage, self.watch, self.folder.spec.forms == "both")
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
        self.spared = (self.saved - tick) / CHECKPOINT_SHARE

    def _resume(self, anyway: bool) -> None:
        tensors, facts, damage = self.folder.restore()
        if damage:
            self.report(Note(self.folder.spec.key, damage))
        try:
            before, now = facts["environment"], self.environment
            pairs = {name: (before.get(name), now.get(name)) for name in {**before, **now}}
            changed = {name: (old, new) for name, (old, new) in pairs.items() if old != new}
            if changed and not anyway:
                was = ", ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())
                raise errors.RunError(
                    f"The run {self.folder.path.name} cannot go on to the same bits: {was}. "
                    "Use --anyway to go on all the same, or remove its folder."
                )
            self.learner.load_state_dict(tensors, facts["learner"])
            self.watch.load_state_dict(tensors)
            self.position = self.kept = facts["position"]
            self.trained, self.saving = facts["trained"], facts.get("saving", 0.0)
            self.metrics, self.timing = facts["metrics"], facts["timing"]
            self.folder.publish(facts)
            if changed:
                self.kept = 0
                self._checkpoint()  # from here on it is a run under these
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            if isinstance(error, errors.EvenhandError):
                raise
            raise errors.RunError(f"{self.folder.state} is damaged. Remove the folder to start the run anew.") from None
