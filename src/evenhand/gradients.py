"""Gradients that are not those of the step itself: virtual steps, and the gradients of single samples."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from evenhand.batch import Batch, unit
from evenhand.network import Network
from evenhand.scoring import Mix

if TYPE_CHECKING:
    from evenhand.learner import Learner


@contextmanager
def virtual_step(learner: "Learner", batch: Batch) -> Iterator[None]:
    """Inside, the learner has taken a step of SGD on the stream's batch alone; afterwards it has not.

    The step is that of the method's own objective on the views that will be learned. To be entered within
    `learner.trial()`, so that weights and running statistics are those of a copy.
    """
    parameters = list(learner.network.parameters())
    loss = learner.method.objective(learner, batch, None).learning
    if loss is not None:
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.sub_(gradient, alpha=learner.lr)
    yield


def sample_gradients(learner: "Learner", batch: Batch, mix: Mix) -> Tensor:
    """The gradient of each sample's cross-entropy over all parameters, in eval mode, (n, parameters)."""
    network, couple = learner.frozen(), learner.method.scoring.couple

    def loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(network, values, (x.unsqueeze(0), [form for form, _ in mix], couple))
        return _mixed(logits, y.unsqueeze(0), mix)

    found = vmap(grad(loss), in_dims=(None, 0, 0))(_parameters(network), unit(batch.x), batch.y)
    return torch.cat([gradient.flatten(1) for gradient in found.values()], dim=1)


def batch_gradient(learner: "Learner", batch: Batch, mix: Mix) -> Tensor:
    """The gradient of a batch's mean cross-entropy over all parameters, in eval mode, (parameters,)."""
    network, couple = learner.frozen(), learner.method.scoring.couple
    loss = _mixed(network(unit(batch.x), [form for form, _ in mix], couple), batch.y, mix)
    gradients = torch.autograd.grad(loss, list(_parameters(network, live=True).values()), materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in gradients])


def _mixed(logits: list[Tensor], y: Tensor, mix: Mix) -> Tensor:
    return torch.stack([w * F.cross_entropy(z, y) for z, (_, w) in zip(logits, mix, strict=True)]).sum()


def _parameters(network: Network, live: bool = False) -> dict[str, Tensor]:
    """The parameters that classify: all but those of further modules."""
    named = {name: p for name, p in network.named_parameters() if not name.startswith("extra.")}
    return dict(named) if live else {name: p.detach() for name, p in named.items()}
