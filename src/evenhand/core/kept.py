"""What the parts of a method keep between steps, by name: tensors, copies of the network and JSON values."""

import copy
import json
from collections import UserDict
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from evenhand import errors
from evenhand.core.cloning import cloned, refresh
from evenhand.core.network import Network


class Kept(UserDict[str, Any]):
    """A dict that is saved and restored with its learner, bit for bit.

    Assigning stores a copy: of a tensor, of a `Network` (in evaluation mode and without gradients), or of a value that
    JSON returns unchanged.

    >>> import torch
    >>> kept = Kept()
    >>> kept["mine.centre"] = torch.zeros(3)
    >>> kept["mine.counts"] = {"steps": 7}
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self.data[name] = value.detach().clone()
        elif isinstance(value, Network):
            copied = self.data[name] = cloned(value).eval().requires_grad_(False)
            if any(isinstance(part, nn.MultiheadAttention) for part in copied.modules()):
                copied.in_precision("fp32")  # in evaluation mode, attention fails in bfloat16 on a CPU
        else:
            self.data[name] = through_json(name, value)

    def follow(self, other: "Kept") -> None:
        """Copy everything that another one holds, reusing the networks that are already here where they fit."""
        for name in self.keys() - other.keys():
            del self[name]
        for name, value in other.items():
            own = self.get(name)
            if not (isinstance(own, Network) and isinstance(value, Network) and refresh(own, value)):
                self[name] = value

    def fit(self, network: Network) -> None:
        """Tell all networks that were kept before the first samples what the learner's own knows of these."""
        for value in self.values():
            if isinstance(value, Network):
                value.columns, value.output, value.planar = network.columns, network.output, network.planar

    def facts(self) -> dict[str, Any]:
        """The JSON values, and the names of the networks."""
        values = {name: value for name, value in self.items() if not isinstance(value, Tensor | Network)}
        networks = [name for name, value in self.items() if isinstance(value, Network)]
        extra = {name: self[name].extra_state() for name in networks}
        return {"values": copy.deepcopy(values), "networks": networks, "extra": through_json("extra", extra)}

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors, and those of the networks."""
        state = {f"tensor/{name}": value for name, value in self.items() if isinstance(value, Tensor)}
        for name, value in self.items():
            if isinstance(value, Network):
                state |= {f"network/{name}/{key}": tensor for key, tensor in value.state().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor], facts: Mapping[str, Any], network: Network) -> None:
        """Load what `state_dict` and `facts` returned; `network` is the learner's own."""
        self.clear()
        self.update(facts["values"])
        for name in facts["networks"]:
            self[name] = network
            prefix = f"network/{name}/"
            own = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
            _load(self[name], own | facts.get("extra", {}).get(name, {}))
        for key, tensor in state.items():
            if key.startswith("tensor/"):
                self[key.removeprefix("tensor/")] = tensor.to(network.head.weight.device)


def through_json(name: str, value: Any) -> Any:
    """A copy of a value, by way of JSON; raises if JSON does not return it unchanged."""
    try:
        copied = json.loads(json.dumps(value))
    except (TypeError, ValueError):
        copied = ...
    if copied is ... or copied != value:
        must = "be a tensor, a Network, or a value that JSON returns unchanged, e.g. a list instead of a tuple"
        raise errors.wrong(f"The kept value '{name}'", must, value)
    return copied


def _load(network: Network, state: Mapping[str, Tensor]) -> None:
    """Load tensors that may have other shapes: a kept network has as many rows as there were classes then.

    A buffer of the learner's network may have been None then.
    """
    for path, tensor in network.state_dict(keep_vars=True).items():
        owner, _, name = path.rpartition(".")
        buffers = network.get_submodule(owner)._buffers
        if path not in state and name in buffers:
            buffers[name] = None
        elif path in state and isinstance(tensor, Tensor) and tensor.shape != state[path].shape:
            tensor.data = tensor.new_empty(state[path].shape)
    network.load_state(state)
