"""What a report is about: sections, each one stream and memory with all that was run on it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evenhand.experiment.result import Result, by_setting
from evenhand.report.group import Group

STREAM = ("data", "order", "imbalance", "stages", "memory", "tested")  # settings that make a section of their own


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
    settings = by_setting(sorted(results, key=lambda result: (result.spec.setting, result.spec.seed)))
    streams: dict[str, list[Group]] = {}
    for label, runs in zip(_labels(settings), settings, strict=True):
        stream = json.dumps([getattr(runs[0].spec, name) for name in STREAM])
        streams.setdefault(stream, []).append(Group(label, tuple(runs)))
    first = [groups[0].runs[0].spec for groups in streams.values()]
    stages: dict[str, set[int]] = {}
    for spec in first:
        stages.setdefault(spec.order, set()).add(spec.stages)
    made = []
    for groups, spec in zip(streams.values(), first, strict=True):
        more = [spec.order] if spec.order != "classes" else []
        more += [f"{spec.stages} stage{'' if spec.stages == 1 else 's'}"] if len(stages[spec.order]) > 1 else []
        more += [f"imbalance {spec.imbalance:g}"] if spec.imbalance > 1 else []
        more += ["tested with held-out training samples"] if spec.tested == "validation" else []
        title = ", ".join([spec.data, f"memory {spec.memory}", *more])
        made.append(([getattr(spec, name) for name in STREAM], _section(title, groups)))
    return [section for _, section in sorted(made, key=lambda pair: pair[0])]


def shown(value: Any) -> str:
    """A setting as a user would type it."""
    return value if isinstance(value, str) else json.dumps(value)


def _section(title: str, groups: list[Group]) -> Section:
    groups.sort(key=lambda group: (-group.final.mean, group.label))
    orders = {run.classes for group in groups for run in group.runs}
    counts = [[len(record["arrival"]) for record in run.records] for group in groups for run in group.runs]
    bounds = tuple(map(max, zip(*counts, strict=True)))
    return Section(title, tuple(groups), bounds, orders.pop() if len(orders) == 1 else None)


def _labels(settings: list[list[Result]]) -> list[str]:
    """The method of each group, with the settings besides its stream that tell it from others of the same method."""
    specs = [runs[0].spec.model_dump(exclude={"seed", *STREAM}) for runs in settings]
    labels = []
    for spec in specs:
        same = [other for other in specs if other["method"] == spec["method"]]
        telling = [name for name in spec if len({shown(other[name]) for other in same}) > 1]
        labels.append(", ".join([spec["method"], *(f"{name} {shown(spec[name])}" for name in telling)]))
    return labels
