"""MIR: maximally interfered retrieval.

ER, but the samples that the coming update would hurt most are replayed: of some random candidates, those whose loss
rises most in a virtual step on the batch of the stream:

    theta_v = theta - lambda grad L_c(B)
    s(x)    = l(f_{theta_v}(x), y) - l(f_theta(x), y)

Deviations
----------
1. The virtual step learns the views that the real one will learn; candidates are scored by their raw view.
2. The gradient of the stream is computed again in the real step, where a joint pass normalises B and B_M together.

Cost: 60 for the step, 30 for the virtual one, 50 + 50 to score the candidates before and after: 190 against ER's 60.

Aljundi et al., Online Continual Learning with Maximally Interfered Retrieval, NeurIPS 2019.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Batch
from evenhand.core.gradients import virtual_step
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.sizes import Sizes
from evenhand.methods.er import er


@part("evenhand.methods.mir.Interfered")
class MostInterfered:
    """Of some random candidates, take those whose score rises most in a virtual step."""

    candidates: int = 50

    def __post_init__(self) -> None:
        errors.whole("The 'candidates' parameter of mir", self.candidates, 1)

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        slots = learner.memory.sample(max(self.candidates, learner.replay), learner.generators["retrieval"])
        if len(slots) <= learner.replay:
            return learner.recall(slots)
        candidates = learner.memory.read(slots)
        with learner.scratch_copy():
            before = self.score(learner, candidates)
            virtual_step(learner, batch)
            after = self.score(learner, candidates)
        return learner.recall(slots[(after - before).topk(learner.replay).indices.cpu()])

    @torch.no_grad()
    def score(self, learner: Learner, candidates: Batch) -> Tensor:
        """The loss of each candidate, by the logits that replaying uses."""
        [h] = learner.features(candidates)
        return learner.expect("replay", h, candidates.each_cross_entropy)


def cost(sizes: Sizes, candidates: int) -> float:
    """ER's units; with more candidates than replays, also a virtual step and two passes of the candidates."""
    return sizes.er + (sizes.learned(sizes.batch) + 2 * candidates) * (candidates > sizes.replay)


@register(cost=cost)
def mir(candidates: int = 50) -> Method:
    """Maximally interfered retrieval: replay what the coming update would hurt most."""
    return er().but(retrieval=MostInterfered(candidates))
