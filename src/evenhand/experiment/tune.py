"""Choosing the parameters of a method by the accuracy on held-out training samples; no test sample is touched.

A search asks for points, an engine runs them, and the records are the memory: the same search asked again reads what it
has run and goes on from there. A grid tries every combination. Optuna proposes points, and one that is worse at the end
of a stage than half of those before it were there goes no further. A point that diverged is never chosen.
"""

import itertools
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand import errors, metrics, registry
from evenhand.experiment.axis import FIXED, Axis, given, takes_whole, with_value
from evenhand.experiment.engine import Failure, Outcome
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

ENOUGH = 5  # points that must have come to the end before one is given up
Engine = Callable[[list[Spec], int | None], Sequence[Outcome]]
"""Runs specs to the end of a stage, or of the stream, and returns what came of each."""


@dataclass(frozen=True)
class Point:
    """What was tried: values, and the accuracy that they reached with each seed; 0 if they diverged."""

    values: dict[str, Any]
    accuracies: tuple[float, ...]
    given_up: int | None = None
    """The stage at whose end it was given up."""
    diverged: bool = False
    """Whether a run of it diverged, be it with one seed of many."""

    @property
    def accuracy(self) -> float:
        """The mean over the seeds; for a point that was given up, that of the stage where it was."""
        return metrics.mean(list(self.accuracies))

    def __str__(self) -> str:
        if self.diverged:
            return f"{spelled(self.values)}: diverged"
        given_up = f", given up at stage {self.given_up}" if self.given_up else ""
        return f"{spelled(self.values)}: accuracy {100 * self.accuracy:.1f} %{given_up}"

    def fields(self) -> dict[str, Any]:
        """The point as JSON; one that diverged has no accuracy."""
        return {
            "values": self.values,
            "accuracy": None if self.diverged else self.accuracy,
            "interval": None if self.diverged else metrics.interval(list(self.accuracies)),
            "seeds": len(self.accuracies),
            "given_up": self.given_up,
            "diverged": self.diverged,
        }


class Tuning:
    """A search for the best values of some fields.

    Parameters
    ----------
    method
        The method with the parameters that are not searched for.
    axes
        The fields: parameters of the method, as alpha or uer.alpha, or of a run, as lr. Ranges of those that take
        whole numbers are made whole.
    fields
        Everything else about the runs.
    seeds
        Each point is run with the seeds 0 to K - 1.
    """

    def __init__(
        self, method: str, axes: Sequence[Axis], fields: dict[str, Any], *, preset: str | None = None, seeds: int = 1
    ) -> None:
        self.method = method
        self.fields = fields
        self.preset = preset
        self.seeds = errors.whole("The number of --seeds", seeds, 1)
        if not axes:
            raise errors.InputError("Name at least one --field to choose, e.g. --field alpha=0.1:0.9.")
        if len({axis.name for axis in axes}) < len(axes):
            raise errors.InputError("Each --field can be searched once.")
        registry.resolve(method)
        self.axes = tuple(axis.as_whole() if takes_whole(method, axis.name) else axis for axis in axes)
        first = {axis.name: axis.values[0] for axis in self.axes}
        for axis in self.axes:
            for value in axis.values:  # so that a mistake is named before anything runs
                self.specs({**first, axis.name: value})
            if axis.name in fields or given(method, axis.name):
                raise errors.InputError(f"'{axis.name}' is given and searched for. Leave out one of the two.")

    def specs(self, values: dict[str, Any], tested: str = "validation") -> list[Spec]:
        """The runs of one point."""
        method, fields = self.method, dict(self.fields)
        for name, value in values.items():
            if name in Spec.model_fields:
                if name in FIXED:
                    raise errors.InputError(f"'{name}' says what is measured, and cannot be chosen by it.")
                fields[name] = value
            else:
                method = with_value(method, name, value)
        given = {**fields, "method": method, "tested": tested}
        return [Spec.make(self.preset, **given, seed=seed) for seed in range(self.seeds)]

    def command(self, point: Point, root: Path, data_dir: Path | None = None) -> str:
        """The command line that tests the point."""
        spec = self.specs(point.values, tested="test")[0]
        told = {**self.fields, **{name: point.values[name] for name in point.values if name in Spec.model_fields}}
        flags = {"preset": self.preset, **told, "seeds": self.seeds, "data_dir": data_dir, "root": root}
        words = ["evenhand", "run", spec.method]
        for name, value in flags.items():
            if value is True or value is False:
                words += [f"--{name.replace('_', '-')}"] * value
            elif value is not None:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def grid(self, engine: Engine) -> Iterator[Point]:
        """Try every combination."""
        named = [axis.name for axis in self.axes]
        points = [
            dict(zip(named, chosen, strict=True)) for chosen in itertools.product(*(axis.values for axis in self.axes))
        ]
        outcomes = iter(engine([spec for values in points for spec in self.specs(values)], None))
        for values in points:
            results = [_sound(next(outcomes), values) for _ in range(self.seeds)]
            diverged = None in results
            reached = [0.0 if diverged else metrics.average(result.accuracy) for result in results]
            yield Point(values, tuple(reached), diverged=diverged)

    def optuna(self, engine: Engine, root: Path, trials: int, at_once: int = 1) -> Iterator[Point]:
        """Let Optuna propose points, so many at once, and give up the worse ones at stage ends."""
        try:
            import optuna
        except ImportError:
            raise errors.InputError("The search optuna needs Optuna: pip install 'evenhand[sweep]'.") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
        left = errors.whole("The number of --trials", trials, 1)
        curves: list[list[float]] = []
        diverged: set[Spec] = set()
        while left:
            asked = [study.ask() for _ in range(min(at_once, left))]
            left -= len(asked)
            points = [{axis.name: axis.suggested(trial) for axis in self.axes} for trial in asked]
            tried = self._race(engine, root, asked, points, curves, diverged)
            for trial, point in zip(asked, tried, strict=True):
                if point.given_up:
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)  # it knows what was reported last
                else:
                    study.tell(trial, point.accuracy)
                yield point

    def _race(
        self,
        engine: Engine,
        root: Path,
        trials: list[Any],
        points: list[dict[str, Any]],
        curves: list[list[float]],
        diverged: set[Spec],
    ) -> list[Point]:
        """Run points stage by stage; hopeless ones and those that diverge go no further.

        The curves of those that come to the end are kept, and the runs that diverged. Until there are enough curves to
        give up a point, runs go straight to the end.

        Optuna's own pruners compare the best that a trial ever was, which here is always its first, easiest stage.
        """
        runs = [self.specs(values) for values in points]
        owners = {spec: values for specs, values in zip(runs, points, strict=True) for spec in specs}
        courses: list[list[float]] = [[] for _ in points]
        ended: dict[int, Point] = {}
        last = runs[0][0].stages

        def goes_on(number: int) -> bool:
            return number not in ended and diverged.isdisjoint(runs[number])

        for stage in range(1, last + 1):
            until = stage if len(curves) >= ENOUGH else last
            specs = dict.fromkeys(spec for number in filter(goes_on, range(len(points))) for spec in runs[number])
            missing = [spec for spec in specs if not _reached(Folder(root, spec), until)]
            for outcome in engine(missing, until) if missing else ():
                _sound(outcome, owners[outcome.spec])
                if isinstance(outcome, Failure) and outcome.cause == "diverged":
                    diverged.add(outcome.spec)
            for number in filter(goes_on, range(len(points))):
                point = Point(points[number], tuple(_accuracy(Folder(root, spec), stage) for spec in runs[number]))
                courses[number].append(point.accuracy)
                trials[number].report(point.accuracy, stage)
                if stage == last:
                    ended[number] = point
                elif len(curves) >= ENOUGH and point.accuracy < statistics.median(c[stage - 1] for c in curves):
                    ended[number] = replace(point, given_up=stage)
        curves += [curve for curve in courses if len(curve) == last]
        lost = [Point(values, (0.0,) * self.seeds, diverged=True) for values in points]
        return [ended.get(number, lost[number]) for number in range(len(points))]


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The search was asked to stop; what it has run is kept."""


def best(points: Sequence[Point]) -> Point:
    """The point with the highest accuracy, the first of several; one that diverged or was given up has no say."""
    ended = [point for point in points if not point.diverged and not point.given_up]
    if not ended:
        raise errors.RunError("Every point diverged or was given up, so there is no choice. Search other values.")
    return max(ended, key=lambda point: point.accuracy)


def spelled(values: dict[str, Any]) -> str:
    """Values as they stand in a sentence.

    >>> spelled({"alpha": 0.3, "lr": 0.1})
    'alpha = 0.3, lr = 0.1'
    """
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _sound(outcome: Outcome, values: dict[str, Any]) -> Any:
    """The result, or None of a run that was to go no further or diverged; one that failed ends the search."""
    if isinstance(outcome, Result):
        return outcome
    if outcome.cause in ("paused", "diverged"):
        return None
    if outcome.cause == "stopped":
        raise Stopped(outcome.sentence)
    raise errors.RunError(
        f"The run {outcome.spec.key} with {spelled(values)} failed, so there is no choice: {outcome.sentence}"
    )


def _reached(folder: Folder, stage: int) -> bool:
    """Whether a run has come to the end of a stage; at the last one it must be done."""
    return len(folder.records()) >= stage if stage < folder.spec.stages else folder.result() is not None


def _accuracy(folder: Folder, stage: int) -> float:
    """The accuracy at the end of a stage."""
    return metrics.mean(folder.records()[stage - 1]["accuracy"])
