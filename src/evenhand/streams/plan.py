"""The input and output of an order: a plan, and the stages that the order cuts it into."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor

from evenhand import errors
from evenhand.datasets import Dataset


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
