"""Counted: a softmax over the classes of the step, each weighted by how often it occurs.

ER, but the softmax of both losses runs over the classes that occur in B and B_M together, weighted by their counts n_c:

    L = E_{B}[l_n(z(x), y)] + E_{B_M}[l_n(z(x), y)],   l_n(z, y) = -z_y + log sum_c n_c exp(z_c)

A class that is absent from the step is not pushed away, and one that fills the step is not pulled harder than others.
It is PCR's loss without its cosines: `counted+lucir` is PCR at another scale, `counted+uer` learns by the angle, and
replays by angle and norm.

Deviations
----------
1. PCR takes one mean over B and B_M; here L is the sum of the two means, as in ER.

Cost: that of ER, C_D = 1.

Lin et al., PCR: Proxy-based Contrastive Replay for Online Class-Incremental Continual Learning, CVPR 2023.
Ren et al., Balanced Meta-Softmax for Long-Tailed Visual Recognition, NeurIPS 2020.
"""

import torch

from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import er
from evenhand.methods.pcr import proxy_contrast


@part("evenhand.methods.counted.CountedCrossEntropy")
class CountedCrossEntropy:
    """The cross-entropy of batch and replay over the classes of both, weighted by their counts."""

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        among = torch.cat([batch.targets, replay.targets]) if replay else batch.targets
        return Losses(
            learning=learner.expect("learn", h, lambda z: proxy_contrast(z, batch.targets, among)),
            replaying=learner.expect("replay", past, lambda z: proxy_contrast(z, replay.targets, among))
            if replay
            else None,
        )


@register(cost=1)
def counted() -> Method:
    """A softmax over the classes of the step, each weighted by how often it occurs."""
    return er().but(objective=CountedCrossEntropy())
