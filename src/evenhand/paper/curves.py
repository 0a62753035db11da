"""The paper's figures as data: panels of curves over stages, classes or alpha, for all streams that have runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenhand import metrics
from evenhand.core import registry
from evenhand.experiment.estimate import Estimate, Group, Metric, arrived, in_percent, is_probable
from evenhand.experiment.result import Result, grouped
from evenhand.experiment.spec import Spec, titles
from evenhand.paper.definitions import Item
from evenhand.paper.measures import shows_head
from evenhand.paper.published import method_title, stream_title

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
    """A panel for each method that UER is added to, and for each way to test it."""
    pairs = grouped(groups, lambda group: _without_uer(group.spec))
    names = [method_title(base.method) for base in pairs]
    made = []
    for name, title, (base, pair) in zip(names, titles(list(pairs), seeds=False), pairs.items(), strict=True):
        curves = [Group(PLAIN if group.method == base.method else IMPROVED, group.runs) for group in pair]
        made.append(_by_stage(f"{stream}: {name if names.count(name) == 1 else title}", curves, metrics.average))
    return made


def _without_uer(spec: Spec) -> Spec:
    """The setting that UER is added to; UER alone is added to nothing."""
    trained, ways = registry.split(spec.method)
    base = [term for term in trained if term[0].name != "uer"] or trained
    method = "+".join(map(registry.spell, [*base, *ways]))
    return spec.model_copy(update={"method": method, "seed": 0})


def _by_stage(title: str, groups: Sequence[Group], metric: Metric) -> Panel:
    curves = [Curve(group.label, group.by_stage(metric)) for group in groups]
    return Panel(title, "stage", ACCURACY, _numbers(groups[0].runs[0].records), curves)


def _scale(stream: str, groups: Sequence[Group]) -> list[Panel]:
    """A panel for each way to test."""
    ways = grouped(groups, lambda group: "+".join(map(registry.spell, registry.split(group.method)[1])))
    return [_by_alpha(f"{stream}: {method_title(way)}" if way else stream, own) for way, own in ways.items()]


def _by_alpha(title: str, groups: Sequence[Group]) -> Panel:
    """Curves across groups, over the seeds that all have, so that they show no difference between seeds."""
    shared = set.intersection(*(set(group.seeds) for group in groups))
    kept = [
        Group(group.label, tuple(run for run in group.runs if run.spec.seed in shared or not shared))
        for group in sorted(groups, key=_alpha)
    ]
    curves = [Curve(name, [group.estimate(in_percent(metric)) for group in kept]) for name, metric in SCALE.items()]
    return Panel(title, "alpha", ACCURACY, tuple(map(_alpha, kept)), curves)


def _alpha(group: Group) -> float:
    return group.spec.resolved.scoring.replay.dot


def _analysis(stream: str, groups: Sequence[Group]) -> list[Panel]:
    run = groups[0].runs[0]
    made = []
    for quantity, (title, unit) in QUANTITIES.items():
        xs = _numbers(run.classes)
        shows = is_probable if quantity == "probability" else shows_head
        shown = [group for group in groups if shows(group.spec)]
        curves = [Curve(group.label, (group.by_class(quantity) + [None] * len(xs))[: len(xs)]) for group in shown]
        if curves:
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
