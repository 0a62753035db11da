"""Streams: a dataset in an order, cut into stages and batches; a pure function of data, options and seed."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from evenhand import draws, errors
from evenhand.datasets import Dataset, by_class

ORDERS = ("classes", "iid", "iid++")


@dataclass(frozen=True, eq=False)
class Step:
    """One batch of a stream; `beside` is the second batch of the order iid++."""

    stage: int
    x: Tensor
    y: Tensor
    beside: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of the stream after which the learner is tested: its classes and its training and test samples."""

    classes: tuple[int, ...]
    train: Tensor
    test: Tensor
    beside: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Stream:
    """A dataset that comes batch by batch, each sample once. Its position is a whole number, so it can be resumed."""

    dataset: Dataset
    stages: tuple[Stage, ...]
    batch: int

    @classmethod
    def split(cls, dataset: Dataset, stages: int, seed: int, order: str = "classes", batch: int = 10) -> "Stream":
        """Order a dataset.

        classes
            The classes, shuffled, come in `stages` groups, the samples of a group shuffled.
        iid
            All samples shuffled, in one stage.
        iid++
            As iid, and each batch has a second one beside it, from a shuffle of its own.
        """
        errors.choice("The 'order' of a stream", order, ORDERS)
        errors.whole("The 'batch' of a stream", batch, 1)
        count = len(dataset.classes)
        shuffle = draws.generator(seed, "order")
        if order != "classes":
            stages = 1
        elif errors.whole("The number of 'stages'", stages, 1) > count or count % stages:
            raise errors.wrong("The number of 'stages'", f"divide the {count} classes of {dataset.name}", stages)
        ranks = torch.randperm(count, generator=shuffle).tolist()
        train, test = by_class(dataset.train_y, count), by_class(dataset.test_y, count)
        made = []
        for group in range(stages):
            classes = tuple(ranks[group * (count // stages) : (group + 1) * (count // stages)])
            samples = torch.cat([train[c] for c in classes])
            shuffled = samples[torch.randperm(len(samples), generator=shuffle)]
            beside = samples[torch.randperm(len(samples), generator=shuffle)] if order == "iid++" else None
            made.append(Stage(classes, shuffled, torch.cat([test[c] for c in classes]), beside))
        if min(len(stage.train) for stage in made) < batch:
            raise errors.wrong("The 'batch' of a stream", f"fit into a stage of {dataset.name}", batch)
        return cls(dataset, tuple(made), batch)

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
                beside = None if stage.beside is None else self._take(stage.beside[here])
                yield Step(number, *self._take(stage.train[here]), beside)
            start -= min(start, length)

    def test(self, stage: int) -> tuple[Tensor, Tensor]:
        """The test samples of a stage's classes."""
        rows = self.stages[stage].test
        return self.dataset.test_x[rows], self.dataset.test_y[rows]

    def _take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.dataset.train_x[rows], self.dataset.train_y[rows]
