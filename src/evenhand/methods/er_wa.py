"""ER-WA: weight aligning.

ER, but the weights of the head stay non-negative, and at the end of a stage those of its new classes are scaled to the
norm of the old ones, before the test:

    W <- max(W, 0)                                   after every step
    w_new <- w_new mean|w_old| / mean|w_new|         after every stage

Deviations
----------
1. Its own paper trains with distillation, which `distil=True` adds: the network of the last boundary teaches the old
   classes on B and on R, at temperature 2 and on dot logits, also under `+uer`. Each mean of ER becomes

       (1 - s) E[l(p(x), y)] + s E[KL(p'(x) || p(x))],   s = old classes / classes seen so far
2. Later stages continue from the aligned weights, and the teacher has them; with `persist=False` only the test does.
3. The UER paper does not mention the non-negative weights. Its own paper has them, so that the norm of a class reflects
   the size of its logits; `clip=False` leaves them out.

Cost: that of ER, C_D = 1; with distillation a teacher's forward pass on 20 samples, 80 against ER's 60. Needs to know
where stages end.

Zhao et al., Maintaining Discrimination and Fairness in Class Incremental Learning, CVPR 2020.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.cloning import cloned
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.scoring import Phase
from evenhand.methods.er import CrossEntropy, Descend, er
from evenhand.methods.ss_il import distillation

STAGES = "er_wa.stages"  # how many classes there were at each boundary
TEACHER = "er_wa.teacher"  # the network at the last boundary, aligned


@part("evenhand.methods.er_wa.Aligned")
class ArgmaxAligned:
    """Score as ER does, with weights that are aligned when a stage ends."""

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
    norms = network.head.weight.norm(dim=1)
    if 0 < old < new and norms[old:new].any():  # else all of them were clipped to 0
        network.head.weight[old:new] *= norms[:old].mean() / norms[old:new].mean()
    return network


@part("evenhand.methods.er_wa.AlignedTeacher")
class ArgmaxAlignedTeacher(ArgmaxAligned):
    """The same; the network at the end of a stage becomes the teacher of the next."""

    def boundary(self, learner: Learner) -> None:
        ArgmaxAligned.boundary(self, learner)
        learner.kept[TEACHER] = learner.network


@part("evenhand.methods.er_wa.Distilled")
class DistilledCrossEntropy(CrossEntropy):
    """The cross-entropy of ER, which gives way to the teacher as the share of old classes grows."""

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        if not learner.kept.get(STAGES, [0])[-1]:
            return CrossEntropy.__call__(self, learner, batch, replay)
        h, past = learner.features(batch, replay)
        return Losses(
            learning=_distilled(learner, "learn", batch, h),
            replaying=_distilled(learner, "replay", replay, past) if replay else None,
        )


def _distilled(learner: Learner, phase: Phase, batch: Batch, h: Tensor) -> Tensor:
    old = learner.kept[STAGES][-1]
    share = old / len(learner.labels)
    [taught] = learner.kept[TEACHER](batch.inputs)
    kept = distillation(learner.network.logits(h), taught, [old])
    return (1 - share) * learner.expect(phase, h, batch.cross_entropy) + share * kept


@part("evenhand.methods.er_wa.DescendClipped")
class DescendClipped(Descend):
    """One optimizer step, after which negative weights of the head are set to 0."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        Descend.__call__(self, learner, losses)
        learner.network.head.weight.data.clamp_(min=0)


@register(cost=lambda sizes, distil: sizes.er * (4 / 3 if distil else 1))
def er_wa(persist: bool = True, clip: bool = True, distil: bool = False) -> Method:
    """Weight aligning: at the end of a stage, scale its classes to the norm of the old ones."""
    method = er()
    if errors.truth("The 'clip' parameter of er_wa", clip):
        method = method.but(update=DescendClipped())
    if errors.truth("The 'distil' parameter of er_wa", distil):
        return method.but(objective=DistilledCrossEntropy(), prediction=ArgmaxAlignedTeacher(persist))
    return method.but(prediction=ArgmaxAligned(persist))
