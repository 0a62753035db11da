"""The memory: a fixed number of slots, each holding one sample in preallocated columns."""

import threading
import weakref
from collections.abc import Mapping
from pathlib import Path

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
        self._pasts: weakref.WeakSet[Past] = weakref.WeakSet()
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return self.filled

    def __repr__(self) -> str:
        return f"Memory({self.filled} of {self.size} slots)"

    def write(self, slots: Tensor, batch: Batch) -> None:
        """Put the batch's samples into the slots, replacing what is there; free slots are taken in order."""
        if len(slots) == 0:
            return
        with self._changing:
            for name, values in {"x": batch.x, "y": batch.y, **batch.extra}.items():
                if name not in self.columns:
                    self._note(name)
                    self.columns[name] = values.new_zeros((self.size, *values.shape[1:]), device=self.device)
                elif values.ndim == 2 and (missing := values.shape[1] - self.columns[name].shape[1]) > 0:
                    self._note(name)
                    self.columns[name] = F.pad(self.columns[name], (0, missing), value=torch.nan)
                else:
                    self._note(name, slots)
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
        with self._changing:
            for name, values in columns.items():
                self._note(name, slots)
                self.columns[name][slots] = values.to(self.columns[name])

    def _note(self, name: str, slots: Tensor | None = None) -> None:
        """Tell every `Past` what is about to be replaced: some rows of a column, or the column itself."""
        if self._pasts:
            column = self.columns.get(name)
            old = (name, slots, column if slots is None or column is None else column[slots])
            for past in self._pasts:
                past.replaced.append(old)

    def counts(self) -> dict[int, int]:
        """How many samples of each class (a row of the head) there are."""
        if not self.filled:
            return {}
        classes, counts = self.columns["y"][: self.filled].unique(return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    def check_room(self, sample: Tensor) -> None:
        """Raise if samples like this one, as many as the memory can hold, do not fit into the machine's memory."""
        needed, free = self.size * sample.nbytes, _free(self.device)
        if free is not None and needed > free:
            raise errors.InputError(
                f"A memory of {self.size} samples of {sample.nbytes} bytes needs {needed / 1e9:.1f} GB, but only "
                f"{free / 1e9:.1f} GB are free. Choose a smaller 'memory'."
            )

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


class Past(Memory):
    """A memory as it was when this was made, whatever is written to it afterwards.

    It only notes what is replaced; its columns are copied when somebody reads them.
    """

    def __init__(self, memory: Memory) -> None:
        self.size, self.device, self.filled, self.offered = memory.size, memory.device, memory.filled, memory.offered
        self.replaced: list[tuple[str, Tensor | None, Tensor | None]] = []
        self._memory = memory
        self._read: dict[str, Tensor] | None = None
        memory._pasts.add(self)

    @property
    def columns(self) -> dict[str, Tensor]:  # type: ignore[override]
        """The columns of that time."""
        with self._memory._changing:
            if self._read is None:
                self._read = {name: column.clone() for name, column in self._memory.columns.items()}
                self._undo(self._read)
            return self._read

    def restore(self) -> None:
        """Undo everything that was written since then."""
        with self._memory._changing:
            self._undo(self._memory.columns)
            self._memory.filled, self._memory.offered = self.filled, self.offered

    def _undo(self, columns: dict[str, Tensor]) -> None:
        for name, slots, old in reversed(self.replaced):
            if old is None:
                columns.pop(name, None)
            elif slots is None:
                columns[name] = old.clone()
            else:
                columns[name][slots] = old


def _free(device: torch.device) -> int | None:
    """How many bytes a device can still give, if that is known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
