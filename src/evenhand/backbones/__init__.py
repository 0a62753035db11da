"""Backbones: trunks from samples to features.

Each has `dim`, the length of a feature, and `recipe`, how to build it again.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from evenhand import errors
from evenhand.backbones.folding import fold
from evenhand.backbones.mlp import MLP
from evenhand.backbones.reduced_resnet18 import ReducedResNet18
from evenhand.backbones.small_cnn import SmallCNN

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "reduced_resnet18": ReducedResNet18,
    "small_cnn": SmallCNN,
    "mlp": MLP,
}

__all__ = ["BACKBONES", "MLP", "ReducedResNet18", "SmallCNN", "build", "fold", "rebuild"]


def build(name: str, shape: tuple[int, ...], arguments: Mapping[str, Any] | None = None) -> nn.Module:
    """Make a backbone for samples of this shape, e.g. build("reduced_resnet18", (3, 32, 32), {"width": 64})."""
    if name not in BACKBONES:
        raise errors.unknown("backbone", name, BACKBONES)
    known = list(inspect.signature(BACKBONES[name]).parameters)[1:]
    for argument in arguments or {}:
        if argument not in known:
            raise errors.unknown(f"parameter of {name}", argument, known)
    return BACKBONES[name](shape, **(arguments or {}))


def rebuild(recipe: Mapping[str, Any]) -> nn.Module:
    """Make the backbone that left this recipe."""
    return build(recipe["name"], tuple(recipe["shape"]), recipe["arguments"])
