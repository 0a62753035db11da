"""The orders in which samples can arrive.

    classes     a group of classes in each stage, shuffled or in a given `sequence`
    iid         all samples shuffled, in one stage
    iid++       as iid, and each batch comes with a second one from another shuffle
    blurry      i-Blurry: some classes stay in their stage, the others also lend samples to all other stages
    smooth      stages overlap: samples arrive earlier or later than their stage by a normal draw
    domains     all classes in every stage, under changing conditions: dark, noisy, blurred, ...

Each is a frozen value that turns a `Plan` into stages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from evenhand import errors, names
from evenhand.streams.domains import DomainIncremental
from evenhand.streams.plan import Order, Plan, Stage


@dataclass(frozen=True)
class ClassIncremental:
    """Each stage brings new classes."""

    sequence: str = ""  # the classes in order of arrival, as comma-separated numbers or names; shuffled if empty

    def __post_init__(self) -> None:
        errors.text("The 'sequence' of classes", self.sequence)

    def __call__(self, plan: Plan) -> list[Stage]:
        sequence = self._numbers(plan.dataset.classes) if self.sequence else None
        return [plan.stage(classes, plan.shuffled(plan.rows(classes))) for classes in plan.groups(sequence)]

    def _numbers(self, classes: tuple[str, ...]) -> list[int]:
        words = [word.strip() for word in self.sequence.split(",")]
        numbers = {str(number): number for number in range(len(classes))}
        numbers |= {name: number for number, name in enumerate(classes)}
        if unknown := [word for word in words if word not in numbers]:
            raise errors.unknown("class", unknown[0], classes)
        sequence = [numbers[word] for word in words]
        if sorted(sequence) != list(range(len(classes))):
            must = f"name each of the {len(classes)} classes once"
            raise errors.wrong("The 'sequence' of classes", must, self.sequence)
        return sequence


@dataclass(frozen=True)
class Iid:
    """All samples shuffled, in one stage."""

    twice: bool = False  # bring a second batch with each
    stages: ClassVar[int] = 1

    def __post_init__(self) -> None:
        errors.truth("The 'twice' parameter of iid", self.twice)

    def __call__(self, plan: Plan) -> list[Stage]:
        [classes] = replace(plan, stages=1).groups()
        rows = plan.rows(classes)
        return [plan.stage(classes, plan.shuffled(rows), second=plan.shuffled(rows) if self.twice else None)]


@dataclass(frozen=True)
class Blurry:
    """i-Blurry (Koh et al., 2022)."""

    disjoint: float = 50  # N: the percentage of classes that come only in their own stage
    blur: float = 10  # M: the percentage of the other classes' samples that come in the other stages, evenly

    def __post_init__(self) -> None:
        errors.number("The 'disjoint' percentage of blurry", self.disjoint, 0, 100)
        errors.number("The 'blur' percentage of blurry", self.blur, 0, 100)

    def __call__(self, plan: Plan) -> list[Stage]:
        groups, count = plan.groups(), len(plan.train)
        disjoint = set(torch.randperm(count, generator=plan.shuffle)[: round(count * self.disjoint / 100)].tolist())
        parts: list[list[Tensor]] = [[] for _ in groups]
        for stage, classes in enumerate(groups):
            others = [other for other in range(len(groups)) if other != stage]
            for c in classes:
                rows = plan.shuffled(plan.train[c])
                lent = 0 if c in disjoint or not others else round(len(rows) * self.blur / 100)
                parts[stage].append(rows[lent:])
                turn = int(torch.randint(len(others), (1,), generator=plan.shuffle)) if others else 0
                for position in range(lent):
                    parts[others[(turn + position) % len(others)]].append(rows[position : position + 1])
        return [plan.stage(c, plan.shuffled(torch.cat(rows))) for c, rows in zip(groups, parts, strict=True)]


@dataclass(frozen=True)
class Smooth:
    """Stages that overlap.

    A sample of stage s arrives at time s + u + width * z, with u uniform in [0, 1] and z normal. The stages keep their
    lengths.
    """

    width: float = 0.25  # how far samples stray from their stage, in stages

    def __post_init__(self) -> None:
        errors.number("The 'width' of smooth", self.width, 0)

    def __call__(self, plan: Plan) -> list[Stage]:
        groups = plan.groups()
        rows = [plan.rows(classes) for classes in groups]
        times = [
            stage
            + torch.rand(len(own), generator=plan.shuffle, dtype=torch.float64)
            + self.width * torch.randn(len(own), generator=plan.shuffle, dtype=torch.float64)
            for stage, own in enumerate(rows)
        ]
        arrival = torch.cat(rows)[torch.cat(times).argsort(stable=True)]
        parts = arrival.split([len(own) for own in rows])
        return [plan.stage(c, part) for c, part in zip(groups, parts, strict=True)]


ORDERS: dict[str, Callable[..., Order]] = {
    "classes": ClassIncremental,
    "iid": Iid,
    "iid++": lambda: Iid(twice=True),
    "blurry": Blurry,
    "smooth": Smooth,
    "domains": DomainIncremental,
}


def resolve(text: str) -> Order:
    """Build an order from its name, e.g. classes, iid++ or blurry(disjoint=50, blur=10)."""
    name, arguments = names.term("order", text, ORDERS)
    return ORDERS[name](**names.bind(name, arguments, names.parameters(ORDERS[name])))


def canonical(text: str) -> str:
    """Spell the name of an order in its canonical form."""
    if resolve(text) == Iid(twice=True):
        return "iid++"
    name, arguments = names.term("order", text, ORDERS)
    return names.spell(name, arguments, names.parameters(ORDERS[name]), _plain)


def _plain(value: Any) -> Any:
    """Write 20 for 20.0, and a list without spaces."""
    if isinstance(value, str):
        return ",".join(word.strip() for word in value.split(","))
    return int(value) if isinstance(value, float) and value.is_integer() else value
