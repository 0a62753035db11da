"""DER++: dark experience replay.

ER, but the logits of a sample are stored with it, and its later logits are kept close to them:

    L = E_{B}[l(p(x), y)] + a E_{R1}[|z(x) - z_stored|^2] + b E_{R2}[l(p(x), y)]

Deviations
----------
1. The squared distance is the mean over the entries that exist in both: the classes seen when the sample was stored.
2. R1 and R2 are the halves of one draw of 2R, so they have no sample in common.
3. It stores the dot logits of the raw view from the forward pass of the stream, also under `+uer`; with
   `views="replace"`, where the network never sees the raw view, those of the augmented one.
4. a and b are its authors' values. In public code by the first author of the UER paper one draw of R serves as both R1
   and R2, and b = 1: `derpp(b=1.0, shared=True)`, which is the row of that paper's tables here.

Cost: 10 samples more than ER, C_D = 1.5; with a shared draw, that of ER.

Buzzega et al., Dark Experience for General Continual Learning: a Strong, Simple Baseline, NeurIPS 2020.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import er

Replayed = tuple[Batch | None, Tensor]  # samples with their features


@part("evenhand.methods.derpp.UniformTwice")
class UniformTwice:
    """Draw two replay batches at once."""

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        return learner.recall(learner.memory.sample(2 * learner.replay, learner.generators["retrieval"]))


@part("evenhand.methods.derpp.Dark")
class DarkExperience:
    """Cross-entropy of the batch and one half of the replay, distance to the stored logits of the other half."""

    a: float = 0.1
    b: float = 0.5

    def __post_init__(self) -> None:
        errors.number("The 'a' parameter of derpp", self.a, 0)
        errors.number("The 'b' parameter of derpp", self.b, 0)

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, (first, h_first), (second, h_second) = self.passed(learner, batch, replay)
        terms = []
        if first:
            terms.append(self.a * distance(learner.network.logits(h_first), first.extra["logits"]))
        if second:
            terms.append(self.b * learner.expect("replay", h_second, second.cross_entropy))
        return Losses(
            learning=learner.expect("learn", h, batch.cross_entropy),
            replaying=torch.stack(terms).sum() if terms else None,
            keep={"logits": learner.network.logits(h[: len(batch)])[:, : len(learner.labels)].detach()},
        )

    def passed(self, learner: Learner, batch: Batch, replay: Batch | None) -> tuple[Tensor, Replayed, Replayed]:
        """The features of the batch, and R1 and R2 with theirs."""
        first, second = None, replay
        if replay and "logits" in replay.extra:  # a second batch of the stream has none
            first, second = replay.split((len(replay) + 1) // 2)
        h, h_first, h_second = learner.features(batch, first, second)
        return h, (first, h_first), (second, h_second)


@part("evenhand.methods.derpp.DarkShared")
class SharedDarkExperience(DarkExperience):
    """The same with one draw that serves as both R1 and R2."""

    def passed(self, learner: Learner, batch: Batch, replay: Batch | None) -> tuple[Tensor, Replayed, Replayed]:
        """The features of the batch, and the replay with its features, twice."""
        h, past = learner.features(batch, replay)
        return h, (replay if replay and "logits" in replay.extra else None, past), (replay, past)


def distance(logits: Tensor, stored: Tensor) -> Tensor:
    """The mean squared distance over the entries that were stored; the others are NaN."""
    stored = stored.repeat(len(logits) // len(stored), 1)
    known = ~stored.isnan()
    gaps = (logits[:, : stored.shape[1]] - stored.nan_to_num()) * known
    return gaps.square().sum() / known.sum()


@register(cost=lambda sizes, shared: sizes.er + (not shared) * sizes.learned(sizes.replay))
def derpp(a: float = 0.1, b: float = 0.5, shared: bool = False) -> Method:
    """Dark experience replay: keep the logits of memories close to what they were."""
    if errors.truth("The 'shared' parameter of derpp", shared):
        return er().but(objective=SharedDarkExperience(a, b))
    return er().but(retrieval=UniformTwice(), objective=DarkExperience(a, b))
