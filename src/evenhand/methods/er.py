"""ER: experience replay.

Learn the batch of the stream together with a few samples drawn from a small memory of the past:

    L = E_{B}[l(p(x), y)] + E_{B_M}[l(p(x), y)]                                        (Eq. 3)

Every other method is "ER, but ...": this file holds the seven parts that they start from.

Deviations
----------
1. Eq. 3 takes one expectation over the union of B and B_M; here, as in the methods' own code and in Eq. 10, L is the
   sum of the two means.

Cost: 3 units (forward and backward) for each of 10 + 10 samples, 60 in all, which is what C_D = 1 means.

Rolnick et al., Experience Replay for Continual Learning, NeurIPS 2019.
"""

import torch
from torch import Tensor

from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.memory import Memory
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.scoring import DOT


@part("evenhand.methods.er.Uniform")
class Uniform:
    """Draw from the whole memory, each sample equally likely, without replacement."""

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        return learner.recall(learner.memory.sample(learner.replay, learner.generators["retrieval"]))


@part("evenhand.methods.er.CrossEntropy")
class CrossEntropy:
    """The mean cross-entropy of the batch and that of the replayed samples, each on the logits of its phase."""

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        return Losses(
            learning=learner.expect("learn", h, batch.cross_entropy),
            replaying=learner.expect("replay", past, replay.cross_entropy) if replay else None,
        )


@part("evenhand.methods.er.Descend")
class Descend:
    """One optimizer step down the gradient of L_c + L_p."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        if losses.total is not None:
            learner.descend(losses.total)


@part("evenhand.methods.er.Reservoir")
class Reservoir:
    """Keep every sample of the stream with equal probability (algorithm R).

    The memory is filled first; then sample number n, counting from 1, replaces slot j = randint(0, n) if j < |M|. After
    an erasure, new samples first make up for the erased ones and for those like them that had not been kept, each
    equally likely (Gemulla et al., VLDB 2006), so that the probabilities stay equal.
    """

    def __call__(self, learner: Learner, batch: Batch) -> None:
        memory = learner.memory
        draws = torch.rand(len(batch), generator=learner.generators["storage"], dtype=torch.float64)
        kept: dict[int, int] = {}  # slot -> sample; a later sample of the batch may replace an earlier one
        for i, u in enumerate(draws.tolist()):
            slot = replacing(memory, u) if memory.holes + memory.missed else reservoir(memory, u)
            if slot < memory.size:
                kept[slot] = i
        memory.write(torch.tensor(list(kept)), batch[list(kept.values())])


def reservoir(memory: Memory, u: float) -> int:
    """The slot of the next sample of the stream; |M| or more if it is not kept."""
    memory.offered += 1
    return memory.offered - 1 if memory.offered <= memory.size else int(u * memory.offered)


def replacing(memory: Memory, u: float) -> int:
    """The slot of the next sample after an erasure: a hole with probability holes / (holes + missed), or none."""
    if u * (memory.holes + memory.missed) >= memory.holes:
        memory.missed -= 1
        return memory.size
    memory.holes -= 1
    return min(memory.offered, memory.size) - memory.holes - 1


@part("evenhand.methods.er.Argmax")
class Argmax:
    """The logits in the form that the scoring uses for tests; the largest one is the prediction."""

    def __call__(self, learner: Learner, x: Tensor) -> Tensor:
        scoring = learner.method.scoring
        return learner.test_copy().logits(learner.test_features(x), scoring.test, scoring.couple)


@part("evenhand.methods.er.Latest")
class Latest:
    """The weights as the last step left them."""

    def __call__(self, learner: Learner) -> Network:
        return learner.network


@register(cost=1)
def er() -> Method:
    """Experience replay: learn the batch together with a random draw from the memory."""
    return Method(
        retrieval=Uniform(),
        objective=CrossEntropy(),
        scoring=DOT,
        update=Descend(),
        storage=Reservoir(),
        prediction=Argmax(),
        weights=Latest(),
    )
