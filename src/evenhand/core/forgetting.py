"""Remembering without learning, and forgetting for good."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core import admission
from evenhand.core.draws import as_global
from evenhand.core.labels import Label

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

PIECE = 256  # samples that pass through the network at once


def remember(learner: "Learner", x: Any, y: Any) -> None:
    """Offer samples to the memory, with whatever else the method stores for them."""
    with learner.snapshots.turn:
        pairs = admission.checked(learner, (x, y), None)
        with learner.snapshots.step(learner), as_global(learner.generators["network"]), torch.enable_grad():
            learner.network.to_learn()
            [(samples, kind, labels)] = pairs
            for start in range(0, len(labels), PIECE):
                piece = slice(start, start + PIECE)
                batch, _ = admission.batches(learner, [(samples[piece], kind, labels[piece])])
                with learner.scratch_copy(), torch.no_grad():
                    columns = learner.method.objective(learner, batch, None).keep
                learner.method.storage(learner, batch.with_(columns))


def forget(learner: "Learner", label: Label, where: Callable[[Any], Tensor] | None) -> int:
    """Erase the samples of a label, or those for which `where` is true, from the memory and from all copies of it."""
    if (label is ...) == (where is None):
        raise errors.InputError("Say what to forget: either a label, or a function 'where'.")
    if where is not None and not callable(where):
        raise errors.wrong("'where'", "be a function that takes the samples", type(where).__name__)
    with learner.snapshots.turn:
        with learner.snapshots.step(learner):
            slots = learner.memory.slots(label)
            if where is not None and len(slots):
                slots = slots[_chosen(where(learner.memory.samples()[0]), len(slots))]
            learner.memory.erase(slots)
        learner.changed()
    return len(slots)


def _chosen(answers: Any, count: int) -> Tensor:
    """What the user's function returned for `count` samples, as booleans."""
    try:
        mask = torch.as_tensor(answers, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        mask = torch.empty(0)
    if mask.dtype != torch.bool or mask.shape != (count,):
        must = f"return a boolean for each of the {count} samples"
        raise errors.wrong("'where'", must, f"{mask.dtype} {tuple(mask.shape)}")
    return mask
