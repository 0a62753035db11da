"""SCR: supervised contrastive replay.

ER, but the network learns to bring samples of one class together, and the test takes the nearest class mean. With z the
L2-normalised projections of both views of B and B_M, 2 x 20 anchors, and P(i) the others of i's class:

    L  = E_i[-1/|P(i)| sum_{p in P(i)} log exp(z_i . z_p / T) / sum_{a != i} exp(z_i . z_a / T)]
    y^ = argmax_c h(x)/|h(x)| . mean_c,   mean_c the renormalised mean of the memory's normalised features

Deviations
----------
1. It makes its own two views, raw and augmented, whatever is asked for; the pipeline is "scr" unless another is given.
2. With R = 10 it is weak, as in the UER paper; its own paper replays 100 (`--replay 100`).
3. Under `+uer` the UER loss on the linear head is added, and the head is tested (our choice).

Cost: two views, C_D = 2.

Mai et al., Supervised Contrastive Replay, CVPR Workshops 2021.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenhand import errors
from evenhand.batch import Batch, Losses, unit
from evenhand.learner import EVALUATION_BATCH, Learner
from evenhand.method import Method
from evenhand.methods.er import er
from evenhand.network import Network
from evenhand.parts import part
from evenhand.registry import register


@part
class Contrastive:
    """The supervised contrastive loss over both views; with `classify` the cross-entropy of a linear head as well."""

    temperature: float = 0.1
    classify: bool = False

    views = "concat"
    classifies = False

    def __post_init__(self) -> None:
        errors.number("The 'temperature' parameter of scr", self.temperature, 1e-6)

    def classifying(self) -> "Contrastive":
        """The same, with cross-entropy."""
        return replace(self, classify=True)

    def modules(self, network: Network) -> dict[str, nn.Module]:
        dim = network.head.dim
        return {"projector": nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 128))}

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = learner.features(batch, replay)
        learning, replaying = None, None
        if replay:
            z = F.normalize(learner.network.extra["projector"](torch.cat([h, past])), dim=1)
            learning = contrast(z, torch.cat([batch.targets, replay.targets]), self.temperature)
        if self.classify:
            crossed = learner.expect("learn", h, batch.cross_entropy)
            learning = crossed if learning is None else learning + crossed
            replaying = learner.expect("replay", past, replay.cross_entropy) if replay else None
        return Losses(learning, replaying)


def contrast(z: Tensor, y: Tensor, temperature: float) -> Tensor:
    """The supervised contrastive loss of normalised projections (n, d), in the mean over anchors."""
    others = ~torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = (y.unsqueeze(0) == y.unsqueeze(1)) & others
    similar = (z @ z.T / temperature).masked_fill(~others, -torch.inf)
    likely = similar - similar.logsumexp(1, keepdim=True)
    return -(likely.masked_fill(~positive, 0).sum(1) / positive.sum(1)).mean()


@part
class NearestMean:
    """The nearest mean of the memory's features; a class without memories is never predicted."""

    def __call__(self, learner: Learner, x: Tensor) -> Tensor:
        means, there = learner.answer("means", lambda: class_means(learner))
        scores = F.normalize(learner.snapshot().features(x), dim=1) @ means.T
        return scores.masked_fill(~there, -torch.inf) if there.any() else scores


def class_means(learner: Learner) -> tuple[Tensor, Tensor]:
    """The renormalised mean feature of each class, (classes, dim), and whether it has memories."""
    network, memory = learner.snapshot(), learner.memory
    means = torch.zeros(network.classes, network.head.dim, device=learner.device)
    there = torch.zeros(network.classes, dtype=torch.bool, device=learner.device)
    for slots in torch.arange(len(memory)).split(EVALUATION_BATCH) if len(memory) else ():
        stored = memory.read(slots)
        means.index_add_(0, stored.y, F.normalize(network.features(unit(stored.x)), dim=1))
        there[stored.y] = True
    return F.normalize(means, dim=1), there


@register(cost=2)
def scr(temperature: float = 0.1) -> Method:
    """Supervised contrastive replay, tested by the nearest class mean."""
    return er().but(objective=Contrastive(temperature), prediction=NearestMean())
