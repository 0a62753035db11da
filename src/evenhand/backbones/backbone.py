"""What all backbones have."""

from typing import Any

from torch import nn


class Backbone(nn.Module):
    """A trunk with `dim`, the length of a feature, and `recipe`, from which `rebuild` recreates it."""

    dim: int
    recipe: dict[str, Any]
