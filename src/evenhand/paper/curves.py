"""The paper's figures as data: panels of curves over stages, classes or alpha, for all streams that have runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Group, StageMetric, arrived
from evenhand.experiment.result import Result, by_setting
from evenhand.paper.definitions import Item
from evenhand.paper.published import stream_title

PLAIN, IMPROVED = "plain", "+ UER"
ACCURACY = "accuracy in %"
QUANTITIES = {
    "weight_change": ("Change of w in the last stage", "mean change of w"),
    "bias_change": ("Change of b in the last stage", "change of b"),
    "norm": ("Norm of w", "|w|"),
    "probability": ("Mean predicted probability", "%"),
}


@dataclass(frozen=True)
class Curve:
    """A line; None where a point is missing."""

    name: str
    points: tuple[Estimate | None, ...]

    @property
    def means(self) -> list[float | None]:
        """The mean of each point."""
        return [None if point is None else point.mean for point in self.points]

    @property
    def seeds(self) -> list[int]:
        """The number of seeds behind each point."""
        return [0 if point is None else len(point.values) for point in self.points]


@dataclass(frozen=True)
class Panel:
    """Axes with curves.

    Attributes
    ----------
    xs
        The positions of the points of all curves.
    split
        How many of the xs are previous classes; 0 if they are not classes.
    """

    title: str
    x: str
    y: str
    xs: tuple[float, ...]
    curves: tuple[Curve, ...]
    split: int = 0

    def fields(self) -> dict[str, Any]:
        """The panel as plain data."""
        curves = [
            {
                "name": curve.name,
                "seeds": curve.seeds,
                "mean": curve.means,
                "interval": [None if point is None else point.half for point in curve.points],
            }
            for curve in self.curves
        ]
        axes = {"title": self.title, "x": self.x, "y": self.y, "at": list(self.xs), "split": self.split}
        return {**axes, "curves": curves}


def panels(item: Item, results: Sequence[Result]) -> list[Panel]:
    """Draw the finished runs of an item; empty for a table, or without runs."""
    draw = FIGURES.get(item.draws)
    if draw is None:
        return []
    position = {spec.setting: index for index, spec in enumerate(item.settings())}
    names = item.names()
    groups = [Group(names[runs[0].spec.setting], tuple(runs)) for runs in by_setting(list(results))]
    groups.sort(key=lambda group: position[group.runs[0].spec.setting])
    streams: dict[tuple[str, int, int], list[Group]] = {}
    for group in groups:
        spec = group.runs[0].spec
        streams.setdefault((spec.data, spec.memory, spec.stages), []).append(group)
    return [panel for (data, memory, _), own in streams.items() for panel in draw(stream_title(data, memory), own)]


def _stages(stream: str, groups: Sequence[Group]) -> list[Panel]:
    return [_by_stage(stream, groups, metrics.average)]


def _balance(stream: str, groups: Sequence[Group]) -> list[Panel]:
    return [
        _by_stage(f"{stream}: mean of both", groups, metrics.balance),
        _by_stage(f"{stream}: previous classes", groups, metrics.previous),
        _by_stage(f"{stream}: current classes", groups, metrics.current),
    ]


def _improvement(stream: str, groups: Sequence[Group]) -> list[Panel]:
    pairs: dict[str, list[Group]] = {}
    for group in groups:
        base, _, added = group.label.partition(" + ")
        pairs.setdefault(base, []).append(Group(IMPROVED if added else PLAIN, group.runs))
    return [_by_stage(f"{stream}: {base}", pair, metrics.average) for base, pair in pairs.items()]


def _scale(stream: str, groups: Sequence[Group]) -> list[Panel]:
    groups = sorted(_with_shared_seeds(groups), key=_alpha)
    measures = {"all": metrics.average, "previous": metrics.previous, "current": metrics.current}
    curves = [
        Curve(name, tuple(_percent(group.estimate(metric)) for group in groups)) for name, metric in measures.items()
    ]
    return [Panel(stream, "alpha", ACCURACY, tuple(map(_alpha, groups)), tuple(curves))]


def _alpha(group: Group) -> float:
    return group.runs[0].spec.resolved.scoring.replay.dot


def _with_shared_seeds(groups: Sequence[Group]) -> Sequence[Group]:
    """Restrict groups to the seeds that all have, so that a curve across them shows no difference between seeds."""
    seeds = set.intersection(*(set(group.seeds) for group in groups))
    if not seeds:
        return groups
    return [Group(group.label, tuple(run for run in group.runs if run.spec.seed in seeds)) for group in groups]


def _analysis(stream: str, groups: Sequence[Group]) -> list[Panel]:
    run = groups[0].runs[0]
    xs = tuple(float(number) for number in range(1, len(run.classes) + 1))
    return [
        Panel(
            title=f"{stream}: {title}",
            x="class, by arrival",
            y=unit,
            xs=xs,
            curves=tuple(Curve(group.label, _by_class(group, quantity, len(xs))) for group in groups),
            split=arrived(run),
        )
        for quantity, (title, unit) in QUANTITIES.items()
    ]


def _by_class(group: Group, quantity: str, count: int) -> tuple[Estimate | None, ...]:
    """Estimate a quantity of each class after the last stage; None for a class that never arrived."""
    factor = 100 if quantity == "probability" else 1
    columns = group.by_class(quantity).T.tolist()
    known = [[factor * value for value in column if not math.isnan(value)] for column in columns]
    known += [[] for _ in range(count - len(known))]
    return tuple(Estimate(tuple(values)) if values else None for values in known[:count])


def _by_stage(title: str, groups: Sequence[Group], metric: StageMetric) -> Panel:
    stages = range(1, len(groups[0].runs[0].records) + 1)
    curves = tuple(Curve(group.label, tuple(map(_percent, group.by_stage(metric)))) for group in groups)
    return Panel(title, "stage", ACCURACY, tuple(map(float, stages)), curves)


def _percent(estimate: Estimate | None) -> Estimate | None:
    return None if estimate is None else estimate.percent


FIGURES: dict[str, Callable[[str, Sequence[Group]], list[Panel]]] = {
    "stages": _stages,
    "balance": _balance,
    "improvement": _improvement,
    "scale": _scale,
    "analysis": _analysis,
}
