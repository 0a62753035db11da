"""A-GEM: averaged gradient episodic memory.

ER, but the memory is not learned; it only vetoes. If the gradient of the stream would raise the memory's loss, its
component along the memory's gradient is removed:

    g <- g - (g . g_ref / g_ref . g_ref) g_ref        if g . g_ref < 0

Deviations
----------
1. Stream and memory always use separate passes, since each needs its own gradient.

Cost: two gradients of 10 samples each, as much as ER: C_D = 1.

Chaudhry et al., Efficient Lifelong Learning with A-GEM, ICLR 2019.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from evenhand.core.batch import Losses
from evenhand.core.gradients import trainable
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import Descend, er


@part("evenhand.methods.agem.Projected")
class DescendProjected(Descend):
    """Follow the stream's gradient, without the component that would raise the memory's loss."""

    passes = "separate"

    def __call__(self, learner: Learner, losses: Losses) -> None:
        if losses.learning is None or losses.replaying is None:
            Descend.__call__(self, learner, losses)
            return
        parameters = trainable(learner.network)
        stream, memory = (
            torch.autograd.grad(loss, parameters, retain_graph=loss is losses.learning, materialize_grads=True)
            for loss in (losses.learning, losses.replaying)
        )
        learner.follow(losses.learning, dict(zip(parameters, project(stream, memory), strict=True)))


def project(g: Sequence[Tensor], g_ref: Sequence[Tensor]) -> list[Tensor]:
    """Remove from g the component that opposes g_ref; both are lists over the parameters."""
    across = torch.stack([torch.sum(a * b) for a, b in zip(g, g_ref, strict=True)]).sum()
    along = torch.stack([torch.sum(b * b) for b in g_ref]).sum()
    # No branch, so that a GPU need not wait: where the two agree, nothing is removed.
    factor = torch.where(across < 0, across / along, torch.zeros_like(across))
    return [a - factor * b for a, b in zip(g, g_ref, strict=True)]


@register(cost=1, exempt={"learns": "it learns the stream alone; the paper finds it no better than FINE-TUNE"})
def agem() -> Method:
    """Averaged gradient episodic memory: the memory only keeps an update from raising its loss."""
    return er().but(update=DescendProjected())
