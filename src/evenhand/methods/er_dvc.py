"""ER-DVC: not just selection, but exploration; dual view consistency.

ER, but both views of an image are learned, their predictions are kept in agreement, and the samples whose gradient the
coming update would increase most are replayed. For B and for B_M, with p and p_t the predictions of the two views
and p_q that of a small network Q(z, z_t) on both logits:

    L = CE(z) + CE(z_t) - 1/3 sum_{q in {p, p_t, p_q}} H(mean q) + w (E|p_q - p| + E|p_q - p_t|)
    s(x) = |p - onehot(y)|_1 |h|_1,   after a virtual step minus before it

Deviations
----------
1. It always uses two views, raw and augmented; the augmentation is "scr" unless another one is set.
2. Q, an MLP from 2C over 128 to C, grows with the head; new entries are drawn uniformly in +-1/sqrt(128).
3. Q reads dot logits, and the two last terms are computed on them, also under `+uer`.

Cost: 120 for both views, 60 for the virtual step, 50 + 50 to score the candidates: 280 against ER's 60.

Gu et al., Not Just Selection, but Exploration: Online Class-Incremental Continual Learning via Dual View Consistency,
CVPR 2022.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.scoring import Phase
from evenhand.core.sizes import Sizes
from evenhand.methods.er import er
from evenhand.methods.mir import MostInterfered

HIDDEN = 128


class QNet(nn.Module):
    """An MLP from the logits of two views to logits, (2C -> 128 -> C), which grows with the classes."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Parameter(torch.empty(2, 0, HIDDEN))
        self.into_bias = nn.Parameter(torch.zeros(HIDDEN))
        self.out = nn.Parameter(torch.empty(0, HIDDEN))
        self.out_bias = nn.Parameter(torch.empty(0))

    def grow(self, count: int, generator: Generator | None = None) -> None:
        """Append classes, each drawn in one piece."""
        drawn = (torch.rand(count, 3 * HIDDEN + 1, generator=generator) * 2 - 1) / math.sqrt(HIDDEN)
        into, out, bias = drawn.to(self.out).split([2 * HIDDEN, HIDDEN, 1], dim=1)
        into = into.unflatten(1, (2, HIDDEN)).transpose(0, 1)
        self.into = nn.Parameter(torch.cat([self.into.detach(), into], dim=1))
        self.out = nn.Parameter(torch.cat([self.out.detach(), out]))
        self.out_bias = nn.Parameter(torch.cat([self.out_bias.detach(), bias.squeeze(1)]))

    def forward(self, z: Tensor, z_t: Tensor) -> Tensor:
        """(n, C), (n, C) -> (n, C)."""
        hidden = F.relu(z @ self.into[0] + z_t @ self.into[1] + self.into_bias)
        return F.linear(hidden, self.out, self.out_bias)


@part("evenhand.methods.er_dvc.DualView")
class DualViewConsistency:
    """Cross-entropy of both views, and the agreement of their predictions."""

    weight: float = 4.0

    views = "concat"

    def __post_init__(self) -> None:
        errors.number("The 'weight' parameter of er_dvc", self.weight, 0)

    def modules(self, network: Network) -> dict[str, nn.Module]:
        return {"q": QNet()}

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        return Losses(
            learning=self.loss(learner, "learn", h, batch),
            replaying=self.loss(learner, "replay", past, replay) if replay else None,
        )

    def loss(self, learner: Learner, phase: Phase, h: Tensor, batch: Batch) -> Tensor:
        """All terms of one batch; h has the features of its raw views, then those of the augmented ones."""
        z, z_t = learner.network.logits(h).chunk(2)
        both = 2 * learner.expect(phase, h, batch.cross_entropy)  # CE(z) + CE(z_t), as h has both views
        return both + agreement(z, z_t, learner.network.extra["q"](z, z_t), self.weight)


def agreement(z: Tensor, z_t: Tensor, z_q: Tensor, weight: float) -> Tensor:
    """The negative entropies of the mean predictions, and the distances of Q's prediction to the others."""
    p, p_t, p_q = (logits.softmax(1) for logits in (z, z_t, z_q))
    spread = torch.stack([negative_entropy(q.mean(0)) for q in (p, p_t, p_q)]).sum() / 3
    return spread + weight * ((p_q - p).abs().mean() + (p_q - p_t).abs().mean())


def negative_entropy(p: Tensor) -> Tensor:
    """The sum of p log p, with a bounded gradient where p vanishes."""
    return (p * p.clamp_min(1e-12).log()).sum()


@part("evenhand.methods.er_dvc.GradientInterfered")
class MostInterferedGradients(MostInterfered):
    """Of some random candidates, take those whose gradient at the logits grows most in a virtual step."""

    def __post_init__(self) -> None:
        errors.whole("The 'candidates' parameter of er_dvc", self.candidates, 1)

    @torch.no_grad()
    def score(self, learner: Learner, candidates: Batch) -> Tensor:
        """|p - onehot(y)|_1 |h|_1 of each candidate, by the logits that replaying uses."""
        [h] = learner.features(candidates)

        def gap(logits: Tensor) -> Tensor:
            return (logits.softmax(1) - F.one_hot(candidates.y, logits.shape[1])).abs().sum(1)

        return learner.expect("replay", h, gap) * h.abs().sum(1)


def cost(sizes: Sizes, candidates: int) -> float:
    """The units of both views; with more candidates than replays, also a virtual step and passes of the candidates."""
    both = sizes._replace(views=2)
    return both.er + (both.learned(sizes.batch) + 2 * candidates) * (candidates > sizes.replay)


@register(cost=cost, revision=2)
def er_dvc(weight: float = 4.0, candidates: int = 50) -> Method:
    """Dual view consistency: both views agree, and the samples with the most interfered gradients are replayed."""
    return er().but(retrieval=MostInterferedGradients(candidates), objective=DualViewConsistency(weight))
