"""A small convolutional network for tests and first experiments, about a hundred times cheaper than the ResNet."""

import torch.nn.functional as F
from torch import Tensor, nn

from evenhand import errors
from evenhand.backbones.backbone import Backbone, sides


class SmallCNN(Backbone):
    """Two strided 3x3 convolutions with batch normalisation, then average pooling to 3x3.

    Parameters
    ----------
    shape
        Shape of a sample, (c, h, w), at least 8x8.
    width
        Channels of the first convolution; the second has twice as many.
    """

    def __init__(self, shape: tuple[int, ...], width: int = 16) -> None:
        super().__init__()
        shape = sides(shape)
        if len(shape) != 3 or min(shape[1:]) < 8:
            raise errors.wrong("Samples for small_cnn", "be images (c, h, w) of at least 8x8", shape)
        errors.whole("The 'width' of small_cnn", width, 1)
        self.recipe = {"name": "small_cnn", "shape": list(shape), "arguments": {"width": width}}
        self.conv1 = nn.Conv2d(shape[0], width, 3, 2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.pool = nn.AdaptiveAvgPool2d(3)
        self.dim = 2 * width * 9

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) -> (n, dim), non-negative."""
        h = F.relu(self.bn1(self.conv1(x)))
        h = F.relu(self.bn2(self.conv2(h)))
        return self.pool(h).flatten(1)
