"""A run: a learner meets a stream. It can be killed at any moment and goes on to the same bits."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from evenhand import backbones, draws, errors, files, names
from evenhand.compiled import worth
from evenhand.datasets import load
from evenhand.experiment.evaluate import HeadWatch, evaluate
from evenhand.experiment.folder import Folder
from evenhand.experiment.process import environment, hardware, stop_requests
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.learner import Learner
from evenhand.method import Method
from evenhand.network import Network
from evenhand.streams import Stream


@dataclass(frozen=True)
class Progress:
    """Where a run is; sent now and then while it goes on."""

    key: str
    step: int
    steps: int
    stage: int
    stages: int
    rate: float
    accuracy: float | None


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """The run was asked to stop and has saved its state."""


def build(spec: Spec, method: Method | None = None, compile: bool | None = False) -> tuple[Stream, Learner]:
    """Make the stream and the learner of a spec, or a learner with another method; None compiles where it pays."""
    dataset = load(spec.data, size=spec.size, skip_bad=spec.skip_bad)
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
        compile=worth(network.trunk, len(stream)) if compile is None else compile,
        seed=spec.seed,
    )
    return stream, learner


def run(
    spec: Spec,
    root: str | Path = "runs",
    *,
    report: Callable[[Progress], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    anyway: bool = False,
    compile: bool | None = None,
    checkpoint_seconds: float = 60,
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
    anyway
        Go on with a run that was begun under other threads or versions, though its numbers may then differ.
    compile
        Whether torch.compile makes the trunk faster; None does so where it pays, and goes on as the run was begun.
    checkpoint_seconds
        The longest stretch of work that a kill can cost.
    """
    folder = Folder(Path(root), spec)
    with folder.locked():
        if result := folder.result():
            return result
        try:
            _Run(folder, report, anyway, compile).finish(stop, checkpoint_seconds)
        except (Interrupted, errors.RunError):
            raise
        except Exception as error:
            folder.mark("failed", error=f"{type(error).__name__}: {error}", environment=environment())
            raise
        result = folder.result()
        assert result is not None
        return result


class _Run:
    """The moving parts of one run; all of them are in the checkpoint."""

    def __init__(self, folder: Folder, report: Callable[[Progress], None], anyway: bool, compile: bool | None) -> None:
        self.folder = folder
        self.report = report
        if compile is None and folder.state.exists():
            compile = folder.status().get("environment", {}).get("compile", False)
        self.stream, self.learner = build(folder.spec, compile=compile)
        self.environment = environment() | {
            "compile": self.learner.compiled is not None,
            "data": self.stream.dataset.digest[:12],
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
        self.trained = 0.0  # seconds in the current stage
        if folder.state.exists():
            self._resume(anyway)
        folder.mark("running", environment=self.environment, hardware=hardware())

    def finish(self, stop: Callable[[], bool], checkpoint_seconds: float) -> None:
        """Go through the rest of the stream."""
        saved = reported = began = time.monotonic()
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
                stopped = stopping.is_set() or stop()
                if stopped or now - saved > checkpoint_seconds:
                    self._checkpoint()
                    saved = now
                if stopped:
                    raise Interrupted(f"Stopped at step {self.position} of {len(self.stream)}; the state is saved.")
                if now - reported > 0.2:
                    rate = (self.position - started) * self.stream.batch / (now - began)
                    self.report(self._progress(step.stage, rate))
                    reported = now
        self.folder.mark("done", environment=self.environment, hardware=hardware(), classes=self._class_names())

    def _end_stage(self, stage: int) -> None:
        tick = time.monotonic()
        self.learner.boundary()
        record = evaluate(self.learner, self.stream, stage, self.watch)
        self.metrics.append({"stage": stage + 1, "step": self.position, **record})
        self.watch.begin_stage(self.learner)
        tested = time.monotonic() - tick
        self.timing.append({"stage": stage + 1, "train_seconds": self.trained, "test_seconds": tested})
        self.trained = 0.0
        self._checkpoint()

    def _progress(self, stage: int, rate: float) -> Progress:
        accuracy = sum(self.metrics[-1]["accuracy"]) / len(self.metrics) if self.metrics else None
        return Progress(
            self.folder.spec.key, self.position, len(self.stream), stage + 1, len(self.stream.stages), rate, accuracy
        )

    def _class_names(self) -> list[str]:
        return [self.stream.dataset.classes[label] for label in self.learner.labels]

    def _checkpoint(self) -> None:
        tensors: dict[str, Tensor] = {**self.learner.state_dict(), **self.watch.state_dict()}
        self.folder.checkpoint(
            tensors,
            {
                "learner": self.learner.facts(),
                "position": self.position,
                "metrics": self.metrics,
                "timing": self.timing,
                "trained": self.trained,
                "environment": self.environment,
            },
        )

    def _resume(self, anyway: bool) -> None:
        tensors, facts = files.read_state(self.folder.state)
        try:
            changed = {
                k: (v, self.environment.get(k)) for k, v in facts["environment"].items() if self.environment.get(k) != v
            }
            if changed and not anyway:
                was = ", ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())
                raise errors.RunError(
                    f"The run {self.folder.path.name} cannot go on to the same bits: {was}. "
                    "Use --anyway to go on all the same, or remove its folder."
                )
            self.learner.load_state_dict(tensors, facts["learner"])
            self.watch.load_state_dict(tensors)
            self.position, self.trained = facts["position"], facts["trained"]
            self.metrics, self.timing = facts["metrics"], facts["timing"]
            self.folder.publish(facts)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            if isinstance(error, errors.EvenhandError):
                raise
            raise errors.RunError(f"{self.folder.state} is damaged. Remove it to start the run anew.") from None
