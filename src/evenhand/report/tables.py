"""The tables of a report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics
from evenhand.experiment.result import Result
from evenhand.report.captions import number, tag
from evenhand.report.collect import Section, shown
from evenhand.report.group import Estimate, Metric
from evenhand.report.look import Looks


@dataclass(frozen=True)
class Column:
    """A column of the headline table."""

    title: str
    about: str
    metric: Metric
    best: Callable[[list[float]], float] = max


COLUMNS = (
    Column("final", "mean accuracy over all classes after the last stage, A_T", metrics.average),
    Column("previous", "accuracy on the classes of all stages but the last, at the end", metrics.previous),
    Column("current", "accuracy on the classes of the last stage, at the end", metrics.current),
    Column("forgetting", "mean fall of a previous stage from its best accuracy to its last", metrics.forgetting, min),
    Column("anytime", "mean of the average accuracy after every stage", metrics.anytime),
    Column("worst case", "the current stage, and of each previous one its lowest accuracy since", metrics.worst_case),
)


def headline(section: Section, look: Looks) -> Iterator[dict[str, Any]]:
    """The rows of the headline table: estimates, each with a mark if it is the best of its column."""
    cells = [[group.estimate(column.metric) for group in section.groups] for column in COLUMNS]
    tops = [_best(column, estimates) for column, estimates in zip(COLUMNS, cells, strict=True)]
    for row, group in enumerate(section.groups):
        yield {
            "name": tag(group, look),
            "cells": [(column[row], _same(column[row], top)) for column, top in zip(cells, tops, strict=True)],
            "seconds": group.each(lambda run: run.seconds).mean,
            "seeds": list(zip(group.seeds, group.final.values, strict=True)),
        }


def overview(sections: list[Section]) -> list[tuple[str, list[tuple[Estimate | None, bool]]]]:
    """The final accuracy of every label (row) in every section (column), the best of a column marked."""
    labels = dict.fromkeys(group.label for section in sections for group in section.groups)
    finals = [{group.label: group.final for group in section.groups} for section in sections]
    tops = [_best(COLUMNS[0], list(final.values())) for final in finals]
    rows = []
    for label in labels:
        found = [final.get(label) for final in finals]
        rows.append((label, [(one, _same(one, top)) for one, top in zip(found, tops, strict=True)]))
    return rows


def environment(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, int]]]]:
    """What the runs were made with; each value with the number of its runs."""
    found: dict[str, dict[str, int]] = {}
    for result in sorted(results, key=lambda result: result.key):
        for name, value in result.environment.items():
            values = found.setdefault(name, {})
            values[shown(value)] = values.get(shown(value), 0) + 1
    return [(name, list(values.items())) for name, values in found.items()]


def _best(column: Column, estimates: list[Estimate | None]) -> float | None:
    """The best mean of a column; None where there is nothing to compare."""
    means = [estimate.mean for estimate in estimates if estimate is not None]
    return column.best(means) if len(means) > 1 else None


def _same(estimate: Estimate | None, top: float | None) -> bool:
    """Whether a reader sees the same number."""
    return estimate is not None and top is not None and number(estimate.mean) == number(top)
