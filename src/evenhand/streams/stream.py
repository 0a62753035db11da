"""Streams: a dataset in an order, cut into stages and batches; a pure function of data, options and seed."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from evenhand import draws, errors
from evenhand.datasets import Dataset, by_class
from evenhand.streams.orders import Order, Plan, Stage, named

VALIDATION = 10  # one in so many training samples is held out to choose a method's parameters


@dataclass(frozen=True, eq=False)
class Step:
    """One batch of a stream; `beside` is the second batch of the order iid++."""

    stage: int
    x: Tensor
    y: Tensor
    beside: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, eq=False)
class Stream:
    """A dataset that comes batch by batch, each sample once. Its position is a whole number, so it can be resumed.

    Parameters
    ----------
    dataset
        Where the samples are.
    stages
        Which of them come when.
    batch
        How many come in a step.
    validation
        Whether it is tested with training samples that were held out, and never with test samples.
    """

    dataset: Dataset
    stages: tuple[Stage, ...]
    batch: int
    validation: bool = False

    @classmethod
    def split(
        cls,
        dataset: Dataset,
        stages: int,
        seed: int,
        order: str | Order = "classes",
        batch: int = 10,
        *,
        imbalance: float = 1,
        validation: bool = False,
    ) -> "Stream":
        """Order a dataset.

        Parameters
        ----------
        dataset
            Samples for training and testing.
        stages
            How many parts the stream has; iid and iid++ have one.
        seed
            Of the order.
        order
            An order or its name, see `evenhand.streams.orders`.
        batch
            Samples in a step; the last partial batch of a stage is dropped.
        imbalance
            How many times more training samples the most frequent class has than the rarest one: a long tail between.
        validation
            Hold out a tenth of the training samples and test with them instead of the test samples.
        """
        errors.whole("The 'batch' of a stream", batch, 1)
        errors.whole("The number of 'stages'", stages, 1)
        errors.number("The 'imbalance' of a stream", imbalance, 1)
        train = by_class(dataset.train_y, len(dataset.classes))
        if not validation:
            test = by_class(dataset.test_y, len(dataset.classes))
        else:
            held = [_held_out(rows) for rows in train]
            train, test = [rest for rest, _ in held], [part for _, part in held]
            if few := [name for name, rows in zip(dataset.classes, test, strict=True) if not len(rows)]:
                raise errors.InputError(f"The class '{few[0]}' has too few samples to hold some out for validation.")
        if imbalance > 1:
            train = _tailed(train, imbalance, seed)
        plan = Plan(dataset, train, test, stages, seed, draws.generator(seed, "order"))
        made = (named(order) if isinstance(order, str) else order)(plan)
        if min(len(stage.train) for stage in made) < batch:
            raise errors.wrong("The 'batch' of a stream", f"fit into a stage of {dataset.name}", batch)
        return cls(dataset, tuple(made), batch, validation)

    def __len__(self) -> int:
        """How many batches there are; the last partial one of a stage is dropped."""
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """How many batches each stage has."""
        return [len(stage.train) // self.batch for stage in self.stages]

    def steps(self, start: int = 0) -> Iterator[Step]:
        """The batches from position `start` on."""
        errors.whole("The position in a stream", start, 0)
        for number, (stage, length) in enumerate(zip(self.stages, self.lengths, strict=True)):
            for position in range(min(start, length), length):
                here = slice(position * self.batch, (position + 1) * self.batch)
                beside = None if stage.beside is None else self._take(stage, stage.beside[here])
                yield Step(number, *self._take(stage, stage.train[here]), beside)
            start -= min(start, length)

    def test(self, stage: int) -> tuple[Tensor, Tensor]:
        """The samples that a stage is tested with."""
        rows, domain = self.stages[stage].test, self.stages[stage].domain
        if self.validation:
            return self._take(self.stages[stage], rows)
        x = self.dataset.test_x[rows]
        return x if domain is None else domain(x, rows, "test"), self.dataset.test_y[rows]

    def _take(self, stage: Stage, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = self.dataset.train_x[rows]
        return x if stage.domain is None else stage.domain(x, rows, "train"), self.dataset.train_y[rows]


def _held_out(rows: Tensor) -> tuple[Tensor, Tensor]:
    """A class's samples without, and with only, a tenth of them; the same tenth for every seed."""
    shuffled = rows[torch.randperm(len(rows), generator=draws.generator(0, "validation"))]
    count = len(rows) // VALIDATION or min(1, len(rows) - 1)
    return shuffled[count:].sort().values, shuffled[:count].sort().values


def _tailed(train: list[Tensor], imbalance: float, seed: int) -> list[Tensor]:
    """Keep n * imbalance^(-rank / (classes - 1)) samples of a class, its rank drawn."""
    tail = draws.generator(seed, "tail")
    ranks = torch.randperm(len(train), generator=tail).tolist()
    kept = []
    for rank, rows in zip(ranks, train, strict=True):
        count = round(len(rows) * imbalance ** (-rank / max(1, len(train) - 1)))
        chosen = torch.randperm(len(rows), generator=tail)[: max(1, count)]
        kept.append(rows[chosen.sort().values])
    return kept
