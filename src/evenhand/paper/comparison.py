"""Our numbers against the paper's: rows with both, and a flag where they differ by more than chance explains."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.paper import naming
from evenhand.paper.definitions import Item, memoryless
from evenhand.paper.expected import Expected
from evenhand.paper.measures import MEASURES, Measure
from evenhand.report.group import Estimate

RUNS = 10  # of every number in the paper


@dataclass(frozen=True)
class Row:
    """One number of the paper and ours.

    Attributes
    ----------
    memory
        None for a method that keeps none.
    published, interval
        What the paper printed, and half its 95 % interval; None where it printed none.
    ours
        The mean over our seeds; None if nothing was run.
    seeds
        The seeds that were run; none for what was counted or timed.
    between
        The 95 % interval of a median over rounds, for what was timed.
    neck
        Whether a layer was added before the head, as in Table 4.
    """

    name: str
    method: str
    order: str
    data: str
    memory: int | None
    measure: str
    published: float | None
    interval: float | None
    ours: Estimate | None
    seeds: tuple[int, ...]
    between: tuple[float, float] | None = None
    neck: bool = False

    @property
    def kind(self) -> Measure:
        """What is measured."""
        return MEASURES[self.measure]

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.ours is None or self.published is None else self.ours.mean - self.published

    @property
    def flagged(self) -> bool | None:
        """Whether the two differ by more than chance explains; None where that cannot be said."""
        if self.difference is None or self.interval is None or not self.seeds:
            return None
        return abs(self.difference) > bound(self.interval, len(self.seeds))

    def fields(self) -> dict[str, Any]:
        """The row as data."""
        return {
            "name": self.name,
            "method": self.method,
            "order": self.order,
            "data": self.data,
            "memory": self.memory,
            "measure": self.measure,
            "paper": self.published,
            "paper_interval": self.interval,
            "ours": None if self.ours is None else self.ours.mean,
            "interval": None if self.ours is None else self.ours.half,
            "between": self.between,
            "difference": self.difference,
            "seeds": list(self.seeds),
            "flagged": self.flagged,
        }


@dataclass(frozen=True)
class Section:
    """The rows of one stream, memory and measure."""

    title: str
    rows: tuple[Row, ...]

    @property
    def run(self) -> bool:
        """Whether there is anything of our own."""
        return any(row.ours is not None for row in self.rows)


def bound(interval: float, seeds: int, runs: int = RUNS) -> float:
    """The largest difference that is not flagged: two standard errors of the difference of the two means.

    The paper's deviation follows from its interval, which is that of the mean of ten runs by Student's t.

    >>> round(bound(0.9, 2), 2)
    1.95
    """
    deviation = interval * math.sqrt(runs) / metrics.student(runs - 1)
    return 2 * deviation * math.sqrt(1 / seeds + 1 / runs)


def compare(item: Item, results: Sequence[Result], steps: Mapping[str, Mapping[str, float]]) -> list[Section]:
    """All rows of an item, in its order.

    Parameters
    ----------
    results
        Those of its runs that are done.
    steps
        What was counted and timed of steps, by method and measure.
    """
    groups: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.spec.seed):
        groups.setdefault(result.spec.setting, []).append(result)
    sections: dict[tuple[str, int | None, str], list[Row]] = {}
    names = item.names()
    for spec in item.settings():
        for measure in item.measures:
            own = groups.get(spec.setting, []), steps.get(spec.method, {})
            row = _row(names[spec.setting], item.published(spec), spec, measure, *own)
            sections.setdefault((row.data, row.memory, measure), []).append(row)
    several = len(item.measures) > 1
    return [
        Section(naming.place(data, memory) + (f": {MEASURES[measure].title}" if several else ""), tuple(rows))
        for (data, memory, measure), rows in sections.items()
    ]


def _row(
    name: str,
    published: Expected | None,
    spec: Spec,
    measure: str,
    group: Sequence[Result],
    steps: Mapping[str, float],
) -> Row:
    kind = MEASURES[measure]
    if kind.value is None:
        values = [steps[measure]] if measure in steps else []
    else:
        values = [value for run in group if (value := kind.value(run)) is not None]
    return Row(
        name=name,
        method=spec.method,
        order=spec.order,
        data=spec.data,
        memory=None if memoryless(spec) else spec.memory,
        measure=measure,
        published=published.numbers.get(measure) if published else None,
        interval=published.half(measure) if published else None,
        ours=Estimate(tuple(values)) if values else None,
        seeds=tuple(run.spec.seed for run in group) if values else (),
        between=(steps["time_low"], steps["time_high"]) if measure == "time" and "time_low" in steps else None,
        neck=spec.neck,
    )
