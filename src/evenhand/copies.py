"""Copies of a network: for tests, predictions and trials, which must leave the live one as it is."""

import copy

import torch

from evenhand import backbones
from evenhand.network import Network


class Copies:
    """Copies of one network by name, each taken into the tensors of the last one if they still fit."""

    def __init__(self) -> None:
        self._kept: dict[str, Network] = {}

    def take(self, name: str, network: Network) -> Network:
        """The network as it is now."""
        copied, live = self._kept.get(name), network.state_dict()
        old = copied.state_dict() if copied else {}
        if copied is None or any(old[key].shape != live[key].shape for key in live):
            copied = self._kept[name] = copy.deepcopy(network)
        else:
            copied.load_state_dict(live)
        return copied


def folded(network: Network) -> Network:
    """A copy that only predicts, with batch normalisation folded into the convolutions."""
    copied = copy.deepcopy(network).eval()
    backbones.fold(copied.trunk)
    return copied.requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
