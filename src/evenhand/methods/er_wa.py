"""ER-WA: weight aligning.

ER, but at the end of a stage the weights of its new classes are scaled to the norm of the old ones, before the test:

    w_new <- w_new mean|w_old| / mean|w_new|

Deviations
----------
1. The distillation of its own paper is left out, as the UER paper leaves it out.
2. Later stages go on from the aligned weights; with `persist=False` only the test sees them.
3. By what others' code says of it, its own paper also keeps the weights of the head from being negative, so that their
   norms tell how large the logits are; the UER paper does not say whether it does. `clip=True` does so after each step.

Cost: that of ER, C_D = 1. Needs to know where stages end.

Zhao et al., Maintaining Discrimination and Fairness in Class Incremental Learning, CVPR 2020.
"""

import copy

import torch
from torch import Tensor

from evenhand import errors
from evenhand.batch import Losses
from evenhand.learner import Learner
from evenhand.method import Method
from evenhand.methods.er import Descend, er
from evenhand.network import Network
from evenhand.parts import part
from evenhand.registry import register


@part
class Aligned:
    """Score as ER does, by weights that are aligned when a stage ends."""

    persist: bool = True

    def __post_init__(self) -> None:
        errors.truth("The 'persist' parameter of er_wa", self.persist)

    def boundary(self, learner: Learner) -> None:
        if self.persist:
            align(learner.network, learner.stages)

    def __call__(self, learner: Learner, x: Tensor) -> Tensor:
        network, scoring = learner.snapshot(), learner.method.scoring
        if not self.persist:
            network = learner.answer("aligned", lambda: align(copy.deepcopy(network), learner.stages))
        return network.logits(network.features(x), scoring.test, scoring.couple)


@torch.no_grad()
def align(network: Network, stages: list[int]) -> Network:
    """Scale the weights of the last stage's classes; `stages` counts the classes at each boundary."""
    old = stages[-2] if len(stages) > 1 else 0
    new = stages[-1] if stages else 0
    if 0 < old < new:
        norms = network.head.weight.norm(dim=1)
        network.head.weight[old:new] *= norms[:old].mean() / norms[old:new].mean()
    return network


@part
class DescendClipped(Descend):
    """One step of the optimizer, after which no weight of the head is negative."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        Descend.__call__(self, learner, losses)
        learner.network.head.weight.data.clamp_(min=0)


@register(cost=1)
def er_wa(persist: bool = True, clip: bool = False) -> Method:
    """Weight aligning: at a stage's end its classes get the norm of the old ones."""
    aligned = er().but(prediction=Aligned(persist))
    return aligned.but(update=DescendClipped()) if errors.truth("The 'clip' parameter of er_wa", clip) else aligned
