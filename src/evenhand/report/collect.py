"""What a report is about: a group is one setting with its seeds, a section one stream with all that was run on it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand import metrics
from evenhand.experiment.result import Result, by_setting
from evenhand.metrics import Matrix

STREAM = ("data", "order", "stages", "memory")  # settings that make a section of their own
Array = NDArray[np.float64]
Metric = Callable[[Matrix], float | None]


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
        The method, and what else tells the group from others of its section.
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
        padded = [np.pad(table, (0, size - len(table))) for table in tables]
        return np.asarray(np.mean(padded, axis=0))


@dataclass(frozen=True, eq=False)
class Section:
    """All groups of one stream and memory, the best first.

    Attributes
    ----------
    bounds
        How many classes had arrived at the end of each stage.
    names
        The classes in order of arrival, where all runs share one order; else None.
    """

    title: str
    groups: tuple[Group, ...]
    bounds: tuple[int, ...]
    names: tuple[str, ...] | None

    @property
    def stages(self) -> int:
        """How many stages the stream has."""
        return len(self.bounds)

    @cached_property
    def focus(self) -> tuple[Group, ...]:
        """The reference and its challenger, whom captions compare: ER and UER where they are there, else the best."""
        by_method = {group.method: group for group in reversed(self.groups)}
        challenger = by_method.get("uer", self.groups[0])
        others = [group for group in self.groups if group is not challenger]
        reference = by_method["er"] if by_method.get("er") in others else next(iter(others), None)
        return (challenger,) if reference is None else (reference, challenger)

    def settings(self) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
        """Every setting but method and seed, with its values; each value with the groups that have it."""
        specs = [(group.label, group.runs[0].spec.model_dump()) for group in self.groups]
        for name in specs[0][1]:
            if name in ("method", "seed"):
                continue
            values: dict[str, list[str]] = {}
            for label, spec in specs:
                values.setdefault(shown(spec[name]), []).append(label)
            yield name, list(values.items())


def collect(results: Sequence[Result]) -> list[Section]:
    """Gather results into sections; their order does not matter."""
    streams: dict[str, list[list[Result]]] = {}
    for runs in by_setting(sorted(results, key=lambda result: (result.spec.setting, result.spec.seed))):
        streams.setdefault(json.dumps([getattr(runs[0].spec, name) for name in STREAM]), []).append(runs)
    specs = [stream[0][0].spec for stream in streams.values()]
    varied = [name for name in ("order", "stages") if len({getattr(spec, name) for spec in specs}) > 1]
    made = []
    for stream, spec in zip(streams.values(), specs, strict=True):
        more = [f"{name} {getattr(spec, name)}" for name in varied]
        title = ", ".join([spec.data, f"memory {spec.memory}", *more])
        made.append(((spec.data, spec.order, spec.stages, spec.memory), _section(title, stream)))
    return [section for _, section in sorted(made, key=lambda pair: pair[0])]


def difference(first: Group, second: Group, metric: Metric) -> Estimate | None:
    """The metric of `first` minus that of `second`, paired by seed; None if they share no seed."""
    other = {run.spec.seed: metric(run.accuracy) for run in second.runs}
    pairs = [(metric(run.accuracy), other.get(run.spec.seed)) for run in first.runs]
    values = [a - b for a, b in pairs if a is not None and b is not None]
    return Estimate(tuple(values)) if values else None


def column(run: Result, quantity: str) -> list[float]:
    """The mean probability, or a quantity of the head, for each class after the last stage."""
    last = run.records[-1]
    return last["probability"] if quantity == "probability" else last["head"][quantity]


def arrived(run: Result) -> int:
    """How many classes had arrived before the last stage."""
    return len(run.records[-2]["arrival"]) if len(run.records) > 1 else 0


def shares(run: Result) -> Array:
    """The confusion matrix with rows that sum to 1, or to 0 where a class has no test samples."""
    counts = np.asarray(run.records[-1]["confusion"], dtype=np.float64)
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def shown(value: Any) -> str:
    """A setting as a user would type it."""
    return value if isinstance(value, str) else json.dumps(value)


def _section(title: str, stream: list[list[Result]]) -> Section:
    groups = [Group(label, tuple(runs)) for label, runs in zip(_labels(stream), stream, strict=True)]
    groups.sort(key=lambda group: (-group.final.mean, group.label))
    orders = {run.classes for group in groups for run in group.runs}
    bounds = tuple(len(record["arrival"]) for record in stream[0][0].records)
    return Section(title, tuple(groups), bounds, orders.pop() if len(orders) == 1 else None)


def _labels(stream: list[list[Result]]) -> list[str]:
    """The method of each group, with the settings that tell it from others of the same method."""
    specs = [runs[0].spec.model_dump(exclude={"seed"}) for runs in stream]
    labels = []
    for spec in specs:
        same = [other for other in specs if other["method"] == spec["method"]]
        telling = [name for name in spec if len({shown(other[name]) for other in same}) > 1]
        labels.append(", ".join([spec["method"], *(f"{name} {shown(spec[name])}" for name in telling)]))
    return labels
