"""ER-ACE: experience replay with asymmetric cross-entropy.

ER, but the batch of the stream is learned among its own classes only, so that new ones do not push the old ones away:

    L_c = E_{B}[l(p_{C(B)}(x), y)],   the softmax over the classes that occur in B
    L_p = E_{B_M}[l(p(x), y)],        the softmax over all classes seen

Deviations
----------
1. The classes not yet seen, which its authors leave in the softmax of L_c, have no row in a head that grows. They do
   have one, and stay in, where the softmax runs over all classes.
2. Its authors use the cosine head with scale 10, the default here; `head="dot"` uses the dot product.

Cost: that of ER, C_D = 1.

Caccia et al., New Insights on Reducing Abrupt Representation Change in Online Continual Learning, ICLR 2022.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.batch import Batch, Losses
from evenhand.learner import Learner
from evenhand.method import Method
from evenhand.methods.er import er
from evenhand.parts import part
from evenhand.registry import register
from evenhand.scoring import COS, DOT


@part
class Asymmetric:
    """Cross-entropy of the batch among its own classes, and of the replay among all."""

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        unseen = torch.arange(learner.seen, learner.network.classes, device=h.device)

        def among_its_own(logits: Tensor) -> Tensor:
            return batch.cross_entropy(only(logits, torch.cat([batch.y, unseen])))

        return Losses(
            learning=learner.expect("learn", h, among_its_own),
            replaying=learner.expect("replay", past, replay.cross_entropy) if replay else None,
        )


def only(logits: Tensor, classes: Tensor) -> Tensor:
    """The logits with all but these classes out of the softmax."""
    mask = torch.full((logits.shape[1],), -torch.inf, device=logits.device)
    return logits + mask.index_fill(0, classes, 0.0)


@register(cost=1, yields=("scoring",))
def er_ace(head: str = "cos") -> Method:
    """Asymmetric cross-entropy: the batch is learned among its own classes only."""
    errors.choice("The 'head' parameter of er_ace", head, ("cos", "dot"))
    return er().but(objective=Asymmetric(), scoring=COS if head == "cos" else DOT)
