"""Scenarios: one stream and memory each, with all methods that ran on it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evenhand.experiment.estimate import Group
from evenhand.experiment.result import Result, by_setting, grouped
from evenhand.experiment.spec import Spec

STREAM = ("data", "order", "imbalance", "stages", "memory", "tested")  # the settings that define a scenario
MAX_DETAILED = 4  # groups whose seeds and intervals fit into one plot


@dataclass(frozen=True, eq=False)
class Scenario:
    """All groups of one stream and memory, the best first."""

    name: str  # unique on the page
    title: str
    groups: tuple[Group, ...]
    bounds: tuple[int, ...]  # how many classes had arrived at the end of each stage
    class_names: tuple[str, ...] | None  # in order of arrival; None if the runs differ in it

    @property
    def stages(self) -> int:
        """How many stages the stream has."""
        return len(self.bounds)

    @property
    def growing(self) -> bool:
        """Whether every stage after the first brings new classes."""
        return len(set(self.bounds)) == self.stages > 1

    @property
    def at_once(self) -> bool:
        """Whether all classes arrive in the first stage."""
        return self.bounds[0] == self.bounds[-1]

    @cached_property
    def compared(self) -> tuple[Group, ...]:
        """The reference and its challenger: ER and UER if both ran, else the best; a single group alone."""
        by_method = {group.method: group for group in reversed(self.groups)}
        challenger = by_method.get("uer", self.groups[0])
        others = [group for group in self.groups if group is not challenger]
        reference = by_method["er"] if by_method.get("er") in others else next(iter(others), None)
        return (challenger,) if reference is None else (reference, challenger)

    @property
    def detailed(self) -> tuple[Group, ...]:
        """The groups whose seeds and intervals are drawn: all if they are few, else the compared ones."""
        return self.groups if len(self.groups) <= MAX_DETAILED else self.compared

    @property
    def images_changed(self) -> bool:
        """Whether its runs saw different versions of the dataset."""
        return len(self._recorded("data", "") - {""}) > 1

    @property
    def precisions_mixed(self) -> bool:
        """Whether some of its runs were computed in bf16 and others in fp32, as were those that do not say."""
        return len(self._recorded("precision", "fp32")) > 1

    def _recorded(self, name: str, default: str) -> set[str]:
        return {run.environment.get(name) or default for group in self.groups for run in group.runs}

    def settings(self) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
        """Every setting except method and seed, with its values; each value with the labels of its groups."""
        specs = [(group.label, group.spec.model_dump(exclude={"method", "seed"})) for group in self.groups]
        for name in specs[0][1]:
            values: dict[str, list[str]] = {}
            for label, spec in specs:
                values.setdefault(as_typed(spec[name]), []).append(label)
            yield name, list(values.items())


def scenarios(results: Sequence[Result]) -> list[Scenario]:
    """Group results by stream and memory; their order does not matter."""
    settings = by_setting(sorted(results, key=lambda result: (result.spec.setting, result.spec.seed)))
    groups = [Group(label, tuple(runs)) for label, runs in zip(_labels(settings), settings, strict=True)]
    streams = grouped(groups, lambda group: tuple(getattr(group.spec, name) for name in STREAM))
    stages = {(group.spec.order, group.spec.stages) for group in groups}
    return [_scenario(f"s{place}", streams[stream], stages) for place, stream in enumerate(sorted(streams), 1)]


def as_typed(value: Any) -> str:
    """A setting as a user would type it.

    >>> as_typed(0.1), as_typed(True), as_typed(None), as_typed("er")
    ('0.1', 'true', 'none', 'er')
    """
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _scenario(name: str, groups: list[Group], stages: set[tuple[str, int]]) -> Scenario:
    spec, runs = groups[0].spec, [run for group in groups for run in group.runs]
    groups.sort(key=lambda group: (-group.final.mean, group.label))
    orders = {run.classes for run in runs}
    counts = [[len(record["arrival"]) for record in run.records] for run in runs]
    bounds = tuple(map(max, zip(*counts, strict=True)))
    title = _title(spec, name_stages=sum(order == spec.order for order, _ in stages) > 1)
    return Scenario(name, title, tuple(groups), bounds, orders.pop() if len(orders) == 1 else None)


def _title(spec: Spec, name_stages: bool) -> str:
    """The stream and memory; the stages only if other scenarios of the same order have a different number."""
    parts = [spec.data, f"memory {spec.memory}"]
    parts += [spec.order] if spec.order != "classes" else []
    parts += [f"{spec.stages} stage{'' if spec.stages == 1 else 's'}"] if name_stages else []
    parts += [f"imbalance {spec.imbalance:g}"] if spec.imbalance > 1 else []
    parts += ["tested on held-out training samples"] if spec.tested == "validation" else []
    return ", ".join(parts)


def _labels(settings: list[list[Result]]) -> list[str]:
    """The method of each group, with the settings that distinguish it from others of the same method."""
    specs = [runs[0].spec.model_dump(exclude={"seed", *STREAM}) for runs in settings]
    labels = []
    for spec in specs:
        same = [other for other in specs if other["method"] == spec["method"]]
        distinct = [name for name in spec if len({as_typed(other[name]) for other in same}) > 1]
        labels.append(", ".join([spec["method"], *(f"{name} {as_typed(spec[name])}" for name in distinct)]))
    return labels
