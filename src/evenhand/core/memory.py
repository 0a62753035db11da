"""The memory: a fixed number of slots, each holding one sample in preallocated columns."""

import io
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from evenhand import errors, files
from evenhand.core.batch import Batch, as_bytes
from evenhand.core.draws import distinct
from evenhand.core.inputs import Kind
from evenhand.core.labels import Label, key
from evenhand.core.labels import label as plain_label
from evenhand.core.packing import unpack


class Memory:
    """A column store of at most `size` samples.

    The first write allocates the columns with the shapes and types of its values, so images stay uint8. A vector longer
    than its column widens it and fills the rest with NaN (the logits of DER++ grow with the classes). The method's
    storage decides which samples to keep.

    Parameters
    ----------
    size
        Number of slots.
    device
        Device of the columns.
    home
        Device that samples are read to; by default the same one.

    Attributes
    ----------
    filled
        How many slots hold a sample; always the first ones.
    offered
        How many samples the storage has been offered, kept or not.
    holes, missed
        How many samples were erased, and about how many like them had been offered but not kept, less the new samples
        that have made up for them since; see `Reservoir`.
    labels
        The label of each class.
    kind
        The kind of the samples as observed; the memory itself may hold bytes as floats, or several tensors packed.
    """

    def __init__(self, size: int, device: torch.device | str = "cpu", home: torch.device | str | None = None) -> None:
        self.size = errors.whole("The size of the memory", size, 0)
        self.device, self.home = torch.device(device), torch.device(home or device)
        self.columns: dict[str, Tensor] = {}
        self.filled = 0
        self.offered = 0
        self.holes = self.missed = 0
        self.labels: list[Label] = []
        self.kind: Kind | None = None
        self._pasts: weakref.WeakSet[Past] = weakref.WeakSet()
        self._changing = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_pasts", "_changing")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pasts, self._changing = weakref.WeakSet(), threading.RLock()

    def __len__(self) -> int:
        return self.filled

    def __repr__(self) -> str:
        return f"Memory({self.filled} of {self.size} slots)"

    def write(self, slots: Tensor, batch: Batch) -> None:
        """Write the batch's samples to the slots, replacing what is there; free slots must be filled in order."""
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
        rows = {name: column[slots].to(self.home) for name, column in self.columns.items()}
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

    def erase(self, slots: Tensor) -> None:
        """Erase the samples in some slots for good; the remaining ones move up."""
        stay = torch.ones(self.filled, dtype=torch.bool, device=self.device)
        stay[slots] = False
        with self._changing:
            for name, column in self.columns.items():
                self._note(name)
                self.columns[name] = torch.zeros_like(column)
                self.columns[name][: int(stay.sum())] = column[: self.filled][stay]
            alike = round(len(slots) * (self.offered - self.holes - self.missed) / max(self.filled, 1))
            self.holes, self.missed = self.holes + len(slots), self.missed + max(0, alike - len(slots))
            self.filled -= len(slots)
            if not self.filled:
                self.offered = self.holes = self.missed = 0

    def samples(self, label: Label = ...) -> tuple[Any, list[Label]]:
        """All samples, or those of one label, as tensors like those passed to `observe`, and their labels."""
        with self._changing:
            slots = self.slots(label)
            if not len(slots):
                return None, []
            stored = self.read(slots)
        x: Any = stored.x
        if self.kind is not None and self.kind.columns is not None:
            positional, named = unpack(x, self.kind.columns)
            x = named or positional
        elif self.kind is not None and self.kind.dtype == "uint8":
            x = as_bytes(x)
        return x, [self.labels[row] for row in stored.y.tolist()]

    def slots(self, label: Label = ...) -> Tensor:
        """The filled slots, or those of one label."""
        if label is ... or not self.filled:
            return torch.arange(self.filled)
        rows = [row for row, known in enumerate(self.labels) if key(known) == key(plain_label(label))]
        return (self.columns["y"][: self.filled] == rows[0]).nonzero().flatten() if rows else torch.arange(0)

    def label_counts(self) -> dict[Label, int]:
        """How many samples of each label there are."""
        with self._changing:
            return {self.labels[row]: count for row, count in self.counts().items()}

    def export(self, path: str | Path) -> None:
        """Write the samples and their labels to an .npz file, which `--data npz:PATH` and numpy can read."""
        x, labels = self.samples()
        if not isinstance(x, Tensor):
            raise errors.InputError("The memory can be exported only if it holds samples, each of a single tensor.")
        held = set(labels)
        classes = [label for label in self.labels if label in held]
        names = [str(label) for label in classes]
        if len(set(names)) < len(names):
            raise errors.InputError("Labels that are spelled alike, such as 1 and '1', cannot be told apart in a file.")
        y = [classes.index(label) for label in labels]
        content, layout = io.BytesIO(), {"channels_first": True} if x.ndim == 4 else {}
        np.savez_compressed(content, x=x.cpu().numpy(), y=np.array(y), classes=np.array(names), **layout)
        files.write(Path(path), content.getvalue())

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
        """Raise if a full memory of samples like this one does not fit onto its device."""
        needed, free = self.size * sample.nbytes, _free(self.device)
        if free is not None and needed > free:
            raise errors.InputError(
                f"A memory of {self.size} samples of {sample.nbytes} bytes needs {needed / 1e9:.1f} GB, but only "
                f"{free / 1e9:.1f} GB are free. Choose a smaller 'memory'."
            )

    def state_dict(self) -> dict[str, Tensor]:
        """The filled part of every column, and the counts."""
        state = {name: column[: self.filled].clone() for name, column in self.columns.items()}
        erased = [self.holes, self.missed] if self.holes + self.missed else []
        return {**state, "#": torch.tensor([self.filled, self.offered, *erased])}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state_dict` returned; the sizes must match."""
        with self._changing:
            self.filled, self.offered, self.holes, self.missed = (*state["#"].tolist(), 0, 0)[:4]
            for name in self.columns.keys() | state.keys() - {"#"}:
                self._note(name)
            self.columns = {}
            for name, rows in state.items():
                if name != "#":
                    self.columns[name] = rows.new_zeros((self.size, *rows.shape[1:]), device=self.device)
                    self.columns[name][: self.filled] = rows.to(self.device)


class Past(Memory):
    """A memory as it was when this was created, whatever is written to it afterwards.

    It only records what is replaced; its columns are copied when they are first read.
    """

    def __init__(self, memory: Memory) -> None:
        self.size, self.device, self.filled, self.offered = memory.size, memory.device, memory.filled, memory.offered
        self.home = memory.home
        self.holes, self.missed, self.labels, self.kind = memory.holes, memory.missed, memory.labels, memory.kind
        self.replaced: list[tuple[str, Tensor | None, Tensor | None]] = []
        self._memory, self._changing = memory, threading.RLock()
        self._read: dict[str, Tensor] | None = None
        memory._pasts.add(self)

    @property
    def columns(self) -> dict[str, Tensor]:  # type: ignore[override]
        """The columns at that time."""
        with self._memory._changing:
            if self._read is None:
                self._read = {name: column[: self.filled].clone() for name, column in self._memory.columns.items()}
                self._undo(self._read, self.filled)
            return self._read

    def restore(self) -> None:
        """Undo everything that was written since."""
        with self._memory._changing:
            self._undo(self._memory.columns)
            self._memory.filled, self._memory.offered = self.filled, self.offered
            self._memory.holes, self._memory.missed = self.holes, self.missed

    def _undo(self, columns: dict[str, Tensor], filled: int | None = None) -> None:
        """Undo all changes in these columns, which may have only the slots that were filled."""
        for name, slots, old in reversed(self.replaced):
            if old is None:
                columns.pop(name, None)
            elif slots is None:
                columns[name] = old[:filled].clone()
            else:
                there = slots < len(columns[name])
                columns[name][slots[there]] = old[there.to(old.device)]


def _free(device: torch.device) -> int | None:
    """How many bytes are free on a device, if known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
