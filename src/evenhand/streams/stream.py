"""A stream: a dataset in an order, cut into stages and batches; a pure function of data, options and seed."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core import draws
from evenhand.core.settings import plain
from evenhand.datasets import Dataset, rows_by_class
from evenhand.streams.orders import Order, Plan, Stage, resolve

VALIDATION = 10  # every tenth training sample of a class is held out for choosing parameters


@dataclass(frozen=True, eq=False)
class Step:
    """One batch of a stream; `second` is the second batch of the order iid++."""

    stage: int
    x: Tensor
    y: Tensor
    second: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, eq=False)
class Stream:
    """A dataset that arrives batch by batch, each sample once. Its position is an integer, so it can be resumed."""

    dataset: Dataset
    stages: tuple[Stage, ...]  # which samples arrive when
    batch: int  # samples per step
    validation: bool = False  # test with held-out training samples and never with test samples
    keep_partial: bool = False  # the last batch of a stage may be smaller than the others

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
        keep_partial: bool = False,
    ) -> "Stream":
        """Put a dataset in order.

        Parameters
        ----------
        dataset
            Samples for training and testing.
        stages
            Number of parts; iid and iid++ have one.
        seed
            Seed of the order.
        order
            An order or its name, see `evenhand.streams.orders`.
        batch
            Samples per step.
        imbalance
            Training samples of the largest class relative to the smallest, with a long tail between them.
        validation
            Hold out a tenth of the training samples and test with them instead of the test samples.
        keep_partial
            Keep the last batch of a stage even if it has fewer samples; by default it is dropped.
        """
        batch, stages, seed, imbalance = map(plain, (batch, stages, seed, imbalance))
        errors.whole("The 'batch' of a stream", batch, 1)
        errors.whole("The number of 'stages'", stages, 1)
        errors.whole("The 'seed' of a stream", seed, 0)
        errors.number("The 'imbalance' of a stream", imbalance, 1)
        train = rows_by_class(dataset.train_y, len(dataset.classes))
        if not validation:
            test = rows_by_class(dataset.test_y, len(dataset.classes))
        else:
            held = [_held_out(rows) for rows in train]
            train, test = [rest for rest, _ in held], [part for _, part in held]
            if few := [name for name, rows in zip(dataset.classes, test, strict=True) if not len(rows)]:
                raise errors.InputError(f"The class '{few[0]}' has too few samples to hold some out for validation.")
        if imbalance > 1:
            train = _long_tail(train, imbalance, seed)
        if not (isinstance(order, str) or callable(order)):
            raise errors.wrong("The 'order' of a stream", "be a name or an order", order)
        plan = Plan(dataset, train, test, stages, seed, draws.generator(seed, "order"))
        parts = (resolve(order) if isinstance(order, str) else order)(plan)
        if (smallest := min(len(stage.train) for stage in parts)) < (1 if keep_partial else batch):
            has = f"{smallest} training sample{'' if smallest == 1 else 's'}, fewer than a batch of {batch}"
            then = (
                "Use fewer stages." if keep_partial else "Use a smaller batch or fewer stages, or keep partial batches."
            )
            raise errors.InputError(f"The smallest stage of {dataset.name} has {has}. {then}")
        return cls(dataset, tuple(parts), batch, validation, keep_partial)

    def __len__(self) -> int:
        """Count the batches."""
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """The number of batches in each stage."""
        spare = self.batch - 1 if self.keep_partial else 0
        return [(len(stage.train) + spare) // self.batch for stage in self.stages]

    def steps(self, start: int = 0) -> Iterator[Step]:
        """Yield the batches from position `start`."""
        start = errors.whole("The position in a stream", plain(start), 0)
        for number, (stage, length) in enumerate(zip(self.stages, self.lengths, strict=True)):
            for position in range(min(start, length), length):
                here = slice(position * self.batch, (position + 1) * self.batch)
                second = None if stage.second is None else self._take(stage, stage.second[here], "train")
                yield Step(number, *self._take(stage, stage.train[here], "train"), second)
            start -= min(start, length)

    def test(self, stage: int) -> tuple[Tensor, Tensor]:
        """Return the samples and classes with which a stage is tested."""
        return self._take(self.stages[stage], self.stages[stage].test, "train" if self.validation else "test")

    def _take(self, stage: Stage, rows: Tensor, split: str) -> tuple[Tensor, Tensor]:
        data = self.dataset
        x, y = (data.train_x, data.train_y) if split == "train" else (data.test_x, data.test_y)
        return x[rows] if stage.domain is None else stage.domain(x[rows], rows, split), y[rows]


def _held_out(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Split the rows of a class into nine tenths and one tenth, the same for every seed."""
    shuffled = rows[torch.randperm(len(rows), generator=draws.generator(0, "validation"))]
    count = len(rows) // VALIDATION or min(1, len(rows) - 1)
    return shuffled[count:].sort().values, shuffled[:count].sort().values


def _long_tail(train: list[Tensor], imbalance: float, seed: int) -> list[Tensor]:
    """Keep n * imbalance^(-rank / (classes - 1)) samples of each class, with ranks drawn at random."""
    tail = draws.generator(seed, "tail")
    ranks = torch.randperm(len(train), generator=tail).tolist()
    kept = []
    for rank, rows in zip(ranks, train, strict=True):
        count = round(len(rows) * imbalance ** (-rank / max(1, len(train) - 1)))
        chosen = torch.randperm(len(rows), generator=tail)[: max(1, count)]
        kept.append(rows[chosen.sort().values])
    return kept
