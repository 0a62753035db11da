"""Admission: validate samples and labels, turn them into batches, and give new labels a row of the head."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evenhand import errors
from evenhand.core import inputs, labels
from evenhand.core.batch import Batch, unit
from evenhand.core.inputs import Kind
from evenhand.core.labels import Label
from evenhand.core.network import Network
from evenhand.core.precision import undisturbed
from evenhand.core.wrapping import HeadError

if TYPE_CHECKING:
    from evenhand.core.learner import Learner


Checked = list[tuple[Tensor, Kind, list[Label]]]


def checked(learner: "Learner", first: tuple[Any, Any], second: Any) -> Checked:
    """Validate the stream's batch and, if given, a second one (x, y) to learn in place of a replay."""
    if second is not None and not (isinstance(second, tuple | list) and len(second) == 2):
        raise errors.wrong("The 'second' batch", "be a pair (x, y)", second)
    pairs = [_learnable(learner, *pair) for pair in (first, second) if pair is not None]
    if not all(kind.like(pairs[0][1]) for _, kind, _ in pairs):
        raise errors.InputError("The 'second' batch must have samples of the same type and shape as the first.")
    labels.check_alike([label for *_, found in pairs for label in found], learner.labels, learner.row_of)
    if learner.kind is None:
        sample = pairs[0][0][0]
        learner.memory.check_room(unit(sample) if learner.method.parts("bounded") else sample)  # edits need floats
    return pairs


def batches(learner: "Learner", pairs: Checked) -> tuple[Batch, Batch | None]:
    """Turn checked samples and labels into batches with their views; new classes get a row of the head."""
    kind = pairs[0][1]
    if learner.kind is None:
        fit(learner.network, pairs[0][0], kind)
        learner.kept.fit(learner.network)
    learner.memory.kind = kind
    purposes = ("augment/stream", "augment/replay")
    registered = [registered_batch(learner, x, found) for x, _, found in pairs]  # add all rows before drawing any view
    batch, *others = [learner.viewed(batch, purpose) for batch, purpose in zip(registered, purposes, strict=False)]
    return batch, others[0] if others else None


def fit(network: Network, x: Tensor, kind: Kind) -> None:
    """Tell a network how to unpack samples of this kind, and where its trunk's output holds the features."""
    network.output = network.check_sample(unit(x[:1]).to(network.head.weight.device), kind.columns)
    network.columns = kind.columns


def samples(learner: "Learner", x: Any) -> tuple[Tensor, Kind]:
    """Samples as a tensor, and their kind; all must match the first ones, which must fit the network."""
    known = learner.kind
    if known is not None and known.columns and isinstance(x, Mapping):  # in the order of the first samples
        order = [name for name, *_ in known.columns]
        x = {name: x[name] for name in order} if set(x) == set(order) else x
    names = inputs.names(x)
    if known is not None and known.names and names and names != known.names:
        if missing := [name for name in known.names if name not in names]:
            raise errors.InputError(f"The column '{missing[0]}', which the first samples had, is missing.")
        x = x.iloc[:, [names.index(name) for name in known.names]]
    tensor, columns = inputs.samples(x)
    kind = Kind.of(tensor, columns, names)
    if known is None:
        try:
            with undisturbed(learner.device):
                learner.network.check_sample(unit(tensor[:1]).to(learner.device), columns)
        except HeadError as error:
            if learner.snapshots.last is None or learner.network is not learner.snapshots.last.network:
                learner.network.give_back(str(error))
            raise
    elif kind.shape != known.shape and not columns and not known.columns:
        raise errors.wrong("Every sample", f"have the shape {known.shape}", kind.shape)
    elif not kind.like(known):
        raise errors.wrong("Every sample", f"be of type {known}, like the first", str(kind))
    return tensor, known or kind


def _learnable(learner: "Learner", x: Any, y: Any) -> tuple[Tensor, Kind, list[Label]]:
    """Validate samples and labels for learning."""
    if learner.network.rows != max(len(learner.labels), learner.rows):
        raise errors.InputError(
            f"The head of a new learner's network must start without rows. This one has {learner.network.rows}."
        )
    tensor, kind = samples(learner, x)
    scaled = kind.dtype == "uint8" or tensor.is_floating_point()
    edited = bool(learner.method.parts("bounded"))
    if learner.augment == "none" and not edited:
        return tensor, kind, labels.plain(y, len(tensor))
    if learner.augment != "none" and kind.columns:
        raise errors.InputError("Only samples of a single tensor can be augmented.")
    if learner.augment != "none" and not (tensor.ndim == 4 and scaled) and not callable(learner.augment):
        raise errors.wrong("Samples with augmented views", "be images (n, c, h, w)", tuple(tensor.shape))
    if edited and not scaled:
        raise errors.wrong("Samples that this method edits", "be uint8 or floats", str(kind))
    if tensor.ndim == 4 and (edited or not callable(learner.augment)):
        inputs.bounded(tensor)
    return tensor, kind, labels.plain(y, len(tensor))


def registered_batch(learner: "Learner", x: Tensor, found: Sequence[Label]) -> Batch:
    """Register new classes, and return the checked samples as a batch."""
    register(learner, found)
    rows = torch.tensor([learner.row_of[labels.key(label)] for label in found], device=learner.device)
    return Batch(x.to(learner.device), rows)


def register(learner: "Learner", found: Sequence[Label]) -> None:
    """Give every new label a row of the head."""
    for label in found:
        if (key := labels.key(label)) not in learner.row_of:
            learner.row_of[key] = len(learner.labels)
            learner.labels.append(label)
    if (missing := len(learner.labels) - learner.network.rows) > 0:
        learner.grow(missing)


@torch.no_grad()
def keep(learner: "Learner", found: Sequence[Label]) -> None:
    """Start with the classes of the layer that the head replaces: copy its rows and register their labels."""
    layer = learner.network.replaced.layer if learner.network.replaced else None
    if layer is not None and type(layer).forward is not nn.Linear.forward:
        must = f"be left out, since {type(layer).__name__} computes more than a Linear does"
        raise errors.wrong("The labels to 'keep'", must, list(found))
    if layer is None or len(found) != layer.out_features or len(set(found)) < len(found):
        must = "name each row of the layer that the head replaces"
        raise errors.wrong("The labels to 'keep'", f"{must} ({layer.out_features})" if layer else must, list(found))
    register(learner, found)
    learner.network.head.weight[: len(found)] = layer.weight
    learner.network.head.bias[: len(found)] = 0 if layer.bias is None else layer.bias
