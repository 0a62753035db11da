"""Cloning: copy any module, and update the copy later."""

import copy
from collections import OrderedDict
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def cloned(module: M, memo: dict[int, Any] | None = None) -> M:
    """A copy of a module with its own tensors.

    Unlike `copy.deepcopy` it also copies modules that hold activations, locks or weights computed from others: tensors
    are detached, and what cannot be copied is shared.
    """
    memo = {} if memo is None else memo
    if id(module) not in memo and isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule):
        with torch.no_grad():  # otherwise its parameters would keep a graph
            memo[id(module)] = copy.deepcopy(module, memo)
        for old, new in zip(tensors(module), tensors(memo[id(module)]), strict=True):
            memo[id(old)] = new.requires_grad_(old.requires_grad)  # TorchScript notes neither
    if id(module) not in memo:
        memo[id(module)] = made = module.__new__(type(module))
        made.__dict__.update({name: _cloned(value, memo) for name, value in module.__dict__.items()})
    return memo[id(module)]


def _cloned(value: Any, memo: dict[int, Any]) -> Any:
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, nn.Module):
        return cloned(value, memo)
    if isinstance(value, Tensor):
        tensor = value.detach().clone()
        memo[id(value)] = nn.Parameter(tensor, value.requires_grad) if isinstance(value, nn.Parameter) else tensor
        return memo[id(value)]
    if type(value) in (dict, OrderedDict):
        memo[id(value)] = made = type(value)()  # before it is filled: parts may share it, and it may hold itself
        made.update((key, _cloned(item, memo)) for key, item in value.items())
        return made
    if type(value) is list:
        memo[id(value)] = made = []
        made.extend(_cloned(item, memo) for item in value)
        return made
    if type(value) is tuple:
        return tuple(_cloned(item, memo) for item in value)
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a lock, a file, a socket
        return value


def fits(live: Tensor | None, other: Tensor) -> bool:
    """Whether a tensor can take the values of another one."""
    return live is not None and live.shape == other.shape and live.dtype == other.dtype


def tensors(module: nn.Module) -> list[Tensor]:
    """All parameters and buffers, in the order of the modules; tied ones are repeated."""
    found = [tensor for part in module.modules() for tensor in (*part._parameters.values(), *part._buffers.values())]
    return [tensor for tensor in found if tensor is not None]


@torch.no_grad()
def refresh(copied: nn.Module, module: nn.Module) -> bool:
    """Update a copy to the module's current values; False if their tensors no longer match."""
    old, new = tensors(copied), tensors(module)
    if len(old) != len(new) or not all(map(fits, old, new)):
        return False
    torch._foreach_copy_(old, new)
    carry_extra_state(module, copied)
    return True


def carry_extra_state(module: nn.Module, copied: nn.Module) -> None:
    """Give a copy what the parts of a module return from `get_extra_state`."""
    for name, part in module.named_modules():
        if type(part).get_extra_state is not nn.Module.get_extra_state:
            copied.get_submodule(name).set_extra_state(copy.deepcopy(part.get_extra_state()))
