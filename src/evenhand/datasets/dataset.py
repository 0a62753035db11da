"""A dataset: training and test samples, with classes as whole numbers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from evenhand import errors


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples (n, ...) with their classes (n,), numbers from 0 that `classes` names.

    The `digest` of a dataset that was read from files is a hash of all samples and labels: a run resumes only with the
    data it began with. `notes` are remarks of its reader: unusual counts, skipped files.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: tuple[str, ...]
    digest: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.test_x.shape[1:] != self.train_x.shape[1:]:
            sizes = " x ".join(map(str, self.shape))
            got = " x ".join(map(str, self.test_x.shape[1:]))
            then = "Use --size to resize all images." if self.name.startswith(("folder:", "hf:")) else ""
            raise errors.wrong(f"The test samples of {self.name}", f"be like its training samples, {sizes}", got, then)
        for split, x, y in (("training", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            if len(x) != len(y):
                what = f"The number of {split} labels of {self.name}"
                raise errors.wrong(what, f"be {len(x)}, one per sample", len(y))
            if len(invalid := y[(y < 0) | (y >= len(self.classes))]):
                what = f"The {split} labels of {self.name}"
                raise errors.wrong(what, f"be numbers below {len(self.classes)}", invalid[0].item())
            counts = torch.bincount(y, minlength=len(self.classes)).tolist()
            if missing := [name for name, count in zip(self.classes, counts, strict=True) if not count]:
                others = f" and {len(missing) - 1} more have" if len(missing) > 1 else " has"
                raise errors.InputError(
                    f"Every class of {self.name} must have {split} samples. '{missing[0]}'{others} none."
                )

    def names(self, y: Tensor) -> list[str]:
        """The names of classes (n,): labels for a learner that is to answer with names."""
        return [self.classes[number] for number in y.tolist()]

    def __repr__(self) -> str:
        return f"Dataset({self.name}: {len(self.train_y)} + {len(self.test_y)} samples of {len(self.classes)} classes)"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.train_x.shape[1:])


def rows_by_class(y: Tensor, count: int) -> list[Tensor]:
    """Return the rows of each of `count` classes, in ascending order."""
    order = y.argsort(stable=True)
    return list(order.split(torch.bincount(y, minlength=count).tolist()))
