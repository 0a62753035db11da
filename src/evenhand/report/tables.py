"""The tables of a report."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Metric
from evenhand.experiment.result import Result
from evenhand.report.captions import number, tag
from evenhand.report.scenarios import Scenario, as_typed
from evenhand.report.styles import Styles

Cell = tuple[Estimate | None, bool]  # an estimate, and whether it is the best of its column


@dataclass(frozen=True)
class Column:
    """A column of the main table."""

    title: str
    about: str
    metric: Metric
    best: Callable[[list[float]], float] = max


COLUMNS = (
    Column("final", "mean accuracy over all stages after the last one, A_T", metrics.average),
    Column("previous", "final accuracy on all stages before the last", metrics.previous),
    Column("current", "final accuracy on the last stage", metrics.current),
    Column(
        "forgetting", "mean drop of previous stages from their best accuracy to the final one", metrics.forgetting, min
    ),
    Column("anytime", "mean of the average accuracy after every stage", metrics.anytime),
    Column("worst case", "mean of the current accuracy and the minimum of every previous stage", metrics.worst_case),
)


def methods(scenario: Scenario, styles: Styles) -> Iterator[dict[str, Any]]:
    """The rows of the main table, one per group."""
    columns = [_marked(column, [group.estimate(column.metric) for group in scenario.groups]) for column in COLUMNS]
    for group, *cells in zip(scenario.groups, *columns, strict=True):
        yield {
            "name": tag(group, styles),
            "cells": cells,
            "seconds": metrics.mean([run.seconds for run in group.runs]),
            "seeds": list(zip(group.seeds, group.final.values, strict=True)),
            "columns": _columns(len(group.runs)),
        }


def overview(scenarios: Sequence[Scenario]) -> list[tuple[str, list[Cell]]]:
    """The final accuracy of every label (row) in every scenario (column)."""
    labels = list(dict.fromkeys(group.label for scenario in scenarios for group in scenario.groups))
    finals = [{group.label: group.final for group in scenario.groups} for scenario in scenarios]
    columns = [_marked(COLUMNS[0], [final.get(label) for label in labels]) for final in finals]
    return [(label, list(cells)) for label, *cells in zip(labels, *columns, strict=True)]


def environment(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, int]]]]:
    """The software and hardware of the runs; each value with its number of runs."""
    counts: dict[str, Counter[str]] = {}
    runs = {result.key: result for result in results}  # one run may have several results, each tested in its own way
    for _, result in sorted(runs.items()):
        for name, value in result.environment.items():
            counts.setdefault(name, Counter())[as_typed(value)] += 1
    return [(name, list(values.items())) for name, values in counts.items()]


def _marked(column: Column, estimates: list[Estimate | None]) -> list[Cell]:
    """Mark the estimates that a reader sees as the best of a column; none if there is nothing to compare."""
    means = [estimate.mean for estimate in estimates if estimate is not None]
    best = number(column.best(means)) if len(means) > 1 else None
    return [(estimate, estimate is not None and number(estimate.mean) == best) for estimate in estimates]


def _columns(seeds: int) -> int:
    """Columns for seeds in as few rows of at most five as possible, evenly filled."""
    rows = math.ceil(seeds / 5)
    return math.ceil(seeds / rows)
