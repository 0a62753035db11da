"""SS-IL: separated softmax for incremental learning.

ER, but new and old classes never meet in one softmax, and a teacher from the last boundary holds the old ones:

    L_c = E_{B}[l(p_{new}(x), y)]                    softmax over the classes of the current stage
    L_p = E_{R}[l(p_{old}(x), y)]                    softmax over the classes before it; R has only those
        + E_{R}[sum_t KL(p'_t(x) || p_t(x))]         stage by stage, at temperature 2, p' by the teacher

Deviations
----------
1. Its authors distil on B as well; here on R alone. `distil=False` leaves it out.
2. A class of an earlier stage that comes again in B joins the softmax of L_c for that batch.

Cost: the teacher's forward pass on 10 samples, 70 of ER's 60. Needs to know where stages end.

Ahn et al., SS-IL: Separated Softmax for Incremental Learning, ICCV 2021.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from evenhand import errors
from evenhand.batch import Batch, Losses
from evenhand.learner import Learner
from evenhand.method import Method
from evenhand.methods.er import er
from evenhand.methods.er_ace import only
from evenhand.parts import part
from evenhand.registry import register

TEMPERATURE = 2.0


@part
class EarlierStages:
    """Draw at random from the classes before the current stage."""

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        if not len(learner.memory):
            return None
        classes = learner.memory.columns["y"][: len(learner.memory)]
        earlier = (classes < learner.before).nonzero().flatten().cpu()
        order = torch.randperm(len(earlier), generator=learner.generators["retrieval"])
        return learner.recall(earlier[order[: learner.replay]])


@part
class Separated:
    """Cross-entropy of new classes among new, of old among old, and distillation stage by stage."""

    distil: bool = True

    def __post_init__(self) -> None:
        errors.truth("The 'distil' parameter of ss_il", self.distil)

    def boundary(self, learner: Learner) -> None:
        if self.distil:
            learner.teacher = copy.deepcopy(learner.network).eval().requires_grad_(False)

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        new = torch.arange(learner.before, learner.seen, device=h.device)
        old = torch.arange(learner.before, device=h.device)

        def among_new(logits: Tensor) -> Tensor:
            return batch.cross_entropy(only(logits, torch.cat([new, batch.y])))

        learning, replaying = learner.expect("learn", h, among_new), None
        if replay:
            seen = replay
            among = torch.cat([old, seen.y])
            replaying = learner.expect("replay", past, lambda logits: seen.cross_entropy(only(logits, among)))
            if self.distil and learner.teacher is not None:
                [taught] = learner.teacher(replay.inputs)
                replaying = replaying + distillation(learner.network.logits(past), taught, learner.stages)
        return Losses(learning, replaying)


def distillation(logits: Tensor, taught: Tensor, stages: list[int]) -> Tensor:
    """The sum over stages of KL(teacher || student), each over the stage's own classes, in the mean over samples."""
    total = logits.new_zeros(())
    for low, high in zip([0, *stages[:-1]], stages, strict=True):
        if high > low:
            student = F.log_softmax(logits[:, low:high] / TEMPERATURE, dim=1)
            teacher = F.log_softmax(taught[:, low:high] / TEMPERATURE, dim=1)
            total = total + F.kl_div(student, teacher, reduction="batchmean", log_target=True)
    return total


@register(cost=70 / 60)
def ss_il(distil: bool = True) -> Method:
    """Separated softmax: new and old classes never meet in one softmax."""
    return er().but(retrieval=EarlierStages(), objective=Separated(distil))
