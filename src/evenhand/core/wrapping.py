"""Wrapping: any classifier becomes a trunk, with a passage where its last linear layer was."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evenhand import errors
from evenhand.core.cloning import cloned

Key = str | int | None  # of the features in what a module returns; None if it returns them alone


class Passage(nn.Identity):
    """Stands where the layer was that our head replaces, and passes on the features that it gets."""


def split(module: nn.Module, head: str | None = None) -> tuple[nn.Module, nn.Linear, str]:
    """Put a passage in the place of a module's last Linear, or of the one called `head`.

    Returns the module, which is changed, the layer and its name.
    """
    kind = type(module).__name__
    layers = {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}
    if any(isinstance(part, Passage) for part in module.modules()):
        raise errors.InputError(
            f"This {kind} already belongs to a learner, whose head has replaced its last layer. Build another one."
        )
    if not layers or (
        isinstance(module, nn.Sequential) and list(module.modules())[-1] is not list(layers.values())[-1]
    ):
        raise errors.InputError(
            f"The last layer of {kind} must be a Linear, which the head replaces. If the module computes features, "
            "wrap it with Network.of(module, dim=<length of a feature>)."
        )
    if head is not None and head not in layers:
        raise errors.unknown(f"Linear in this {kind}", head, layers)
    name = list(layers)[-1] if head is None else head
    layer = layers[name]
    if nn.parameter.is_lazy(layer.weight):
        raise errors.InputError(f"The layer '{name}' of {kind} has no shape yet. Call the module once on some samples.")
    if layer is module:
        return Passage(), layer, name
    put(module, name, Passage())
    return module, layer, name


def put(module: nn.Module, name: str, part: nn.Module) -> None:
    """Put a part in a place of a module."""
    parent, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(parent), attribute, part)


@torch.no_grad()
def trial(
    trunk: nn.Module, name: str, dim: int, arguments: tuple[tuple[Any, ...], dict[str, Any]], output: Key
) -> tuple[Key, Tensor]:
    """Pass one sample through a trunk; where the features are in what it returns, and they themselves.

    It must return what the passage, in the place of the layer `name`, passes on: alone, in a tuple or in a dict. After
    a passage over a sequence it may be one of its places.
    """
    copied, kind = cloned(trunk).eval(), type(trunk).__name__
    passages = [part for part in copied.modules() if isinstance(part, Passage)]
    passed: list[Tensor] = []
    for passage in passages:
        passage.register_forward_hook(lambda _, __, features: passed.append(features))
    positional, named = arguments
    returned = _items(copied(*positional, **named))
    found = {key: value for key, value in returned.items() if not passages or (passed and _same(value, passed[-1]))}
    if output is not None and output not in found:
        raise errors.unknown(f"output of this {kind}", output, map(str, returned))
    if passages and not passed:
        raise errors.InputError(
            f"{kind} does not use its layer '{name}', which the head has replaced. Name the layer that classifies: "
            "Learner(model, head='...')."
        )
    if not found:
        raise errors.InputError(
            f"{kind} does not return what its layer '{name}' passes on, so the head cannot take this layer's place. If "
            "a softmax or the like follows it, remove that. If another layer classifies, name it: Learner(model, "
            "head='...')."
        )
    fitting = [key for key, value in found.items() if value.shape[1:] == (dim,)] or list(found)
    key = fitting[0] if output is None else output
    return key, found[key]


def picked(returned: Any, key: Key) -> Tensor:
    """The features in what a trunk has returned."""
    return returned if key is None else returned[key]


def _items(returned: Any) -> dict[Key, Tensor]:
    if isinstance(returned, Tensor):
        return {None: returned}
    items = returned.items() if isinstance(returned, Mapping) else enumerate(returned)
    return {key: value for key, value in items if isinstance(value, Tensor)}


def _same(value: Tensor, passed: Tensor) -> bool:
    """Whether a returned tensor is the one that was passed, or one of its places."""
    if value.data_ptr() == passed.data_ptr() and value.shape == passed.shape:
        return True
    if passed.ndim < 3 or value.shape[1:] != passed.shape[-1:]:
        return False
    return bool((passed.flatten(1, -2) == value.unsqueeze(1)).all(2).any())
