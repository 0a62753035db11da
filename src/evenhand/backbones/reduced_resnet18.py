"""The Reduced ResNet18 of the paper; with width 64, the full ResNet18 of later papers."""

import torch.nn.functional as F
from torch import Tensor, nn

from evenhand import errors
from evenhand.backbones.backbone import Backbone, sides


class Block(nn.Module):
    """Two 3x3 convolutions plus a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            # oneDNN for AVX2 corrupts memory in strided 1x1 convolutions, channels last, of fewer than 8 channels.
            narrow = before < 8
            self.shortcut = nn.Sequential(
                *([nn.AvgPool2d(1, stride)] if narrow else []),
                nn.Conv2d(before, after, 1, 1 if narrow else stride, bias=False),
                nn.BatchNorm2d(after),
            )

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) -> (n, after, h / stride, w / stride)."""
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


class ReducedResNet18(Backbone):
    """A 3x3 stem without pooling, four stages of two blocks, average pooling over 4x4.

    Parameters
    ----------
    shape
        Shape of a sample, (c, h, w), at least 8x8.
    width
        Channels of the first stage; each of the three later stages doubles them.
    """

    def __init__(self, shape: tuple[int, ...], width: int = 20) -> None:
        super().__init__()
        shape = sides(shape)
        if len(shape) != 3 or min(shape[1:]) < 8:
            raise errors.wrong("Samples for reduced_resnet18", "be images (c, h, w) of at least 8x8", shape)
        errors.whole("The 'width' of reduced_resnet18", width, 1)
        channels, *extent = shape
        self.recipe = {"name": "reduced_resnet18", "shape": list(shape), "arguments": {"width": width}}
        self.conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        blocks, before = [], width
        for stage in range(4):
            after, stride = width << stage, 1 if stage == 0 else 2
            blocks += [Block(before, after, stride), Block(after, after, 1)]
            before = after
        self.blocks = nn.Sequential(*blocks)
        last = [-(-side // 8) for side in extent]  # three strides of 2, each rounds up
        self.pool = min(4, *last)
        self.dim = before * (last[0] // self.pool) * (last[1] // self.pool)

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) -> (n, dim), non-negative."""
        h = self.blocks(F.relu(self.bn(self.conv(x))))
        return F.avg_pool2d(h, self.pool).flatten(1)
