"""SS-IL: separated softmax for incremental learning.

ER, but new and old classes never share a softmax, and a teacher from the last boundary preserves the old ones:

    L_c = E_{B}[l(p_{new}(x), y)]                    softmax over the classes of the current stage
    L_p = E_{R}[l(p_{old}(x), y)]                    softmax over the classes before it; R has only those
        + E_{R}[sum_t KL(p'_t(x) || p_t(x))]         stage by stage, at temperature 2, p' by the teacher

Deviations
----------
1. Its authors distil on B as well; here only on R. `distil=False` leaves it out.
2. A class of an earlier stage that returns in B joins the softmax of L_c for that batch.

Cost: the teacher's forward pass on 10 samples, 70 against ER's 60. Needs to know where stages end.

Ahn et al., SS-IL: Separated Softmax for Incremental Learning, ICCV 2021.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import er
from evenhand.methods.er_ace import only

TEMPERATURE = 2.0
TEACHER = "ss_il.teacher"  # the network at the last boundary
STAGES = "ss_il.stages"  # how many classes there were at each boundary


@part("evenhand.methods.ss_il.EarlierStages")
class EarlierStages:
    """Draw at random from the classes before the current stage."""

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        if not len(learner.memory):
            return None
        classes = learner.memory.columns["y"][: len(learner.memory)]
        earlier = (classes < classes_before(learner)).nonzero().flatten().cpu()
        order = torch.randperm(len(earlier), generator=learner.generators["retrieval"])
        return learner.recall(earlier[order[: learner.replay]])


@part("evenhand.methods.ss_il.Separated")
class SeparatedSoftmax:
    """Cross-entropy of new classes among new, of old among old, and distillation stage by stage."""

    distil: bool = True

    def __post_init__(self) -> None:
        errors.truth("The 'distil' parameter of ss_il", self.distil)

    def boundary(self, learner: Learner) -> None:
        learner.kept[STAGES] = [*learner.kept.get(STAGES, []), len(learner.labels)]
        if self.distil:
            learner.kept[TEACHER] = learner.network

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        before = classes_before(learner)
        new = torch.arange(before, len(learner.labels), device=h.device)
        old = torch.arange(before, device=h.device)

        def among_new(logits: Tensor) -> Tensor:
            return batch.cross_entropy(only(logits, torch.cat([new, batch.y])))

        learning, replaying = learner.expect("learn", h, among_new), None
        if replay:
            past_batch, among = replay, torch.cat([old, replay.y])
            replaying = learner.expect("replay", past, lambda logits: past_batch.cross_entropy(only(logits, among)))
            if self.distil and TEACHER in learner.kept:
                [taught] = learner.kept[TEACHER](replay.inputs)
                replaying = replaying + distillation(learner.network.logits(past), taught, learner.kept[STAGES])
        return Losses(learning, replaying)


def classes_before(learner: Learner) -> int:
    """How many classes there were before the current stage, whose own rows come after them."""
    return learner.kept.get(STAGES, [0])[-1]


def distillation(logits: Tensor, taught: Tensor, stages: list[int]) -> Tensor:
    """The sum over stages of KL(teacher || student), each over the stage's own classes, averaged over samples."""
    total = logits.new_zeros(())
    for low, high in zip([0, *stages[:-1]], stages, strict=True):
        if high > low:
            student = F.log_softmax(logits[:, low:high] / TEMPERATURE, dim=1)
            teacher = F.log_softmax(taught[:, low:high] / TEMPERATURE, dim=1)
            total = total + F.kl_div(student, teacher, reduction="batchmean", log_target=True)
    return total


@register(cost=lambda sizes, distil: sizes.er + distil * sizes.views * sizes.replay)
def ss_il(distil: bool = True) -> Method:
    """Separated softmax: new and old classes never share a softmax."""
    return er().but(retrieval=EarlierStages(), objective=SeparatedSoftmax(distil))
