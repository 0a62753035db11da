"""Batches from the stream and from the memory, and the losses of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples with their classes, which are rows of the head.

    Parameters
    ----------
    x
        Raw samples (n, ...): images as uint8 or as floats in [0, 1], vectors, tokens, rows of bytes (see `packing`).
    y
        Their classes (n,), as rows of the head.
    slots
        Their slots in the memory (n,), if they come from there.
    extra
        Further columns, e.g. the logits that DER++ stores.
    views
        What the network sees instead of x: (k n, c, h, w) floats, k views one after the other.
    """

    x: Tensor
    y: Tensor
    slots: Tensor | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    views: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: slice | list[int] | Tensor) -> "Batch":
        """Return the samples in these rows, with their views."""
        slots = None if self.slots is None else self.slots[rows]
        views = None if self.views is None else self.views.unflatten(0, (-1, len(self)))[:, rows].flatten(0, 1)
        extra = {name: column[rows] for name, column in self.extra.items()}
        return Batch(self.x[rows], self.y[rows], slots, extra, views)

    def split(self, count: int) -> tuple["Batch", "Batch"]:
        """Return the first `count` samples and the others."""
        return self[:count], self[count:]

    def with_(self, columns: Mapping[str, Tensor]) -> "Batch":
        """Return the same batch with further columns."""
        return replace(self, extra={**self.extra, **columns})

    @property
    def inputs(self) -> Tensor:
        """What the network sees."""
        return unit(self.x) if self.views is None else self.views

    @property
    def targets(self) -> Tensor:
        """The classes of the inputs: y once for every view."""
        return self.y if self.views is None else self.y.repeat(len(self.views) // len(self.y))

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """The mean of l(p, y) over all inputs; `logits` is (k n, rows)."""
        return F.cross_entropy(logits, self.targets)

    def each_cross_entropy(self, logits: Tensor) -> Tensor:
        """l(p, y) of every input, (k n,)."""
        return F.cross_entropy(logits, self.targets, reduction="none")


@dataclass(frozen=True, eq=False)
class Losses:
    """L_c, L_p and the columns to store with the batch; None where there is nothing to learn from."""

    learning: Tensor | None
    replaying: Tensor | None = None
    keep: Mapping[str, Tensor] = field(default_factory=dict)

    def detached(self) -> "Losses":
        """The loss values alone, without their graph and without the columns to store."""
        learning, replaying = (None if loss is None else loss.detach() for loss in (self.learning, self.replaying))
        return Losses(learning, replaying)

    @property
    def total(self) -> Tensor | None:
        """L = L_c + L_p (Eq. 10)."""
        if self.learning is None or self.replaying is None:
            return self.replaying if self.learning is None else self.learning
        return self.learning + self.replaying


def unit(x: Tensor) -> Tensor:
    """Turn samples into what the network takes: bytes are scaled to [0, 1], images are laid out channels last.

    Other integers, such as tokens, stay as they are.
    """
    if x.dtype != torch.uint8 and not x.is_floating_point():
        return x
    layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
    floats = x.to(torch.float32, memory_format=layout).contiguous(memory_format=layout)  # `to` may leave strides alone
    return floats.div_(255) if x.dtype == torch.uint8 else floats


def as_bytes(x: Tensor) -> Tensor:
    """Turn floats in [0, 1] back into the nearest bytes; bytes stay as they are."""
    return x if x.dtype == torch.uint8 else (255 * x).round().clamp(0, 255).to(torch.uint8)
