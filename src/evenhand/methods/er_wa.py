"""ER-WA: weight aligning.

ER, but at the end of a stage the weights of its new classes are scaled to the norm of the old ones, before the test:

    w_new <- w_new mean|w_old| / mean|w_new|

Deviations
----------
1. The distillation of its own paper is left out, as the UER paper leaves it out.
2. Later stages continue from the aligned weights; with `persist=False` only the test uses them.
3. According to others' code, its own paper also keeps the weights of the head from becoming negative, so that their
   norms reflect the size of the logits; the UER paper does not mention it. `clip=True` clips them after each step.

Cost: that of ER, C_D = 1. Needs to know where stages end.

Zhao et al., Maintaining Discrimination and Fairness in Class Incremental Learning, CVPR 2020.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Losses
from evenhand.core.cloning import cloned
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import Descend, er

STAGES = "er_wa.stages"  # how many classes there were at each boundary


@part("evenhand.methods.er_wa.Aligned")
class ArgmaxAligned:
    """Score as ER does, by weights that are aligned when a stage ends."""

    persist: bool = True

    def __post_init__(self) -> None:
        errors.truth("The 'persist' parameter of er_wa", self.persist)

    def boundary(self, learner: Learner) -> None:
        learner.kept[STAGES] = [*learner.kept.get(STAGES, []), len(learner.labels)]
        if self.persist:
            for network in learner.ways.networks(learner):
                align(network, learner.kept[STAGES])

    def __call__(self, learner: Learner, x: Tensor) -> Tensor:
        network, scoring = learner.test_copy(), learner.method.scoring
        if not self.persist:
            stages = learner.kept.get(STAGES, [])
            network = learner.cached("er_wa.aligned", lambda: align(cloned(network), stages))
        return network.logits(learner.test_features(x), scoring.test, scoring.couple)


@torch.no_grad()
def align(network: Network, stages: list[int]) -> Network:
    """Scale the weights of the last stage's classes; `stages` is the number of classes at each boundary."""
    old = stages[-2] if len(stages) > 1 else 0
    new = stages[-1] if stages else 0
    if 0 < old < new:
        norms = network.head.weight.norm(dim=1)
        network.head.weight[old:new] *= norms[:old].mean() / norms[old:new].mean()
    return network


@part("evenhand.methods.er_wa.DescendClipped")
class DescendClipped(Descend):
    """One step of the optimizer, after which no weight of the head is negative."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        Descend.__call__(self, learner, losses)
        learner.network.head.weight.data.clamp_(min=0)


@register(cost=1)
def er_wa(persist: bool = True, clip: bool = False) -> Method:
    """Weight aligning: at a stage's end its classes get the norm of the old ones."""
    aligned = er().but(prediction=ArgmaxAligned(persist))
    return aligned.but(update=DescendClipped()) if errors.truth("The 'clip' parameter of er_wa", clip) else aligned
