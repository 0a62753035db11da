"""Copies of a network, for tests, predictions and trial steps that must leave the live one alone."""

from collections.abc import Hashable

from evenhand import backbones
from evenhand.core.cloning import carry_extra_state, cloned, refresh
from evenhand.core.network import Network


class Copies:
    """Copies of networks by name; each reuses the modules and tensors of the last one as long as they fit."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Network] = {}

    def take(self, name: Hashable, network: Network) -> Network:
        """Copy the network as it is now."""
        copied = self._kept.get(name)
        if copied is None or copied.planar != network.planar or not refresh(copied, network):
            copied = self._kept[name] = cloned(network)
        copied.columns, copied.output = network.columns, network.output
        return copied

    def fold(self, name: Hashable, network: Network) -> Network:
        """Copy the network for predictions, with batch normalisation folded into the convolutions."""
        copied = self._kept.get(name)
        if copied is None or copied.planar != network.planar or not backbones.refold(copied, network):
            copied = cloned(network).eval().in_precision("fp32").requires_grad_(False)
            backbones.fold(copied.trunk)
            self._kept[name] = copied.channels_last()
        carry_extra_state(network, copied)
        copied.columns, copied.output = network.columns, network.output
        return copied
