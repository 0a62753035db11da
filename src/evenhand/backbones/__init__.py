"""Backbones: trunks from samples to features.

Each has `dim`, the length of a feature, and `recipe`, how to build it again.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from evenhand import errors, names
from evenhand.backbones.folding import fold
from evenhand.backbones.mlp import MLP
from evenhand.backbones.reduced_resnet18 import ReducedResNet18
from evenhand.backbones.small_cnn import SmallCNN

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "reduced_resnet18": ReducedResNet18,
    "small_cnn": SmallCNN,
    "mlp": MLP,
}

__all__ = ["BACKBONES", "MLP", "ReducedResNet18", "SmallCNN", "build", "canonical", "fold", "rebuild"]


def build(name: str, shape: tuple[int, ...], arguments: Mapping[str, Any] | None = None) -> nn.Module:
    """Make a backbone for samples of this shape, e.g. build("reduced_resnet18", (3, 32, 32), {"width": 64})."""
    _defaults(name, arguments or {})
    return BACKBONES[name](shape, **(arguments or {}))


def canonical(text: str) -> str:
    """The one spelling of a backbone's name: defaults left out, parameters in their declared order.

    >>> canonical("mlp(hidden=64)"), canonical(" mlp( hidden=8 )")
    ('mlp', 'mlp(hidden=8)')
    """
    terms = names.parse(text)
    if len(terms) != 1:
        raise errors.unknown("backbone", text, BACKBONES)
    [(name, arguments)] = terms
    return names.spell(name, arguments, _defaults(name, arguments))


def _defaults(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a backbone but the shape, if there is such a backbone and the arguments are among them."""
    if name not in BACKBONES:
        raise errors.unknown("backbone", name, BACKBONES)
    known = {key: p.default for key, p in list(inspect.signature(BACKBONES[name]).parameters.items())[1:]}
    for argument in arguments:
        if argument not in known:
            raise errors.unknown(f"parameter of {name}", argument, known)
    return known


def rebuild(recipe: Mapping[str, Any]) -> nn.Module:
    """Make the backbone that left this recipe."""
    return build(recipe["name"], tuple(recipe["shape"]), recipe["arguments"])
