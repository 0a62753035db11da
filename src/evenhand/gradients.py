"""Gradients that are not those of the step itself: virtual steps, and the gradients of single samples."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from evenhand.batch import Batch
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


def group_gradients(learner: "Learner", x: Tensor, y: Tensor, mix: Mix) -> Tensor:
    """The gradient of the cross-entropy of each group of samples, in eval mode, over all parameters.

    Maps groups (g, n, ...) with classes (g, n) to (g, parameters); groups of one are single samples.
    """
    network, couple = learner.frozen(), learner.method.scoring.couple
    parameters = {name: p.detach() for name, p in network.named_parameters() if not name.startswith("extra.")}

    def loss(values: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        terms = [
            w * F.cross_entropy(functional_call(network, values, (inputs, form, couple)), targets) for form, w in mix
        ]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return torch.cat([gradient.flatten(1) for gradient in found.values()], dim=1)
