"""Folding: merge batch normalisations into the convolutions before them, for testing."""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights

from evenhand.backbones.backbone import Backbone


def fold(trunk: nn.Module) -> nn.Module:
    """Fold every pair of convolution and normalisation of a trunk in evaluation mode, in place.

    w <- w s, b <- (b - mean) s + shift with s = scale / sqrt(variance + eps): one operation fewer in each layer.
    """
    for _, module in list(_in_order(trunk)):
        for conv, norm in list(_pairs(module, own=isinstance(trunk, Backbone))):
            setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
            setattr(module, norm, nn.Identity())
    return trunk


@torch.no_grad()
def refold(folded: nn.Module, live: nn.Module) -> bool:
    """Update a folded copy of a network to the live one's current values; False if they no longer fit."""
    values = {**dict(live.named_parameters(remove_duplicate=False)), **dict(live.named_buffers(remove_duplicate=False))}
    own = live.get_submodule("trunk")
    for path, module in _in_order(own, "trunk"):
        for conv, norm in _pairs(module, own=isinstance(own, Backbone)):
            c, n = getattr(module, conv), getattr(module, norm)
            fused = fuse_conv_bn_weights(c.weight, c.bias, n.running_mean, n.running_var, n.eps, n.weight, n.bias)
            for name in (*n._parameters, *n._buffers):
                values.pop(f"{path}.{norm}.{name}", None)
            values |= {f"{path}.{conv}.weight": fused[0], f"{path}.{conv}.bias": fused[1]}
    targets = [*folded.named_parameters(remove_duplicate=False), *folded.named_buffers(remove_duplicate=False)]
    if dict(targets).keys() != values.keys() or any(values[name].shape != tensor.shape for name, tensor in targets):
        return False
    torch._foreach_copy_([tensor for _, tensor in targets], [values[name] for name, _ in targets])
    return True


def _in_order(module: nn.Module, path: str = "", own: bool = False) -> Iterator[tuple[str, nn.Module]]:
    """Yield the parts of a trunk whose order of calls is known, with their paths.

    These are all parts of our `own` backbones. In other trunks only Sequentials within Sequentials: any other module
    may call the children of a Sequential one by one, and use what comes between them.
    """
    own = own or isinstance(module, Backbone)
    if own or type(module) is nn.Sequential:  # a subclass may have another forward
        yield path, module
        for name, child in module._modules.items():
            if child is not None:
                yield from _in_order(child, f"{path}.{name}", own)


def _pairs(module: nn.Module, own: bool) -> Iterator[tuple[str, str]]:
    """Yield the names of a convolution and of the normalisation that certainly follows it.

    In a Sequential each child follows the one before it; in our `own` backbones bn2 follows conv2.
    """
    children = dict(module._modules.items())  # named_children() would leave out a module that occurs again
    if type(module) is nn.Sequential:
        candidates = list(pairwise(children))
    else:
        candidates = [(name, name.replace("conv", "bn")) for name in children if own and "conv" in name]
    for first, second in candidates:
        conv, norm = children[first], children.get(second)
        plain = type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d and norm.track_running_stats
        if plain and not any(map(_is_altered, (conv, norm))):
            yield first, second


def _is_altered(module: nn.Module | None) -> bool:
    """Whether a module computes more than its class says: hooks, or a weight derived from other tensors."""
    return module is not None and bool(
        module._forward_hooks or module._forward_pre_hooks or "weight" not in module._parameters
    )
