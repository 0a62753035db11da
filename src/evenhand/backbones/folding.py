"""Folding: a network for testing, whose batch normalisations are part of the convolutions before them."""

from collections.abc import Iterator
from itertools import pairwise

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def fold(trunk: nn.Module) -> nn.Module:
    """Fold every pair of convolution and normalisation of a trunk that is in evaluation mode; the trunk is changed.

    w <- w s, b <- (b - mean) s + shift with s = scale / sqrt(variance + eps): one operation less for each layer.
    """
    for module in list(trunk.modules()):
        for conv, norm in list(_pairs(module, own=hasattr(trunk, "recipe"))):
            setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
            setattr(module, norm, nn.Identity())
    return trunk


def _pairs(module: nn.Module, own: bool) -> Iterator[tuple[str, str]]:
    """Names of a convolution and the normalisation that follows it, as far as it is certain.

    Neighbours in a Sequential follow each other; in our own backbones conv2 is followed by bn2.
    """
    children = dict(module.named_children())
    if type(module) is nn.Sequential:  # one with a forward of its own may go another way
        candidates = list(pairwise(children))
    else:
        candidates = [(name, name.replace("conv", "bn")) for name in children if own and "conv" in name]
    for first, second in candidates:
        norm = children.get(second)
        if isinstance(children[first], nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
            yield first, second
