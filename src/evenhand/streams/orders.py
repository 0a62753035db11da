"""The orders in which samples can come.

    classes     the classes, shuffled or in a `sequence` of your own, come in groups, one in each stage
    iid         all samples shuffled, in one stage
    iid++       as iid, and each batch has a second one beside it, from a shuffle of its own
    blurry      i-Blurry: some classes come in their stage alone, of the others some samples come in all other stages
    smooth      the stages run into each other: samples come earlier or later than their stage by a normal draw
    domains     all classes in every stage, under conditions that change: dark, noisy, blurred, ...

Each is a frozen value that turns a `Plan` into stages.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from evenhand import admission, errors, names
from evenhand.datasets import Dataset
from evenhand.streams.domains import DOMAINS, Domain


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of the stream after which the learner is tested.

    Parameters
    ----------
    classes
        The classes that belong to it.
    train, test
        The rows of its samples.
    beside
        The rows of its second batches, in the order iid++.
    domain
        What changes its samples, in the order domains.
    """

    classes: tuple[int, ...]
    train: Tensor
    test: Tensor
    beside: Tensor | None = None
    domain: Domain | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What an order works with: the rows of each class, how many stages there shall be, and the draws."""

    dataset: Dataset
    train: list[Tensor]
    test: list[Tensor]
    stages: int
    seed: int
    shuffle: Generator

    def groups(self, sequence: list[int] | None = None) -> list[tuple[int, ...]]:
        """The classes of each stage: shuffled, as many in each as can be."""
        count = len(self.train)
        if self.stages > count:
            raise errors.wrong(
                "The number of 'stages'", f"not exceed the {count} classes of {self.dataset.name}", self.stages
            )
        shuffled = torch.randperm(count, generator=self.shuffle).tolist()
        ranks = sequence or shuffled
        cuts = [count * stage // self.stages for stage in range(self.stages + 1)]
        return [tuple(ranks[low:high]) for low, high in pairwise(cuts)]

    def shuffled(self, rows: Tensor) -> Tensor:
        """The rows in a random order."""
        return rows[torch.randperm(len(rows), generator=self.shuffle)]

    def tests(self, classes: tuple[int, ...]) -> Tensor:
        """The test samples of classes."""
        return torch.cat([self.test[c] for c in classes])


Order = Callable[[Plan], list[Stage]]


@dataclass(frozen=True)
class Classes:
    """Class after class.

    Parameters
    ----------
    sequence
        The classes in the order of their arrival, numbers or names with commas between; drawn if it is empty.
    """

    sequence: str = ""

    def __post_init__(self) -> None:
        errors.text("The 'sequence' of classes", self.sequence)

    def __call__(self, plan: Plan) -> list[Stage]:
        """Make the stages."""
        stages = []
        for classes in plan.groups(self._given(plan.dataset.classes)):
            rows = plan.shuffled(torch.cat([plan.train[c] for c in classes]))
            stages.append(Stage(classes, rows, plan.tests(classes)))
        return stages

    def _given(self, known: tuple[str, ...]) -> list[int] | None:
        if not self.sequence:
            return None
        words = [word.strip() for word in self.sequence.split(",")]
        numbers = {**{str(number): number for number in range(len(known))}, **{n: i for i, n in enumerate(known)}}
        if strange := [word for word in words if word not in numbers]:
            raise errors.unknown("class", strange[0], known)
        found = [numbers[word] for word in words]
        if sorted(found) != list(range(len(known))):
            raise errors.wrong(
                "The 'sequence' of classes", f"name each of the {len(known)} classes once", self.sequence
            )
        return found


@dataclass(frozen=True)
class Iid:
    """All samples shuffled.

    Parameters
    ----------
    twice
        Bring a second batch beside each.
    """

    twice: bool = False
    stages: ClassVar[int] = 1

    def __post_init__(self) -> None:
        errors.truth("The field 'twice' of iid", self.twice)

    def __call__(self, plan: Plan) -> list[Stage]:
        """Make the one stage."""
        [classes] = Plan(plan.dataset, plan.train, plan.test, 1, plan.seed, plan.shuffle).groups()
        rows = torch.cat([plan.train[c] for c in classes])
        shuffled = plan.shuffled(rows)
        return [Stage(classes, shuffled, plan.tests(classes), plan.shuffled(rows) if self.twice else None)]


@dataclass(frozen=True)
class Blurry:
    """i-Blurry (Koh et al., 2022).

    Parameters
    ----------
    disjoint
        N: the percentage of classes that come in their own stage alone.
    blur
        M: the percentage of the other classes' samples that come in the other stages, evenly.
    """

    disjoint: float = 50
    blur: float = 10

    def __post_init__(self) -> None:
        errors.number("The 'disjoint' percentage of blurry", self.disjoint, 0, 100)
        errors.number("The 'blur' percentage of blurry", self.blur, 0, 100)

    def __call__(self, plan: Plan) -> list[Stage]:
        """Make the stages."""
        groups, count = plan.groups(), len(plan.train)
        sharp = set(torch.randperm(count, generator=plan.shuffle)[: round(count * self.disjoint / 100)].tolist())
        own: list[list[Tensor]] = [[] for _ in groups]
        for stage, classes in enumerate(groups):
            others = [other for other in range(len(groups)) if other != stage]
            for c in classes:
                rows = plan.shuffled(plan.train[c])
                lent = 0 if c in sharp or not others else round(len(rows) * self.blur / 100)
                own[stage].append(rows[lent:])
                turn = int(torch.randint(len(others), (1,), generator=plan.shuffle)) if others else 0
                for position in range(lent):
                    own[others[(turn + position) % len(others)]].append(rows[position : position + 1])
        return [
            Stage(classes, plan.shuffled(torch.cat(rows)), plan.tests(classes))
            for classes, rows in zip(groups, own, strict=True)
        ]


@dataclass(frozen=True)
class Smooth:
    """Stages that run into each other.

    A sample of stage s comes at the time s + u + width * z with u uniform in [0, 1] and z normal; the stages are as
    long as they would be without it.

    Parameters
    ----------
    width
        How far samples come from their stage, in stages.
    """

    width: float = 0.25

    def __post_init__(self) -> None:
        errors.number("The 'width' of smooth", self.width, 0)

    def __call__(self, plan: Plan) -> list[Stage]:
        """Make the stages."""
        groups = plan.groups()
        rows = [torch.cat([plan.train[c] for c in classes]) for classes in groups]
        times = [
            stage
            + torch.rand(len(mine), generator=plan.shuffle, dtype=torch.float64)
            + self.width * torch.randn(len(mine), generator=plan.shuffle, dtype=torch.float64)
            for stage, mine in enumerate(rows)
        ]
        arrived = torch.cat(rows)[torch.cat(times).argsort(stable=True)]
        parts = arrived.split([len(mine) for mine in rows])
        return [Stage(c, part, plan.tests(c)) for c, part in zip(groups, parts, strict=True)]


@dataclass(frozen=True)
class Domains:
    """The same classes under changing conditions; each stage has its share of every class's samples.

    Parameters
    ----------
    kinds
        The conditions, one for each stage, with commas between; the first ones of all if it is empty.
    strength
        How strong they are; 1 is plain to see, 0 is nothing.
    """

    kinds: str = ""
    strength: float = 1

    def __post_init__(self) -> None:
        errors.number("The 'strength' of domains", self.strength, 0, 2)
        errors.text("The 'kinds' of domains", self.kinds)
        for kind in self._kinds():
            if kind not in DOMAINS:
                raise errors.unknown("kind of domain", kind, DOMAINS)

    @property
    def stages(self) -> int:
        """How many stages it has by itself."""
        return len(self._kinds())

    def __call__(self, plan: Plan) -> list[Stage]:
        """Make the stages."""
        if len(plan.dataset.shape) != 3:
            raise errors.InputError(f"The order domains is for images, and {plan.dataset.name} holds vectors.")
        admission.bounded(plan.dataset.train_x)
        admission.bounded(plan.dataset.test_x)
        kinds = self._kinds()
        if plan.stages > len(kinds) or (self.kinds and plan.stages != len(kinds)):
            many = (
                f"be {len(kinds)}, one for each kind" if self.kinds else f"be at most {len(kinds)} in the order domains"
            )
            raise errors.wrong("The number of 'stages'", many, plan.stages)
        classes = tuple(torch.randperm(len(plan.train), generator=plan.shuffle).tolist())
        shares = [plan.shuffled(plan.train[c]).tensor_split(plan.stages) for c in classes]
        return [
            Stage(
                classes,
                plan.shuffled(torch.cat([share[stage] for share in shares])),
                plan.tests(classes),
                domain=Domain(kinds[stage], self.strength, plan.seed),
            )
            for stage in range(plan.stages)
        ]

    def _kinds(self) -> list[str]:
        return [kind.strip() for kind in self.kinds.split(",")] if self.kinds else list(DOMAINS)


ORDERS: dict[str, Callable[..., Order]] = {
    "classes": Classes,
    "iid": Iid,
    "iid++": lambda: Iid(twice=True),
    "blurry": Blurry,
    "smooth": Smooth,
    "domains": Domains,
}


def named(text: str) -> Order:
    """The order of a name: classes, iid++, blurry(disjoint=50, blur=10)."""
    name, arguments = _parsed(text)
    return ORDERS[name](**arguments)


def canonical(text: str) -> str:
    """The one spelling of an order's name: defaults left out, parameters in their declared order."""
    if named(text) == ORDERS["iid++"]():  # and what cannot be is refused
        return "iid++"
    name, arguments = _parsed(text)
    return names.spell(name, {key: _plain(value) for key, value in arguments.items()}, _defaults(name))


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    terms = [(text, {})] if text in ORDERS else names.parse(text)
    if len(terms) != 1 or terms[0][0] not in ORDERS:
        raise errors.unknown("order", text, ORDERS)
    name, arguments = terms[0]
    if strange := [argument for argument in arguments if argument not in _defaults(name)]:
        raise errors.unknown(f"parameter of the order {name}", strange[0], _defaults(name))
    return name, arguments


def _plain(value: Any) -> Any:
    """A value in its one spelling: 20 for 20.0, and a list without spaces."""
    if isinstance(value, str):
        return ",".join(word.strip() for word in value.split(","))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _defaults(name: str) -> dict[str, Any]:
    return {key: parameter.default for key, parameter in inspect.signature(ORDERS[name]).parameters.items()}
