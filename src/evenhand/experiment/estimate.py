"""Statistics over seeds: means with 95 % intervals, and differences paired by seed."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand import errors, metrics
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.metrics import Matrix

Array = NDArray[np.float64]
Metric = Callable[[Matrix], float | None]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, with its values."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Estimate | None":
        """The estimate from the values that are known; None if all are None or NaN."""
        known = tuple(value for value in values if value is not None and not math.isnan(value))
        return cls(known) if known else None

    @property
    def mean(self) -> float:
        """The mean."""
        return metrics.mean(self.values)

    @property
    def half(self) -> float | None:
        """Half the width of the 95 % interval; None for one seed."""
        return metrics.interval(self.values)

    @property
    def ends(self) -> tuple[float, float]:
        """The interval itself; the mean twice for one seed."""
        return self.mean - (self.half or 0), self.mean + (self.half or 0)


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one setting, in order of their seeds."""

    label: str  # the method, with the settings that distinguish the group from others
    runs: tuple[Result, ...]

    @property
    def spec(self) -> Spec:
        """The setting, with the first of the seeds."""
        return self.runs[0].spec

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.spec.method

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [run.spec.seed for run in self.runs]

    @cached_property
    def final(self) -> Estimate:
        """The final average accuracy A_T, the headline."""
        return Estimate(tuple(metrics.average(run.accuracy) for run in self.runs))

    def estimate(self, metric: Metric) -> Estimate | None:
        """A metric of the accuracy matrix; None if undefined, like forgetting with one stage."""
        return Estimate.of(metric(run.accuracy) for run in self.runs)

    def by_stage(self, metric: Metric) -> list[Estimate | None]:
        """A metric after each stage, in percent."""
        return [self.estimate(in_percent(metric, stage)) for stage in range(len(self.runs[0].records))]

    def by_class(self, quantity: str) -> list[Estimate | None]:
        """A quantity of each class after the last stage, from the runs in which the class arrived."""
        return [Estimate.of(values) for values in zip_longest(*(by_class(run, quantity) for run in self.runs))]

    def matrix(self) -> Array:
        """The mean a_ij, (stages, stages), NaN above the diagonal."""
        size = len(self.runs[0].records)
        mean = np.full((size, size), np.nan)
        for i in range(size):
            mean[i, : i + 1] = np.mean([run.accuracy[i] for run in self.runs], axis=0)
        return mean

    def confusion(self) -> Array:
        """Mean share of each true class (row) predicted as each class (column), in order of arrival."""
        tables = [_shares(run) for run in self.runs]
        size = max(map(len, tables))
        padded = np.full((len(tables), size, size), np.nan)  # a class that never arrived in a run
        for row, table in zip(padded, tables, strict=True):
            row[: len(table)] = np.pad(table, ((0, 0), (0, size - len(table))))
        return np.asarray(np.nanmean(padded, axis=0))

    def summary(self) -> dict[str, Any]:
        """Headline numbers as JSON: means over the seeds, the 95 % interval of the accuracy, and each run."""
        runs, spec = [run.summary() for run in self.runs], self.spec

        def mean(field: str) -> float | None:
            values = [run[field] for run in runs]
            return None if None in values else metrics.mean(values)

        return {
            "method": spec.method,
            "data": spec.data,
            "memory": spec.memory,
            "setting": spec.model_dump(exclude={"seed"}),
            "seeds": self.seeds,
            "final_accuracy": self.final.mean,
            "interval": self.final.half,
            **{field: mean(field) for field in ("previous", "current", "forgetting", "seconds")},
            "runs": runs,
        }


def difference(first: Group, second: Group, metric: Metric) -> Estimate | None:
    """The metric of `first` minus that of `second`, paired by seed; None if they share no seed."""
    return paired_difference(
        *({run.spec.seed: metric(run.accuracy) for run in group.runs} for group in (first, second))
    )


def paired_difference(first: Mapping[int, float | None], second: Mapping[int, float | None]) -> Estimate | None:
    """Values by seed minus others by seed; None if they share no seed."""
    pairs = [(value, second.get(seed)) for seed, value in first.items()]
    return Estimate.of(a - b for a, b in pairs if a is not None and b is not None)


def differs(first: Group, second: Group) -> list[str]:
    """Names of the settings, other than the method, in which two groups differ."""
    one, two = (group.spec.model_dump(exclude={"method", "seed"}) for group in (first, second))
    return [name for name in one if one[name] != two[name]]


def in_percent(metric: Metric, stage: int | None = None) -> Metric:
    """The metric in percent after a stage, counting from 0; by default after the last."""

    def measure(a: Matrix) -> float | None:
        value = metric(a if stage is None else a[: stage + 1])
        return None if value is None else 100 * value

    return measure


def by_class(run: Result, quantity: str) -> list[float]:
    """Mean probability in %, or a quantity of the head, of each class after the last stage."""
    last = run.records[-1]
    return [100 * share for share in last["probability"]] if quantity == "probability" else last["head"][quantity]


def is_probable(spec: Spec) -> bool:
    """Whether it is tested by logits, whose softmax gives probabilities; nearest class means yield similarities."""
    with suppress(errors.InputError):  # a method that is not installed here
        return bool(getattr(spec.resolved.prediction, "logits", True))
    return True


def arrived(run: Result) -> int:
    """Number of classes that arrived before the last stage."""
    return len(run.records[-2]["arrival"]) if len(run.records) > 1 else 0


def _shares(run: Result) -> Array:
    """Confusion matrix with rows that sum to 1, or to 0 for a class without test samples."""
    counts = np.asarray(run.records[-1]["confusion"], dtype=np.float64)
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))
