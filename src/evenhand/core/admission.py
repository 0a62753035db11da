"""What enters a learner: checked samples and labels become batches, and new labels get a row of the head."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core import inputs
from evenhand.core.batch import Batch, unit
from evenhand.core.inputs import Kind, Label

if TYPE_CHECKING:
    from evenhand.core.learner import Learner


def batches(learner: "Learner", first: tuple[Any, Any], second: Any) -> tuple[Batch, Batch | None]:
    """The batch of the stream, and a second one (x, y) to learn in place of a replay; both with their views.

    If anything is wrong with either, the learner stays as it was.
    """
    if second is not None and len(second) != 2:
        raise errors.wrong("The 'second' batch", "be a pair (x, y)", second)
    pairs = [_learnable(learner, *pair) for pair in (first, second) if pair is not None]
    if len({Kind.of(x) for x, _ in pairs}) > 1:
        raise errors.InputError("The 'second' batch must have samples of the same type and shape as the first.")
    purposes = ("augment/stream", "augment/replay")
    registered = [registered_batch(learner, x, labels) for x, labels in pairs]  # all rows before any view
    batch, *others = [learner.viewed(batch, purpose) for batch, purpose in zip(registered, purposes, strict=False)]
    return batch, others[0] if others else None


def samples(learner: "Learner", x: Any) -> Tensor:
    """Samples of the shape seen before; the first ones must fit the network."""
    tensor = inputs.samples(x)
    if learner.kind is None:
        learner.network.check_sample(unit(tensor[:1]).to(learner.device))
    elif (shape := Kind.of(tensor).shape) != learner.kind.shape:
        raise errors.wrong("Every sample", f"have the shape {learner.kind.shape}", shape)
    return tensor


def _learnable(learner: "Learner", x: Any, y: Any) -> tuple[Tensor, list[Label]]:
    """Samples and labels that can be learned."""
    if learner.network.rows != max(len(learner.labels), learner.rows):
        raise errors.wrong("The network of a new learner", "have a head without rows", f"{learner.network.rows} rows")
    tensor = samples(learner, x)
    if learner.kind is not None and (dtype := Kind.of(tensor).dtype) != learner.kind.dtype:
        raise errors.wrong("Every sample", f"be of type {learner.kind.dtype}, like the first", dtype)
    if learner.augment != "none" and tensor.ndim != 4:
        raise errors.wrong("Samples to augment", "be images (n, c, h, w)", tuple(tensor.shape))
    if tensor.ndim == 4 and (learner.augment != "none" or learner.method.parts("bounded")):
        inputs.bounded(tensor)
    return tensor, inputs.labels(y, len(tensor))


def registered_batch(learner: "Learner", x: Tensor, labels: Sequence[Label]) -> Batch:
    """The batch of checked samples, whose new classes now have a row."""
    learner.kind = Kind.of(x)
    register(learner, labels)
    rows = torch.tensor([learner.row_of[inputs.label_key(label)] for label in labels], device=learner.device)
    return Batch(x.to(learner.device), rows)


def register(learner: "Learner", labels: Sequence[Label]) -> None:
    """Give every new label a row of the head."""
    for label in labels:
        if (key := inputs.label_key(label)) not in learner.row_of:
            learner.row_of[key] = len(learner.labels)
            learner.labels.append(label)
    if (missing := len(learner.labels) - learner.network.rows) > 0:
        learner.grow(missing)
