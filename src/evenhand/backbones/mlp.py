"""A multilayer perceptron for vectors, such as frozen embeddings, and for tests."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from evenhand import errors
from evenhand.backbones.backbone import Backbone, sides


class MLP(Backbone):
    """One hidden layer with ReLU, or none: then the features are the samples themselves.

    Parameters
    ----------
    shape
        Shape of a sample; images are flattened.
    hidden
        Length of a feature; 0 passes the samples through, for a linear head on frozen embeddings.
    """

    def __init__(self, shape: tuple[int, ...], hidden: int = 64) -> None:
        super().__init__()
        errors.whole("The 'hidden' parameter of mlp", hidden, 0)
        shape = sides(shape)
        values = math.prod(shape)
        self.recipe = {"name": "mlp", "shape": list(shape), "arguments": {"hidden": hidden}}
        self.layer = nn.Linear(values, hidden) if hidden else None
        self.dim = hidden or values

    def forward(self, x: Tensor) -> Tensor:
        """(n, ...) -> (n, dim)."""
        h = x.flatten(1)
        return h if self.layer is None else F.relu(self.layer(h))
