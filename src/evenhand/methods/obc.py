"""OBC: online bias correction.

ER, but the tested head learns from the memory alone. ER's step trains the features with an auxiliary head; then one
more memory batch updates the tested head, which thus never picks up the bias of the stream:

    theta, W', b' <- theta, W', b' - lambda grad(L_c + L_p)                       the step of ER, by the auxiliary head
    W, b <- W, b - lambda grad_{W, b} E_{B_M'}[l(p(x), y)]                        features detached

Deviations
----------
1. Its code is not available. Public summaries read its advice to optimise the output layer separately from the layers
   before it as two heads. `apart=0` is our first reading, one head that both steps update; with `separate=True` as
   well, the first step is undone in that head.
2. The second batch has 10 samples, the size of a replay, since the UER paper counts 1.5 times the cost of ER; others
   use 50 (`apart=50`).
3. The features of the second batch use batch statistics and leave the running statistics alone.
4. Without samples in the memory (`memory=0`, or the order iid++) the tested head learns nothing.

Cost: 10 more samples forward, 70 against ER's 60 (the UER paper counts 1.5).

Chrysakis and Moens, Online Bias Correction for Task-Free Continual Learning, ICLR 2023.
"""

import copy

import torch
from torch import nn

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import DualLinear, Network
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import CrossEntropy, Descend, er


@part("evenhand.methods.obc.Corrected")
class HeadCorrection(Descend):
    """A step of ER, then one of the head alone on another memory batch."""

    size = 0  # that of a replay

    def __call__(self, learner: Learner, losses: Losses) -> None:
        Descend.__call__(self, learner, losses)
        self.correct(learner)

    def correct(self, learner: Learner) -> None:
        """Update the head with one more memory batch."""
        second = learner.recall(learner.memory.sample(self.size or learner.replay, learner.generators["retrieval"]))
        if second:
            with learner.scratch_copy(), torch.no_grad():
                [h] = learner.features(second)
            learner.descend(learner.expect("replay", h, second.cross_entropy), learner.network.head)


@part("evenhand.methods.obc.Separated")
class SeparateHeadCorrection(HeadCorrection):
    """A step of ER that leaves the head as it was, then one of the head alone."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        head = learner.network.head
        before = copy.deepcopy(head.state_dict())
        Descend.__call__(self, learner, losses)
        if len(learner.memory):
            head.load_state_dict(before)
        self.correct(learner)


@part("evenhand.methods.obc.Makeshift")
class AuxiliaryHead(CrossEntropy):
    """The cross-entropy of an auxiliary head, which trains the features and is never tested."""

    def modules(self, network: Network) -> dict[str, nn.Module]:
        return {"makeshift": DualLinear(network.head.dim, gamma=network.head.gamma)}

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        network, auxiliary = learner.network, learner.network.extra["makeshift"]
        assert isinstance(auxiliary, DualLinear)
        tested, network.head = network.head, auxiliary
        try:
            return CrossEntropy.__call__(self, learner, batch, replay)
        finally:
            network.head = tested


@part("evenhand.methods.obc.Apart")
class SizedHeadCorrection(HeadCorrection):
    """A step of ER, then one of the head alone on a batch of a given size."""

    size: int

    def __post_init__(self) -> None:
        errors.whole("The 'apart' parameter of obc", self.size, 0)


@register(cost=lambda sizes, apart: sizes.er + sizes.views * (apart or sizes.replay))
def obc(separate: bool = False, apart: int = 10) -> Method:
    """Online bias correction: one more memory batch a step updates only the tested head (the UER paper counts 1.5)."""
    separate = errors.truth("The 'separate' parameter of obc", separate)
    errors.whole("The 'apart' parameter of obc", apart, 0)
    if separate and apart:
        raise errors.wrong("The 'apart' parameter of obc", "be 0 with separate=True, which has one head", apart)
    if apart:
        return er().but(objective=AuxiliaryHead(), update=SizedHeadCorrection(apart))
    return er().but(update=SeparateHeadCorrection() if separate else HeadCorrection())
