"""Copies of a network, for tests, predictions and trial steps that must leave the live one alone."""

import copy

import torch

from evenhand import backbones
from evenhand.core.network import Network


class Copies:
    """Copies of one network by name; each reuses the tensors of the last one as long as they fit."""

    def __init__(self) -> None:
        self._kept: dict[str, Network] = {}

    def take(self, name: str, network: Network) -> Network:
        """Copy the network as it is now."""
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
    return copied.in_precision("fp32").requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
