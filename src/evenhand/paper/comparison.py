"""Comparison: our numbers next to the paper's, with a flag where they differ by more than chance explains."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.estimate import Estimate
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.paper.definitions import Item, memoryless
from evenhand.paper.measures import MEASURES, Measure
from evenhand.paper.published import Published, stream_title
from evenhand.paper.records import Steps

PAPER_RUNS = 10  # behind every number in the paper
ROW_FIELDS = ("name", "method", "order", "data", "memory", "measure", "paper", "paper_interval", "ours", "interval",
              "between", "difference", "seeds", "flagged")  # fmt: skip


@dataclass(frozen=True)
class ComparedRow:
    """One number of the paper and ours.

    Attributes
    ----------
    memory
        None for a method without a memory.
    paper, paper_interval
        The paper's number and half its 95 % interval; None if not printed.
    estimate
        Our numbers; None if nothing was run.
    seeds
        The seeds of our runs; empty for a measured step.
    between
        The 95 % interval of a median over rounds, for a timed step.
    neck
        Whether a layer was added before the head, as in Table 4.
    """

    name: str
    method: str
    order: str
    data: str
    memory: int | None
    measure: str
    paper: float | None
    paper_interval: float | None
    estimate: Estimate | None
    seeds: tuple[int, ...]
    between: tuple[float, float] | None = None
    neck: bool = False

    @property
    def kind(self) -> Measure:
        """What is measured."""
        return MEASURES[self.measure]

    @property
    def ours(self) -> float | None:
        """Our mean over the seeds."""
        return self.estimate.mean if self.estimate else None

    @property
    def interval(self) -> float | None:
        """Half the 95 % interval of our mean."""
        return self.estimate.half if self.estimate else None

    @property
    def difference(self) -> float | None:
        """Our number minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    @property
    def flagged(self) -> bool | None:
        """Whether the numbers differ by more than chance explains; None without intervals or runs."""
        if self.difference is None or self.paper_interval is None or not self.seeds:
            return None
        return abs(self.difference) > largest_difference(self.paper_interval, len(self.seeds))

    def fields(self) -> dict[str, Any]:
        """The row as plain data."""
        return {name: getattr(self, name) for name in ROW_FIELDS}


@dataclass(frozen=True)
class ComparedTable:
    """The rows of one stream, memory and measure."""

    title: str
    rows: tuple[ComparedRow, ...]

    @property
    def has_runs(self) -> bool:
        """Whether any row has a number of ours."""
        return any(row.estimate is not None for row in self.rows)


def largest_difference(interval: float, seeds: int, runs: int = PAPER_RUNS) -> float:
    """The largest difference that is not flagged: two standard errors of the difference of the two means.

    The paper's deviation follows from its interval, that of the mean of ten runs by Student's t.

    >>> round(largest_difference(0.9, 2), 2)
    1.95
    """
    deviation = interval * math.sqrt(runs) / metrics.student(runs - 1)
    return 2 * deviation * math.sqrt(1 / seeds + 1 / runs)


def compare(item: Item, results: Sequence[Result], steps: Steps) -> list[ComparedTable]:
    """Compare the finished runs, or measured steps, of an item with its published numbers."""
    by_setting: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.spec.seed):
        by_setting.setdefault(result.spec.setting, []).append(result)
    tables: dict[tuple[str, int | None, str], list[ComparedRow]] = {}
    names = item.names()
    for spec in item.settings():
        runs, own_steps = by_setting.get(spec.setting, []), steps.get(spec.method, {})
        for measure in item.measures:
            row = _row(names[spec.setting], item.published_for(spec), spec, measure, runs, own_steps)
            tables.setdefault((row.data, row.memory, measure), []).append(row)
    several = len(item.measures) > 1
    return [
        ComparedTable(stream_title(data, memory) + (f": {MEASURES[measure].title}" if several else ""), tuple(rows))
        for (data, memory, measure), rows in tables.items()
    ]


def _row(
    name: str, published: Published | None, spec: Spec, measure: str, runs: Sequence[Result], steps: dict[str, float]
) -> ComparedRow:
    compute = MEASURES[measure].value
    if compute is None:
        values = [steps[measure]] if measure in steps else []
    else:
        values = [value for run in runs if (value := compute(run)) is not None]
    return ComparedRow(
        name=name,
        method=spec.method,
        order=spec.order,
        data=spec.data,
        memory=None if memoryless(spec) else spec.memory,
        measure=measure,
        paper=published.numbers.get(measure) if published else None,
        paper_interval=published.interval if published and measure == "accuracy" else None,
        estimate=Estimate(tuple(values)) if values else None,
        seeds=tuple(run.spec.seed for run in runs) if values else (),
        between=(steps["time_low"], steps["time_high"]) if measure == "time" and "time_low" in steps else None,
        neck=spec.neck,
    )
