"""The memory: a fixed number of slots, each holding one sample in preallocated columns."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from evenhand import errors
from evenhand.core.batch import Batch
from evenhand.core.draws import distinct


class Memory:
    """A column store of at most `size` samples.

    The first write allocates the columns with the shapes and types of its values, so images stay uint8. A vector longer
    than its column widens it and fills the rest with NaN (the logits of DER++ grow with the classes). Which samples to
    keep is decided by a method's storage, not here.

    Attributes
    ----------
    filled
        How many slots hold a sample; always the first ones.
    offered
        How many samples the storage has been shown, kept or not.
    """

    def __init__(self, size: int, device: torch.device | str = "cpu") -> None:
        self.size = errors.whole("The size of the memory", size, 0)
        self.device = torch.device(device)
        self.columns: dict[str, Tensor] = {}
        self.filled = 0
        self.offered = 0

    def __len__(self) -> int:
        return self.filled

    def __repr__(self) -> str:
        return f"Memory({self.filled} of {self.size} slots)"

    def write(self, slots: Tensor, batch: Batch) -> None:
        """Put the batch's samples into the slots, replacing what is there; free slots are taken in order."""
        if len(slots) == 0:
            return
        for name, values in {"x": batch.x, "y": batch.y, **batch.extra}.items():
            if name not in self.columns:
                self.columns[name] = values.new_zeros((self.size, *values.shape[1:]), device=self.device)
            elif values.ndim == 2 and (missing := values.shape[1] - self.columns[name].shape[1]) > 0:
                self.columns[name] = F.pad(self.columns[name], (0, missing), value=torch.nan)
            self.columns[name][slots] = values.to(self.device)
        self.filled = max(self.filled, int(slots.max()) + 1)

    def read(self, slots: Tensor) -> Batch:
        """Return a copy of the samples in the slots."""
        rows = {name: column[slots] for name, column in self.columns.items()}
        return Batch(rows.pop("x"), rows.pop("y"), slots, rows)

    def sample(self, count: int, generator: Generator) -> Tensor:
        """Draw up to `count` different filled slots; the cost does not depend on the size."""
        return distinct(count, self.filled, generator)

    def edit(self, slots: Tensor, **columns: Tensor) -> None:
        """Overwrite some columns of filled slots."""
        for name, values in columns.items():
            self.columns[name][slots] = values.to(self.columns[name])

    def counts(self) -> dict[int, int]:
        """How many samples of each class (a row of the head) there are."""
        if not self.filled:
            return {}
        classes, counts = self.columns["y"][: self.filled].unique(return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    def state_dict(self) -> dict[str, Tensor]:
        """The filled part of every column, and the two counts."""
        state = {name: column[: self.filled].clone() for name, column in self.columns.items()}
        return {**state, "#": torch.tensor([self.filled, self.offered])}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` returned; the sizes must agree."""
        self.filled, self.offered = state["#"].tolist()
        self.columns = {}
        for name, rows in state.items():
            if name != "#":
                self.columns[name] = rows.new_zeros((self.size, *rows.shape[1:]), device=self.device)
                self.columns[name][: self.filled] = rows.to(self.device)
