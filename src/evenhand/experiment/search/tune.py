"""Choosing the parameters of a method by the accuracy on held-out training samples; no test sample is touched.

A search proposes points, an engine runs them, and repeating a search reuses the records of its runs. A grid tries every
combination. Optuna proposes points, and gives up one whose accuracy after a stage is below the median of earlier points
there. A point that diverged is never chosen.
"""

import itertools
import math
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenhand import errors, metrics
from evenhand.core import registry
from evenhand.experiment.engine.queue import Failure, Outcome
from evenhand.experiment.folder import Folder
from evenhand.experiment.grid import MOST
from evenhand.experiment.result import Result, answering
from evenhand.experiment.search.axis import FIXED, Axis, is_fixed, takes_whole, with_value
from evenhand.experiment.spec import Spec
from evenhand.experiment.trainings import plan

ENOUGH = 5  # finished points before one can be given up
Engine = Callable[[list[Spec], int | None], Sequence[Outcome]]
"""Runs specs to the end of a stage, or of the stream, and returns their outcomes."""


@dataclass(frozen=True)
class Point:
    """Values that were tried, and the accuracy they reached with each seed; 0 if they diverged."""

    values: dict[str, Any]
    accuracies: tuple[float, ...]
    given_up: int | None = None
    """The stage after which the search gave it up."""
    diverged: bool = False
    """Whether it diverged with any seed."""

    @property
    def accuracy(self) -> float:
        """Mean over the seeds, after the last stage that it finished."""
        return metrics.mean(list(self.accuracies))

    def __str__(self) -> str:
        if self.diverged:
            return f"{spelled(self.values)}: diverged"
        given_up = f", given up at stage {self.given_up}" if self.given_up else ""
        return f"{spelled(self.values)}: accuracy {100 * self.accuracy:.1f} %{given_up}"

    def fields(self) -> dict[str, Any]:
        """The point as JSON, without an accuracy if it diverged."""
        return {
            "values": self.values,
            "accuracy": None if self.diverged else self.accuracy,
            "interval": None if self.diverged else metrics.interval(list(self.accuracies)),
            "seeds": len(self.accuracies),
            "given_up": self.given_up,
            "diverged": self.diverged,
        }


class Tuning:
    """A search for the best values of some fields, each point with the seeds 0 to K - 1.

    The axes are parameters of the method, like alpha or uer.alpha, or settings of a run, like lr; one that takes whole
    numbers has only whole points. The method has the parameters that are fixed, `fields` the settings.
    """

    def __init__(
        self, method: str, axes: Sequence[Axis], fields: dict[str, Any], *, preset: str | None = None, seeds: int = 1
    ) -> None:
        self.method = method
        self.fields = fields
        self.preset = preset
        self.seeds = errors.whole("The number of --seeds", seeds, 1, MOST)
        if not axes:
            raise errors.InputError("Name at least one --field to search, e.g. --field alpha=0.1:0.9.")
        if len({axis.name for axis in axes}) < len(axes):
            raise errors.InputError("Each --field can be given only once.")
        registry.resolve(method)
        self.axes = tuple(axis.as_whole() if takes_whole(method, axis.name) else axis for axis in axes)
        first = {axis.name: axis.values[0] for axis in self.axes}
        for axis in self.axes:
            for value in axis.values:  # so that an invalid value is reported before anything runs
                self.specs({**first, axis.name: value})
            if axis.name in fields or is_fixed(method, axis.name):
                raise errors.InputError(f"'{axis.name}' is both fixed and searched. Remove one of the two.")

    def specs(self, values: dict[str, Any], tested: str = "validation") -> list[Spec]:
        """The runs of one point."""
        method, fields = self.method, dict(self.fields)
        for name, value in values.items():
            if name in Spec.model_fields:
                if name in FIXED:
                    own = [recipe.name for recipe, _ in registry.terms(method) if name in recipe.parameters]
                    then = f" For the parameter of {own[0]}, write {own[0]}.{name}." if own else ""
                    raise errors.InputError(f"'{name}' defines what is measured, so it cannot be searched.{then}")
                fields[name] = value
            else:
                method = with_value(method, name, value)
        given = {**fields, "method": method, "tested": tested}
        return [Spec.make(self.preset, **given, seed=seed) for seed in range(self.seeds)]

    def command(self, point: Point, root: Path, data_dir: Path | None = None, **execution: Any) -> str:
        """The command that runs the final test of a point; `execution` has further flags."""
        spec = self.specs(point.values, tested="test")[0]
        fields = {**self.fields, **{name: point.values[name] for name in point.values if name in Spec.model_fields}}
        flags = {"preset": self.preset, **fields, "seeds": self.seeds, "data_dir": data_dir, **execution, "root": root}
        words = ["evenhand", "run", spec.method]
        for name, value in flags.items():
            if value is True or value is False:
                words += [f"--{name.replace('_', '-')}"] * value
            elif value is not None:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def grid(self, engine: Engine) -> Iterator[Point]:
        """Try every combination."""
        if (count := self.seeds * math.prod(len(axis.values) for axis in self.axes)) > MOST:
            raise errors.wrong("A search", f"have at most {MOST} runs", count)
        names = [axis.name for axis in self.axes]
        points = [dict(zip(names, values, strict=True)) for values in itertools.product(*(a.values for a in self.axes))]
        outcomes = iter(engine([spec for values in points for spec in self.specs(values)], None))
        for values in points:
            results = [_checked(next(outcomes), values) for _ in range(self.seeds)]
            diverged = None in results
            accuracies = [0.0 if diverged else metrics.average(result.accuracy) for result in results]
            yield Point(values, tuple(accuracies), diverged=diverged)

    def optuna(self, engine: Engine, root: Path, trials: int, at_once: int = 1) -> Iterator[Point]:
        """Let Optuna propose points, `at_once` at a time, and give up the worse ones after each stage."""
        try:
            import optuna
        except ImportError:
            raise errors.missing("The search optuna needs", "Optuna", "sweep") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
        left = errors.whole("The number of --trials", trials, 1)
        race = _Race(self, engine, root, study)
        while left:
            asked = [study.ask() for _ in range(min(at_once, left))]
            left -= len(asked)
            points = [{axis.name: axis.suggested(trial) for axis in self.axes} for trial in asked]
            for trial, point in zip(asked, race.run(asked, points), strict=True):
                if point.given_up:
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)  # it knows the last reported value
                else:
                    study.tell(trial, point.accuracy)
                yield point


@dataclass(frozen=True)
class _Race:
    """Runs points stage by stage, and gives up those that diverge or fall behind the finished points.

    Until there are enough finished points to compare with, points run straight to the end. Optuna's own pruners do not
    fit: they compare the best accuracy a trial ever had, which here is always that of its first, easiest stage.
    """

    tuning: Tuning
    engine: Engine
    root: Path
    study: Any
    diverged: set[Spec] = field(default_factory=set)

    def run(self, trials: Sequence[Any], points: Sequence[dict[str, Any]]) -> list[Point]:
        """Run the points of some trials, and report the accuracy after each stage to its trial."""
        specs = [self.tuning.specs(values) for values in points]
        runs = plan([spec for own in specs for spec in own], [self.root])
        last = specs[0][0].stages
        curves = [trial.intermediate_values for trial in self.study.get_trials(deepcopy=False)]
        finished = [curve for curve in curves if last in curve]
        ended: dict[int, Point] = {}

        def left() -> list[int]:
            return [
                i for i in range(len(points)) if i not in ended and self.diverged.isdisjoint(map(runs.get, specs[i]))
            ]

        for stage in range(1, last + 1):
            until = stage if len(finished) >= ENOUGH else last
            self._advance({runs[spec]: points[i] for i in left() for spec in specs[i]}, until)
            for i in left():
                point = Point(points[i], tuple(self._accuracy(runs[spec], spec, stage) for spec in specs[i]))
                trials[i].report(point.accuracy, stage)
                if stage == last:
                    ended[i] = point
                elif until < last and point.accuracy < statistics.median(curve[stage] for curve in finished):
                    ended[i] = replace(point, given_up=stage)
        lost = [Point(values, (0.0,) * self.tuning.seeds, diverged=True) for values in points]
        return [ended.get(i, lost[i]) for i in range(len(points))]

    def _advance(self, runs: Mapping[Spec, dict[str, Any]], until: int) -> None:
        """Continue runs to the end of a stage, unless they are there already; at the last one they must be finished."""
        folders = {run: Folder(self.root, run) for run in runs}
        missing = [
            run
            for run, folder in folders.items()
            if not folder.result() and (until == run.stages or len(folder.records()) < until)
        ]
        for outcome in self.engine(missing, until) if missing else ():
            _checked(outcome, runs[outcome.spec])
            if isinstance(outcome, Failure) and outcome.cause == "diverged":
                self.diverged.add(outcome.spec)

    def _accuracy(self, run: Spec, spec: Spec, stage: int) -> float:
        """Accuracy after a stage of a spec that a run answers."""
        return metrics.mean(answering(run, spec)(Folder(self.root, run).records()[stage - 1])["accuracy"])


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The search stopped on request; its runs are kept."""


def best(points: Sequence[Point]) -> Point:
    """The first point with the highest accuracy, of those that neither diverged nor were given up."""
    ended = [point for point in points if not point.diverged and not point.given_up]
    if not ended:
        raise errors.RunError("All points diverged or were given up. Try other values.")
    return max(ended, key=lambda point: point.accuracy)


def spelled(values: dict[str, Any]) -> str:
    """Values as text.

    >>> spelled({"alpha": 0.3, "lr": 0.1})
    'alpha = 0.3, lr = 0.1'
    """
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _checked(outcome: Outcome, values: dict[str, Any]) -> Any:
    """The result, or None for a run that paused or diverged. Any other failure ends the search."""
    if isinstance(outcome, Result):
        return outcome
    if outcome.cause in ("paused", "diverged"):
        return None
    if outcome.cause == "stopped":
        raise Stopped(outcome.message)
    raise errors.RunError(f"The search stopped, as {outcome.spec.key} with {spelled(values)} failed. {outcome.message}")
