"""A group: the runs of one setting, and what they say on average over their seeds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand import metrics
from evenhand.experiment.result import Result
from evenhand.metrics import Matrix

Array = NDArray[np.float64]
Metric = Callable[[Matrix], float | None]
StageMetric = Callable[[Matrix, int], float | None]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, with the values it was taken from."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean."""
        return metrics.mean(self.values)

    @property
    def half(self) -> float | None:
        """Half the width of the 95 % interval; None for a single seed."""
        return metrics.interval(self.values)

    @property
    def ends(self) -> tuple[float, float]:
        """The interval itself; the mean twice for a single seed."""
        return self.mean - (self.half or 0), self.mean + (self.half or 0)


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one setting, in order of their seeds.

    Attributes
    ----------
    label
        The method, and what else tells the group from others of the page.
    """

    label: str
    runs: tuple[Result, ...]

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.runs[0].spec.method

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [run.spec.seed for run in self.runs]

    @cached_property
    def final(self) -> Estimate:
        """The final average accuracy A_T, the headline."""
        return Estimate(tuple(metrics.average(run.accuracy) for run in self.runs))

    def estimate(self, metric: Metric) -> Estimate | None:
        """A metric of the accuracy matrix over the seeds; None where it does not exist, as with one stage only."""
        values = [value for run in self.runs if (value := metric(run.accuracy)) is not None]
        return Estimate(tuple(values)) if values else None

    def by_stage(self, metric: StageMetric) -> list[Estimate | None]:
        """A metric after each stage."""
        return [self.estimate(at(metric, i)) for i in range(len(self.runs[0].records))]

    def each(self, value: Callable[[Result], float]) -> Estimate:
        """Any number of a run over the seeds."""
        return Estimate(tuple(value(run) for run in self.runs))

    def by_class(self, quantity: str) -> Array:
        """A quantity of each class after the last stage, (runs, classes) in order of arrival.

        A run in which a class never arrived is filled with NaN.
        """
        rows = [column(run, quantity) for run in self.runs]
        table = np.full((len(rows), max(map(len, rows))), np.nan)
        for row, values in zip(table, rows, strict=True):
            row[: len(values)] = values
        return table

    def matrix(self) -> Array:
        """The mean a_ij, (stages, stages), NaN above the diagonal."""
        size = len(self.runs[0].records)
        mean = np.full((size, size), np.nan)
        for i in range(size):
            mean[i, : i + 1] = np.mean([run.accuracy[i] for run in self.runs], axis=0)
        return mean

    def confusion(self) -> Array:
        """The mean share of each true class (row) that is predicted as each class (column), in order of arrival."""
        tables = [shares(run) for run in self.runs]
        size = max(map(len, tables))
        padded = np.full((len(tables), size, size), np.nan)  # a class that never arrived in a run has no share there
        for place, table in zip(padded, tables, strict=True):
            place[: len(table)] = np.pad(table, ((0, 0), (0, size - len(table))))
        return np.asarray(np.nanmean(padded, axis=0))


def difference(first: Group, second: Group, metric: Metric) -> Estimate | None:
    """The metric of `first` minus that of `second`, paired by seed; None if they share no seed."""
    other = {run.spec.seed: metric(run.accuracy) for run in second.runs}
    pairs = [(metric(run.accuracy), other.get(run.spec.seed)) for run in first.runs]
    values = [a - b for a, b in pairs if a is not None and b is not None]
    return Estimate(tuple(values)) if values else None


def differs(first: Group, second: Group) -> list[str]:
    """The settings besides the method in which two groups differ."""
    one, two = (group.runs[0].spec.model_dump(exclude={"method", "seed"}) for group in (first, second))
    return [name for name in one if one[name] != two[name]]


def at(metric: StageMetric, i: int) -> Metric:
    """The metric after stage i, counted from 0."""
    return lambda a: metric(a, i)


def column(run: Result, quantity: str) -> list[float]:
    """The mean probability, or a quantity of the head, for each class after the last stage."""
    last = run.records[-1]
    return last["probability"] if quantity == "probability" else last["head"][quantity]


def arrived(run: Result) -> int:
    """How many classes had arrived before the last stage."""
    return len(run.records[-2]["arrival"]) if len(run.records) > 1 else 0


def newest(run: Result) -> int:
    """How many classes came in the last stage, if others came before; else 0."""
    return len(run.records[-1]["arrival"]) - arrived(run) if arrived(run) else 0


def shares(run: Result) -> Array:
    """The confusion matrix with rows that sum to 1, or to 0 where a class has no test samples."""
    counts = np.asarray(run.records[-1]["confusion"], dtype=np.float64)
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))
