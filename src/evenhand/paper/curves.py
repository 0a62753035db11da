"""The paper's figures as data: panels of curves over stages, classes or alpha, for all streams that have runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Group, Metric, arrived, grouped, percent
from evenhand.experiment.result import Result
from evenhand.paper.definitions import Item
from evenhand.paper.published import stream_title

PLAIN, IMPROVED = "plain", "+ UER"
ACCURACY = "accuracy in %"
BALANCE = {"mean of both": metrics.balance, "previous classes": metrics.previous, "current classes": metrics.current}
SCALE = {"all": metrics.average, "previous": metrics.previous, "current": metrics.current}
QUANTITIES = {
    "weight_change": ("Change of w in the last stage", "mean change of w"),
    "bias_change": ("Change of b in the last stage", "change of b"),
    "norm": ("Norm of w", "|w|"),
    "probability": ("Mean predicted probability", "%"),
}


class Curve(NamedTuple):
    """A line; None where a point is missing."""

    name: str
    points: Sequence[Estimate | None]


@dataclass(frozen=True)
class Panel:
    """Axes with curves."""

    title: str
    x: str
    y: str
    xs: tuple[float, ...]  # the positions of the points of all curves
    curves: list[Curve]
    split: int = 0  # how many of the xs are previous classes; 0 if they are not classes

    def fields(self) -> dict[str, Any]:
        """The panel as plain data."""
        curves = [
            {
                "name": name,
                "seeds": [len(point.values) if point else 0 for point in points],
                "mean": [point.mean if point else None for point in points],
                "interval": [point.half if point else None for point in points],
            }
            for name, points in self.curves
        ]
        axes = {"title": self.title, "x": self.x, "y": self.y, "at": list(self.xs), "split": self.split}
        return {**axes, "curves": curves}


def panels(item: Item, results: Sequence[Result]) -> list[Panel]:
    """Draw the finished runs of an item; empty for a table, or without runs."""
    if item.kind == "table":
        return []
    groups = [row.group for row in item.rows(results) if row.group.runs]
    streams = grouped(groups, lambda group: (group.spec.data, group.spec.memory, group.spec.stages))
    drawn = [FIGURES[item.draws](stream_title(data, memory), own) for (data, memory, _), own in streams.items()]
    return [panel for figure in drawn for panel in figure]


def _stages(stream: str, groups: Sequence[Group]) -> list[Panel]:
    return [_by_stage(stream, groups, metrics.average)]


def _balance(stream: str, groups: Sequence[Group]) -> list[Panel]:
    return [_by_stage(f"{stream}: {name}", groups, metric) for name, metric in BALANCE.items()]


def _improvement(stream: str, groups: Sequence[Group]) -> list[Panel]:
    pairs: dict[str, list[Group]] = {}
    for group in groups:
        base, _, added = group.label.partition(" + ")
        pairs.setdefault(base, []).append(Group(IMPROVED if added else PLAIN, group.runs))
    return [_by_stage(f"{stream}: {base}", pair, metrics.average) for base, pair in pairs.items()]


def _by_stage(title: str, groups: Sequence[Group], metric: Metric) -> Panel:
    curves = [Curve(group.label, group.by_stage(metric)) for group in groups]
    return Panel(title, "stage", ACCURACY, _numbers(groups[0].runs[0].records), curves)


def _scale(stream: str, groups: Sequence[Group]) -> list[Panel]:
    """Curves across groups, over the seeds that all have, so that they show no difference between seeds."""
    shared = set.intersection(*(set(group.seeds) for group in groups))
    kept = [
        Group(group.label, tuple(run for run in group.runs if run.spec.seed in shared or not shared))
        for group in sorted(groups, key=_alpha)
    ]
    curves = [Curve(name, [group.estimate(percent(metric)) for group in kept]) for name, metric in SCALE.items()]
    return [Panel(stream, "alpha", ACCURACY, tuple(map(_alpha, kept)), curves)]


def _alpha(group: Group) -> float:
    return group.spec.resolved.scoring.replay.dot


def _analysis(stream: str, groups: Sequence[Group]) -> list[Panel]:
    run = groups[0].runs[0]
    made = []
    for quantity, (title, unit) in QUANTITIES.items():
        xs = _numbers(run.classes)
        curves = [Curve(group.label, (group.by_class(quantity) + [None] * len(xs))[: len(xs)]) for group in groups]
        made.append(Panel(f"{stream}: {title}", "class, by arrival", unit, xs, curves, split=arrived(run)))
    return made


def _numbers(things: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float(number) for number in range(1, len(things) + 1))


FIGURES: dict[str, Callable[[str, Sequence[Group]], list[Panel]]] = {
    "stages": _stages,
    "balance": _balance,
    "improvement": _improvement,
    "scale": _scale,
    "analysis": _analysis,
}
