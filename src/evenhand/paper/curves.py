"""The paper's figures as data: panels with curves over stages, classes or alpha, for the datasets that have runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.result import Result, by_setting
from evenhand.paper import naming
from evenhand.paper.definitions import Item
from evenhand.paper.measures import percent
from evenhand.report.group import Estimate, Group, StageMetric, arrived

PLAIN, IMPROVED = "plain", "+ UER"
QUANTITIES = {
    "weight_change": ("Change of w in the last stage", "mean change of w"),
    "bias_change": ("Change of b in the last stage", "change of b"),
    "norm": ("Norm of w", "|w|"),
    "probability": ("Mean predicted probability", "%"),
}


@dataclass(frozen=True)
class Curve:
    """A line: its points, None where there is none."""

    name: str
    points: tuple[Estimate | None, ...]

    @property
    def seeds(self) -> list[int]:
        """Over how many seeds each point is a mean."""
        return [0 if point is None else len(point.values) for point in self.points]


@dataclass(frozen=True)
class Panel:
    """Axes with curves.

    Attributes
    ----------
    xs
        Where the points of all curves are.
    split
        How many of the xs are previous classes; 0 where they are no classes.
    """

    title: str
    x: str
    y: str
    xs: tuple[float, ...]
    curves: tuple[Curve, ...]
    split: int = 0

    def fields(self) -> dict[str, Any]:
        """The panel as data."""
        curves = [
            {
                "name": curve.name,
                "seeds": curve.seeds,
                "mean": [None if point is None else point.mean for point in curve.points],
                "interval": [None if point is None else point.half for point in curve.points],
            }
            for curve in self.curves
        ]
        places = {"at": list(self.xs), "split": self.split}
        return {"title": self.title, "x": self.x, "y": self.y, **places, "curves": curves}


def panels(item: Item, results: Sequence[Result]) -> list[Panel]:
    """What an item draws of its runs; nothing for a table, or where nothing has been run."""
    kind = FIGURES.get(item.draws)
    if kind is None:
        return []
    order = {spec.setting: place for place, spec in enumerate(item.settings())}
    names = item.names()
    groups = [Group(names[runs[0].spec.setting], tuple(runs)) for runs in by_setting(list(results))]
    groups.sort(key=lambda group: order[group.runs[0].spec.setting])
    places: dict[tuple[str, int, int], list[Group]] = {}
    for group in groups:
        spec = group.runs[0].spec
        places.setdefault((spec.data, spec.memory, spec.stages), []).append(group)
    return [panel for (data, memory, _), found in places.items() for panel in kind(naming.place(data, memory), found)]


def _stages(place: str, groups: Sequence[Group]) -> list[Panel]:
    return [_by_stage(place, groups, metrics.average)]


def _balance(place: str, groups: Sequence[Group]) -> list[Panel]:
    return [
        _by_stage(f"{place}: mean of both", groups, metrics.balance),
        _by_stage(f"{place}: previous classes", groups, metrics.previous),
        _by_stage(f"{place}: current classes", groups, metrics.current),
    ]


def _improvement(place: str, groups: Sequence[Group]) -> list[Panel]:
    pairs: dict[str, list[tuple[str, Group]]] = {}
    for group in groups:
        base, _, more = group.label.partition(" + ")
        pairs.setdefault(base, []).append((IMPROVED if more else PLAIN, group))
    return [
        _by_stage(f"{place}: {base}", [Group(role, group.runs) for role, group in pair], metrics.average)
        for base, pair in pairs.items()
    ]


def _scale(place: str, groups: Sequence[Group]) -> list[Panel]:
    groups = _shared(groups)
    alphas = [group.runs[0].spec.resolved.scoring.replay.dot for group in groups]
    by_alpha = sorted(zip(alphas, groups, strict=True), key=lambda pair: pair[0])
    kinds = {
        "all": metrics.average,
        "previous": metrics.previous,
        "current": metrics.current,
    }
    curves = [
        Curve(name, tuple(percent(group.estimate(metric)) for _, group in by_alpha)) for name, metric in kinds.items()
    ]
    return [Panel(place, "alpha", "accuracy in %", tuple(sorted(alphas)), tuple(curves))]


def _shared(groups: Sequence[Group]) -> Sequence[Group]:
    """Groups with the seeds that all of them have: a curve across them is to show no difference between seeds."""
    seeds = set.intersection(*(set(group.seeds) for group in groups))
    alike = [Group(group.label, tuple(run for run in group.runs if run.spec.seed in seeds)) for group in groups]
    return alike if seeds else groups


def _analysis(place: str, groups: Sequence[Group]) -> list[Panel]:
    run = groups[0].runs[0]
    xs = tuple(float(number) for number in range(1, len(run.classes) + 1))
    made = []
    for quantity, (title, unit) in QUANTITIES.items():
        curves = tuple(Curve(group.label, _by_class(group, quantity, len(xs))) for group in groups)
        made.append(Panel(f"{place}: {title}", "class, by arrival", unit, xs, curves, arrived(run)))
    return made


def _by_class(group: Group, quantity: str, count: int) -> tuple[Estimate | None, ...]:
    """A quantity of each class after the last stage; None for one that never arrived."""
    factor = 100 if quantity == "probability" else 1
    columns = group.by_class(quantity).T.tolist()
    found = [[factor * value for value in values if not math.isnan(value)] for values in columns]
    found += [[] for _ in range(count - len(found))]
    return tuple(Estimate(tuple(values)) if values else None for values in found[:count])


def _by_stage(title: str, groups: Sequence[Group], metric: StageMetric) -> Panel:
    stages = range(1, len(groups[0].runs[0].records) + 1)
    curves = tuple(Curve(group.label, tuple(map(percent, group.by_stage(metric)))) for group in groups)
    return Panel(title, "stage", "accuracy in %", tuple(map(float, stages)), curves)


FIGURES: dict[str, Callable[[str, Sequence[Group]], list[Panel]]] = {
    "stages": _stages,
    "balance": _balance,
    "improvement": _improvement,
    "scale": _scale,
    "analysis": _analysis,
}
