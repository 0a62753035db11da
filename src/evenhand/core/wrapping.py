"""Wrapping: turn any classifier into a trunk, with a passage in place of its last linear layer."""

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from evenhand import errors
from evenhand.core.cloning import cloned
from evenhand.core.draws import seeded

Key = str | int | None  # of the features in a module's output; None if it returns only them


class HeadError(errors.InputError):
    """The head cannot take the place of a layer."""


class Passage(nn.Identity):
    """Takes the place of the layer that our head replaces, and passes on the features."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.in_features = self.out_features = features


class Replaced:
    """A replaced layer with its names in the module; copies of the module share it."""

    def __init__(self, names: list[str], layer: nn.Linear) -> None:
        self.names, self.layer = names, layer

    def __deepcopy__(self, memo: dict[int, Any]) -> "Replaced":
        return self

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def put(self, module: nn.Module, part: nn.Module) -> None:
        """Put a part in place of the layer, or put the layer back."""
        for name in self.names:
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, part)


def refuse_compiled(module: nn.Module) -> None:
    """Raise if a part is compiled, since a copy of it would still run the original."""
    for name, part in module.named_modules():
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None):
            what = f"The part '{name}' of this module" if name else "This module"
            raise errors.InputError(f"{what} is compiled. Pass the original one, with compile=True.")


def split(module: nn.Module, head: str | None = None) -> tuple[nn.Module, Replaced]:
    """Replace a module's last Linear, or the one called `head`, with a passage; this changes the module."""
    kind = type(module).__name__
    layers = {n: m for n, m in module.named_modules(remove_duplicate=False) if isinstance(m, nn.Linear)}
    if any(isinstance(part, Passage) for part in module.modules()):
        raise errors.InputError(
            f"This {kind} already belongs to a learner, whose head has replaced its last layer. Build another one."
        )
    if not layers or (head is None and not isinstance(_end(module), nn.Linear)):
        raise errors.InputError(
            f"The last layer of {kind} must be a Linear, which the head replaces. If the module computes features, "
            "wrap it with Network.of(module, dim=<length of a feature>)."
        )
    if head is not None and head not in layers:
        raise errors.unknown(f"Linear in this {kind}", head, layers)
    layer = layers[list(layers)[-1] if head is None else head]
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        raise errors.InputError(f"Some layers of {kind} have no shape yet. Call the module once on some samples.")
    replaced = Replaced([name for name, part in layers.items() if part is layer], layer)
    if layer is module:
        return Passage(layer.in_features), replaced
    replaced.put(module, Passage(layer.in_features))
    return module, replaced


def _end(module: nn.Module) -> nn.Module:
    """The last layer of a Sequential; of other modules the last Linear, which may be their last layer."""
    while isinstance(module, nn.Sequential) and len(module):
        module = module[-1]
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    return linear[-1] if linear else module


@torch.no_grad()
def trial(
    trunk: nn.Module, name: str, dim: int, arguments: tuple[tuple[Any, ...], dict[str, Any]], output: Key
) -> tuple[Key, Tensor]:
    """Pass one sample through a trunk; returns where its output holds the features, and the features.

    The trunk must return what the passage in place of the layer `name` passes on: alone, in a tuple or in a dict. If
    that is a sequence, it may return one of its positions.
    """
    copied, kind = cloned(trunk).eval(), type(trunk).__name__
    passages = [part for part in copied.modules() if isinstance(part, Passage)]
    passed: list[tuple[Tensor, Tensor]] = []  # with a copy, in case it is changed later
    for passage in passages:
        passage.register_forward_hook(lambda _, __, features: passed.append((features, features.clone())))
    positional, named = arguments
    called: set[nn.Module] = set()
    with torch.enable_grad(), register_module_forward_pre_hook(lambda part, _: called.add(part)):
        returned = _items(copied(*positional, **named))
    if called & set(trunk.modules()) or _uses(trunk, returned.values()):
        raise HeadError(
            f"{kind} holds a function that refers to the module itself, such as a lambda, so a copy of it would still "
            "use the original. Make it a method."
        )
    found = {key: value for key, value in returned.items() if not passages or (passed and _same(value, *passed[-1]))}
    if output is not None and None in returned:
        raise HeadError(f"{kind} returns one tensor, not several by name or number. Leave out output=...")
    if output is not None and output not in returned:
        raise HeadError(str(errors.unknown(f"output of this {kind}", output, map(str, returned))))
    if passages and not passed:
        raise HeadError(
            f"{kind} does not use its layer '{name}', which the head has replaced. Name the layer that classifies: "
            "Learner(model, head='...')."
        )
    if not found:
        raise HeadError(
            f"{kind} does not return what its layer '{name}' passes on, so the head cannot take this layer's place. If "
            "a softmax or the like follows it, remove that. If another layer classifies, name it: Learner(model, "
            "head='...')."
        )
    fitting = [key for key, value in found.items() if value.shape[1:] == (dim,)] or list(found)
    key = fitting[0] if output is None else output
    if key not in found:
        raise HeadError(f"The output '{output}' of {kind} is not what its layer '{name}' passes on.")
    if not _same_in_training(copied, arguments, key, passed):
        raise HeadError(f"In training, {kind} returns something else before its logits. Make it return them first.")
    return key, found[key].detach()


def _uses(module: nn.Module, values: Iterable[Tensor]) -> bool:
    """Whether values were computed from the parameters of a module."""
    live = [parameter for parameter in module.parameters() if parameter.requires_grad]
    roots = [value for value in values if value.requires_grad]
    if not live or not roots:
        return False
    found = torch.autograd.grad(roots, live, [torch.ones_like(root) for root in roots], allow_unused=True)
    return any(gradient is not None for gradient in found)


@torch.no_grad()
def works(trunk: nn.Module, replaced: Replaced, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Whether a module processes a sample with its own layer in place."""
    if isinstance(trunk, Passage):
        return False
    whole = cloned(trunk).eval()
    replaced.put(whole, replaced.layer)
    positional, named = arguments
    try:
        whole(*positional, **named)
    except Exception:
        return False
    return True


def _same_in_training(copied: nn.Module, arguments: Any, key: Key, passed: list[tuple[Tensor, Tensor]]) -> bool:
    """Whether a copy returns the features in the same place in training mode, where it may return more."""
    positional, named = (
        [torch.cat([x, x]) for x in arguments[0]],
        {n: torch.cat([x, x]) for n, x in arguments[1].items()},
    )
    passed.clear()
    try:
        with seeded(0, "trial"):
            value = picked(copied.train()(*positional, **named), key)
    except Exception as error:  # some modules cannot take two equal samples; a step will tell
        if "view size is not compatible" in str(error):  # with one sample it may be
            raise
        return True
    return not passed or _same(value, *passed[-1])


def picked(returned: Any, key: Key) -> Tensor:
    """The features in a trunk's output, which may hold more in one mode than in the other."""
    if isinstance(returned, Tensor):
        return returned
    found = _items(returned)
    return found[key] if key in found else next(iter(found.values()))


def _items(returned: Any) -> dict[Key, Tensor]:
    if isinstance(returned, Tensor):
        return {None: returned}
    if isinstance(returned, Mapping):
        items: Any = returned.items()
    elif hasattr(returned, "_asdict"):  # a named tuple
        items = returned._asdict().items()
    else:
        items = vars(returned).items() if is_dataclass(returned) else enumerate(returned)
    return {key: value for key, value in items if isinstance(value, Tensor)}


def _same(value: Tensor, passed: Tensor, before: Tensor) -> bool:
    """Whether a returned tensor is the one that was passed, unchanged, in another type, or one of its positions."""
    if value.shape == passed.shape and (value.data_ptr() == passed.data_ptr() or value.dtype != passed.dtype):
        return torch.equal(value, before.to(value.dtype))
    if passed.ndim < 3 or value.shape[1:] != passed.shape[-1:]:
        return False
    return bool((before.flatten(1, -2) == value.unsqueeze(1)).all(2).any())
