"""A learner's network as a plain module, for torch.export, ONNX, or a service that does not learn."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evenhand import errors
from evenhand.core import parts
from evenhand.core.cloning import cloned
from evenhand.core.network import Network
from evenhand.core.scoring import Scoring
from evenhand.core.ways import view_of
from evenhand.core.wrapping import picked

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

LINEAR = ("evenhand.methods.er.Argmax", "evenhand.methods.er_wa.Aligned", "evenhand.methods.er_wa.AlignedTeacher")


class Classifier(nn.Module):
    """Maps samples, as the learner observed them, to logits (n, labels)."""

    def __init__(self, network: Network, scoring: Scoring, labels: list[Any], bytes: bool) -> None:
        super().__init__()
        self.trunk, self.neck, self.head = network.trunk, network.neck, network.head
        self.labels, self._output, self._bytes = labels, network.output, bytes
        self._scoring, self._planar = scoring, network.planar

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        """The logits of samples (n, ...)."""
        if self._bytes:
            if inputs[0].is_floating_point():
                raise errors.wrong("Samples of this module", "be uint8, like those it learned from", "floats")
            inputs = (inputs[0].float() / 255,)
        inputs, named = tuple(map(self._typed, inputs)), {name: self._typed(x) for name, x in named.items()}
        h = picked(self.trunk(*inputs, **named), self._output).to(self.head.weight.dtype)
        couple, form = self._scoring.couple, self._scoring.test
        if self.neck is not None:
            h = torch.relu(self.neck(h, "dot" if couple == "head" else form))
        return self.head(h, "dot" if couple == "neck" else form)[:, : len(self.labels)]

    def _typed(self, x: Tensor) -> Tensor:
        x = x.contiguous() if self._planar else x
        return x.to(self.head.weight.dtype) if x.is_floating_point() else x


def exported(learner: "Learner", test: str) -> Classifier:
    """A module that predicts as the learner does now, with the method's own test or one of `tests`."""
    method = learner.ways.method(test)
    if parts.IDS.get(type(method.prediction)) not in LINEAR or not getattr(method.prediction, "persist", True):
        raise errors.InputError(
            f"{type(method.prediction).__name__} is not a layer of the network, so it has no module."
        )
    with learner.snapshots.asked(learner) as snapshot, torch.inference_mode(False):
        if snapshot.kind is None:
            raise errors.InputError("The learner has seen no samples yet, so there is nothing to export.")
        network = cloned(method.weights(view_of(learner, method, snapshot, {}))).eval().requires_grad_(False)
        return Classifier(network, method.scoring, list(snapshot.labels), snapshot.kind.dtype == "uint8").eval()
