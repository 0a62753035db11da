"""The orders in which samples can arrive.

    classes     a group of classes in each stage, shuffled, in a given `sequence`, or in the "natural" one
    iid         all samples shuffled, in one stage
    iid++       as iid, and each batch comes with a second one from another shuffle
    blurry      i-Blurry: some classes stay in their stage, the others also lend samples to all other stages
    smooth      stages overlap: samples arrive earlier or later than their stage by a normal draw
    domains     all classes in every stage, under changing conditions: dark, noisy, blurred, ...

Each is a frozen value that turns a `Plan` into stages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from evenhand import errors, names
from evenhand.core import inputs
from evenhand.datasets import Dataset
from evenhand.streams.domains import DOMAINS, Domain


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of the stream, after which the learner is tested."""

    classes: tuple[int, ...]
    train: Tensor  # rows of its samples in the dataset
    test: Tensor
    second: Tensor | None = None  # rows of the second batches, in the order iid++
    domain: Callable[[Tensor, Tensor, str], Tensor] | None = None  # changes samples, given their rows and split


@dataclass(frozen=True, eq=False)
class Plan:
    """The input of an order: the rows of each class, the number of stages, the seed and a generator for shuffling."""

    dataset: Dataset
    train: list[Tensor]
    test: list[Tensor]
    stages: int
    seed: int
    shuffle: Generator

    def groups(self, sequence: list[int] | None = None) -> list[tuple[int, ...]]:
        """Divide the classes, shuffled or in the given sequence, evenly among the stages."""
        count = len(self.train)
        if self.stages > count:
            raise errors.wrong(
                "The number of 'stages'", f"not exceed the {count} classes of {self.dataset.name}", self.stages
            )
        shuffled = torch.randperm(count, generator=self.shuffle).tolist()
        classes = sequence or shuffled
        cuts = [count * stage // self.stages for stage in range(self.stages + 1)]
        return [tuple(classes[low:high]) for low, high in pairwise(cuts)]

    def shuffled(self, rows: Tensor) -> Tensor:
        """Return the rows in a random order."""
        return rows[torch.randperm(len(rows), generator=self.shuffle)]

    def rows(self, classes: tuple[int, ...]) -> Tensor:
        """Return the training rows of these classes."""
        return torch.cat([self.train[c] for c in classes])

    def stage(self, classes: tuple[int, ...], train: Tensor, **more: Any) -> Stage:
        """Build a stage that brings these training rows and is tested with all test rows of its classes."""
        return Stage(classes, train, torch.cat([self.test[c] for c in classes]), **more)


Order = Callable[[Plan], list[Stage]]


@dataclass(frozen=True)
class ClassIncremental:
    """Each stage brings new classes."""

    # The classes in order of arrival: comma-separated numbers or names, or "natural"; shuffled if empty.
    sequence: str = ""

    def __post_init__(self) -> None:
        errors.text("The 'sequence' of classes", self.sequence)

    def __call__(self, plan: Plan) -> list[Stage]:
        sequence = self._numbers(plan.dataset.classes) if self.sequence else None
        return [plan.stage(classes, plan.shuffled(plan.rows(classes))) for classes in plan.groups(sequence)]

    def _numbers(self, classes: tuple[str, ...]) -> list[int]:
        if self.sequence == "natural":
            return list(range(len(classes)))
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


@dataclass(frozen=True)
class DomainIncremental:
    """The same classes under changing conditions; each stage has its share of every class's samples."""

    kinds: str = ""  # the conditions of the stages, comma-separated; if empty, `DOMAINS` in turn
    strength: float = 1  # of each `Domain`

    def __post_init__(self) -> None:
        errors.number("The 'strength' of domains", self.strength, 0, 2)
        errors.text("The 'kinds' of domains", self.kinds)
        for kind in self._kinds():
            if kind not in DOMAINS:
                raise errors.unknown("kind of domain", kind, DOMAINS)

    @property
    def stages(self) -> int:
        """The number of stages unless another is requested."""
        return len(self._kinds())

    def __call__(self, plan: Plan) -> list[Stage]:
        if len(plan.dataset.shape) != 3:
            raise errors.InputError(f"The order domains needs images, but {plan.dataset.name} holds vectors.")
        inputs.bounded(plan.dataset.train_x)
        inputs.bounded(plan.dataset.test_x)
        kinds = self._kinds()
        if self.kinds and plan.stages != len(kinds):
            raise errors.wrong("The number of 'stages'", f"be {len(kinds)}, one for each kind", plan.stages)
        if plan.stages > len(kinds):
            raise errors.wrong("The number of 'stages'", f"be at most {len(kinds)} in the order domains", plan.stages)
        classes = tuple(torch.randperm(len(plan.train), generator=plan.shuffle).tolist())
        shares = [plan.shuffled(plan.train[c]).tensor_split(plan.stages) for c in classes]
        brought = [plan.shuffled(torch.cat([share[stage] for share in shares])) for stage in range(plan.stages)]
        domains = [Domain(kind, self.strength, plan.seed) for kind in kinds]
        return [plan.stage(classes, rows, domain=domain) for rows, domain in zip(brought, domains, strict=False)]

    def _kinds(self) -> list[str]:
        return [kind.strip() for kind in self.kinds.split(",")] if self.kinds else list(DOMAINS)


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
    order = resolve(text)  # raises for a wrong parameter
    if order == Iid(twice=True):
        return "iid++"
    name, arguments = names.term("order", text, ORDERS)
    return names.spell(name, arguments, names.parameters(ORDERS[name]), _plain)


def _plain(value: Any) -> Any:
    """Write 20 for 20.0, and a list without spaces."""
    if isinstance(value, str):
        return ",".join(word.strip() for word in value.split(","))
    return int(value) if isinstance(value, float) and value.is_integer() else value
