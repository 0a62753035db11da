"""What all backbones have."""

from collections.abc import Sequence
from operator import index
from typing import Any

from torch import nn

from evenhand import errors


class Backbone(nn.Module):
    """A trunk with `dim`, the length of a feature, and `recipe`, from which `rebuild` recreates it."""

    dim: int
    recipe: dict[str, Any]


def sides(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a sample in plain numbers, which a recipe can hold."""
    try:
        return tuple(map(index, shape))
    except TypeError:
        raise errors.wrong("The shape of a sample", "be whole numbers, e.g. (3, 32, 32)", shape) from None
