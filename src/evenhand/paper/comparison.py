"""Comparison: our numbers next to the paper's, with a flag where they differ by more than chance explains."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Group
from evenhand.experiment.result import Result, grouped
from evenhand.experiment.spec import Spec
from evenhand.paper.definitions import Item, memoryless
from evenhand.paper.measures import MEASURES, Measure
from evenhand.paper.published import Published, stream_title
from evenhand.paper.steps import Steps

PAPER_RUNS = 10  # behind every number in the paper


@dataclass(frozen=True)
class ComparedRow:
    """One number of the paper and ours; an interval is half that of 95 %."""

    name: str
    method: str
    order: str
    data: str
    memory: int | None  # None for a method without a memory
    measure: str
    paper: float | None
    paper_interval: float | None  # None if not printed
    ours: float | None  # the mean over our seeds; None if nothing was run
    interval: float | None
    between: tuple[float, float] | None  # the interval of a median over rounds, for a timed step
    difference: float | None  # ours minus the paper's
    seeds: tuple[int, ...]  # empty for a measured step
    flagged: bool | None  # whether they differ by more than chance explains; None without intervals or runs
    estimate: Estimate | None
    neck: bool  # whether a layer was added before the head, as in Table 4

    @property
    def kind(self) -> Measure:
        """What is measured."""
        return MEASURES[self.measure]

    def fields(self) -> dict[str, Any]:
        """The row as plain data."""
        return {name: value for name, value in vars(self).items() if name not in ("estimate", "neck")}


@dataclass(frozen=True)
class ComparedTable:
    """The rows of one stream, memory and measure."""

    title: str
    rows: tuple[ComparedRow, ...]

    @property
    def has_runs(self) -> bool:
        """Whether any row has a number of ours."""
        return any(row.estimate is not None for row in self.rows)


def largest_difference(interval: float, seeds: int) -> float:
    """The largest difference that is not flagged: two standard errors of the difference of the two means.

    The paper's deviation follows from its interval, that of the mean of ten runs by Student's t.

    >>> round(largest_difference(0.9, 2), 2)
    1.95
    """
    deviation = interval * math.sqrt(PAPER_RUNS) / metrics.student(PAPER_RUNS - 1)
    return 2 * deviation * math.sqrt(1 / seeds + 1 / PAPER_RUNS)


def compare(item: Item, results: Sequence[Result], steps: Steps) -> list[ComparedTable]:
    """Compare the finished runs, or measured steps, of an item with its published numbers."""
    rows = [
        _row(*row, measure, steps.get(row.spec.method, {})) for row in item.rows(results) for measure in item.measures
    ]
    tables = grouped(rows, lambda row: (stream_title(row.data, row.memory), row.kind.title))
    several = len(item.measures) > 1
    return [
        ComparedTable(f"{stream}: {measure}" if several else stream, tuple(own))
        for (stream, measure), own in tables.items()
    ]


def _row(spec: Spec, published: Published | None, group: Group, measure: str, step: dict[str, float]) -> ComparedRow:
    compute = MEASURES[measure].value
    ours = Estimate.of(map(compute, group.runs) if compute else [step.get(measure)])
    paper = published.numbers.get(measure) if published else None
    interval = published.interval if published and measure == "accuracy" else None
    seeds = tuple(group.seeds) if ours else ()
    difference = None if ours is None or paper is None else ours.mean - paper
    flagged = None
    if difference is not None and interval is not None and seeds:
        flagged = abs(difference) > largest_difference(interval, len(seeds))
    return ComparedRow(
        name=group.label,
        method=spec.method,
        order=spec.order,
        data=spec.data,
        memory=None if memoryless(spec) else spec.memory,
        measure=measure,
        paper=paper,
        paper_interval=interval,
        ours=ours.mean if ours else None,
        interval=ours.half if ours else None,
        between=(step["time_low"], step["time_high"]) if measure == "time" and "time_low" in step else None,
        difference=difference,
        seeds=seeds,
        flagged=flagged,
        estimate=ours,
        neck=spec.neck,
    )
