"""Backbones: trunks from samples to features."""

from collections.abc import Mapping
from typing import Any

from evenhand import errors, names
from evenhand.backbones.backbone import Backbone
from evenhand.backbones.folding import fold, refold
from evenhand.backbones.mlp import MLP
from evenhand.backbones.reduced_resnet18 import ReducedResNet18
from evenhand.backbones.small_cnn import SmallCNN

BACKBONES: dict[str, type[Backbone]] = {
    "reduced_resnet18": ReducedResNet18,
    "small_cnn": SmallCNN,
    "mlp": MLP,
}

__all__ = [
    "BACKBONES",
    "MLP",
    "Backbone",
    "ReducedResNet18",
    "SmallCNN",
    "build",
    "canonical",
    "fold",
    "rebuild",
    "refold",
]


def build(name: str, shape: tuple[int, ...], arguments: Mapping[str, Any] | None = None) -> Backbone:
    """Build a backbone for samples of this shape, e.g. build("reduced_resnet18", (3, 32, 32), {"width": 64})."""
    if name not in BACKBONES:
        raise errors.unknown("backbone", name, BACKBONES)
    own = names.bind(name, arguments or {}, _parameters(name))
    try:
        return BACKBONES[name](shape, **own)
    except (RuntimeError, TypeError, OverflowError):  # torch cannot allocate it, or not even count its weights
        spelled = names.spell(name, own, _parameters(name))
        raise errors.InputError(f"The backbone {spelled} is too large for this machine's memory.") from None


def canonical(text: str) -> str:
    """Spell the name of a backbone in its canonical form.

    >>> canonical("mlp(hidden=64)"), canonical(" mlp( hidden=8 )")
    ('mlp', 'mlp(hidden=8)')
    """
    name, arguments = names.term("backbone", text, BACKBONES)
    return names.spell(name, arguments, _parameters(name))


def rebuild(recipe: Mapping[str, Any]) -> Backbone:
    """Build a backbone from its recipe, with new weights."""
    return build(recipe["name"], tuple(recipe["shape"]), recipe["arguments"])


def _parameters(name: str) -> dict[str, Any]:
    return names.parameters(BACKBONES[name], skip=1)  # all except the shape
