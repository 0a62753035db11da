"""ER-ACE: experience replay with asymmetric cross-entropy.

ER, but the batch of the stream is learned among its own classes only, so that new ones do not push the old ones away:

    L_c = E_{B}[l(p_{C(B)}(x), y)],   the softmax over the classes that occur in B
    L_p = E_{B_M}[l(p(x), y)],        the softmax over all classes seen

Deviations
----------
1. Its authors leave classes not seen yet in the softmax of L_c. A head that grows has no rows for them; where the
   softmax runs over all classes, they have rows and stay in.
2. Its authors use the cosine head with scale 10, the default here; `head="dot"` uses the dot product.

Cost: that of ER, C_D = 1.

Caccia et al., New Insights on Reducing Abrupt Representation Change in Online Continual Learning, ICLR 2022.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.scoring import COS, DOT
from evenhand.methods.er import er


@part("evenhand.methods.er_ace.Asymmetric")
class AsymmetricCrossEntropy:
    """Cross-entropy of the batch among its own classes, and of the replay among all."""

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        unseen = torch.arange(len(learner.labels), learner.network.rows, device=h.device)

        def among_its_own(logits: Tensor) -> Tensor:
            return batch.cross_entropy(only(logits, torch.cat([batch.y, unseen])))

        return Losses(
            learning=learner.expect("learn", h, among_its_own),
            replaying=learner.expect("replay", past, replay.cross_entropy) if replay else None,
        )


def only(logits: Tensor, classes: Tensor) -> Tensor:
    """The logits with only these classes in the softmax."""
    mask = torch.full((logits.shape[1],), -torch.inf, device=logits.device)
    return logits + mask.index_fill(0, classes, 0.0)


@register(cost=1, yields=("scoring",))
def er_ace(head: str = "cos") -> Method:
    """Asymmetric cross-entropy: the batch is learned among its own classes only."""
    errors.choice("The 'head' parameter of er_ace", head, ("cos", "dot"))
    return er().but(objective=AsymmetricCrossEntropy(), scoring=COS if head == "cos" else DOT)
