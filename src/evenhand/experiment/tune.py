"""Choosing the parameters of a method by the accuracy on held-out training samples; no test sample is touched.

A search asks for points, an engine runs them, and the records are the memory: the same search asked again reads what it
has run and goes on from there. A grid tries every combination. Optuna proposes points, and one that is worse at the end
of a stage than half of those before it were there goes no further.
"""

import inspect
import itertools
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand import errors, metrics, names, registry
from evenhand.experiment.axis import Axis
from evenhand.experiment.engine import Outcome
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

ENOUGH = 5  # points that must have come to the end before one is given up
FIXED = ("method", "seed", "tested", "data", "size", "skip_bad", "stages", "order", "imbalance")
Engine = Callable[[list[Spec], int | None], Sequence[Outcome]]
"""Runs specs to the end of a stage, or of the stream, and returns what came of each."""


@dataclass(frozen=True)
class Point:
    """What was tried: values, and the accuracy that they reached with each seed; 0 where it diverged."""

    values: dict[str, Any]
    accuracies: tuple[float, ...]
    given_up: int | None = None
    """The stage at whose end it was given up."""

    @property
    def accuracy(self) -> float:
        """The mean over the seeds; for a point that was given up, that of the stage where it was."""
        return metrics.mean(list(self.accuracies))

    def __str__(self) -> str:
        given_up = f", given up at stage {self.given_up}" if self.given_up else ""
        return f"{spelled(self.values)}: accuracy {100 * self.accuracy:.1f} %{given_up}"

    def fields(self) -> dict[str, Any]:
        """The point as JSON."""
        interval = metrics.interval(list(self.accuracies))
        told = {"accuracy": self.accuracy, "interval": interval, "seeds": len(self.accuracies)}
        return {"values": self.values, **told, "given_up": self.given_up}


class Tuning:
    """A search for the best values of some fields.

    Parameters
    ----------
    method
        The method with the parameters that are not searched for.
    axes
        The fields: parameters of the method, as alpha or uer.alpha, or of a run, as lr.
    fields
        Everything else about the runs.
    seeds
        Each point is run with the seeds 0 to K - 1.
    """

    def __init__(
        self, method: str, axes: Sequence[Axis], fields: dict[str, Any], *, preset: str | None = None, seeds: int = 1
    ) -> None:
        self.method = method
        self.axes = tuple(axes)
        self.fields = fields
        self.preset = preset
        self.seeds = errors.whole("The number of --seeds", seeds, 1)
        if not axes:
            raise errors.InputError("Name at least one --field to choose, e.g. --field alpha=0.1:0.9.")
        if len({axis.name for axis in axes}) < len(axes):
            raise errors.InputError("Each --field can be searched once.")
        registry.resolve(method)
        first = {axis.name: axis.values[0] for axis in axes}
        for axis in axes:
            for value in axis.values:  # so that a mistake is named before anything runs
                self.specs({**first, axis.name: value})

    def specs(self, values: dict[str, Any], tested: str = "validation") -> list[Spec]:
        """The runs of one point."""
        method, fields = self.method, dict(self.fields)
        for name, value in values.items():
            if name in Spec.model_fields:
                if name in FIXED:
                    raise errors.InputError(f"'{name}' says what is measured, and cannot be chosen by it.")
                fields[name] = value
            else:
                method = _with(method, name, value)
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
            yield Point(values, tuple(metrics.average(result.accuracy) if result else 0.0 for result in results))

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
        while left:
            asked = [study.ask() for _ in range(min(at_once, left))]
            left -= len(asked)
            points = [{axis.name: axis.suggested(trial) for axis in self.axes} for trial in asked]
            tried = self._race(engine, root, asked, points, curves)
            for trial, point in zip(asked, tried, strict=True):
                if point.given_up:
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)  # it knows what was reported last
                else:
                    study.tell(trial, point.accuracy)
                yield point

    def _race(
        self, engine: Engine, root: Path, trials: list[Any], points: list[dict[str, Any]], curves: list[list[float]]
    ) -> list[Point]:
        """Run points stage by stage; hopeless ones go no further. The curves of those that come to the end are kept.

        Optuna's own pruners compare the best that a trial ever was, which here is always its first, easiest stage.
        """
        runs = [self.specs(values) for values in points]
        owners = {spec: values for specs, values in zip(runs, points, strict=True) for spec in specs}
        courses: list[list[float]] = [[] for _ in points]
        ended: dict[int, Point] = {}
        for stage in range(1, runs[0][0].stages + 1):
            racing = [number for number in range(len(points)) if number not in ended]
            specs = dict.fromkeys(spec for number in racing for spec in runs[number])
            missing = [spec for spec in specs if not _reached(Folder(root, spec), stage)]
            for outcome in engine(missing, stage) if missing else ():
                _sound(outcome, owners[outcome.spec])
            for number in racing:
                point = Point(points[number], tuple(_accuracy(Folder(root, spec), stage) for spec in runs[number]))
                courses[number].append(point.accuracy)
                trials[number].report(point.accuracy, stage)
                if stage == runs[0][0].stages:
                    ended[number] = point
                elif len(curves) >= ENOUGH and point.accuracy < statistics.median(c[stage - 1] for c in curves):
                    ended[number] = replace(point, given_up=stage)
        curves += [curve for number, curve in enumerate(courses) if not ended[number].given_up]
        return [ended[number] for number in range(len(points))]


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The search was asked to stop; what it has run is kept."""


def best(points: Sequence[Point]) -> Point:
    """The point with the highest accuracy, the first of several; one that was given up has no say."""
    ended = [point for point in points if not point.given_up]
    if not ended:
        raise errors.RunError("Every point was given up, so there is no choice. Allow more --trials.")
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
    """The accuracy at the end of a stage; none in a run that diverged before it."""
    records = folder.records()
    return metrics.mean(records[stage - 1]["accuracy"]) if len(records) >= stage else 0.0


def _with(method: str, name: str, value: Any) -> str:
    """The method with one of its parameters set; `uer.alpha` where several have it."""
    of, _, parameter = name.rpartition(".")
    terms = registry.terms(method)
    takers = [
        place
        for place, (recipe, _) in enumerate(terms)
        if of in ("", recipe.name) and parameter in inspect.signature(recipe.build).parameters
    ]
    if len(takers) != 1:
        known = [f"{recipe.name}.{own}" for recipe, _ in terms for own in inspect.signature(recipe.build).parameters]
        known += [own.rpartition(".")[2] for own in known]
        if takers:
            say = f"{terms[takers[0]][0].name}.{parameter}"
            raise errors.InputError(f"Several parts of {method} have a '{parameter}'. Say which, e.g. {say}.")
        raise errors.unknown("field to choose", name, [*known, *(own for own in Spec.model_fields if own not in FIXED)])
    spelled = [{**given, **({parameter: value} if place in takers else {})} for place, (_, given) in enumerate(terms)]
    return "+".join(
        names.spell(recipe.name, given, dict.fromkeys(given, ...))
        for (recipe, _), given in zip(terms, spelled, strict=True)
    )
