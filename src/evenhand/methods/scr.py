"""SCR: supervised contrastive replay.

ER, but the network learns to bring samples of one class together, and the test picks the nearest class mean. With z the
L2-normalised projections of both views of B and B_M, 2 x 20 anchors, and P(i) the others of i's class:

    L  = E_i[-1/|P(i)| sum_{p in P(i)} log exp(z_i . z_p / T) / sum_{a != i} exp(z_i . z_a / T)]
    y^ = argmax_c h(x)/|h(x)| . mean_c,   mean_c the renormalised mean of the memory's normalised features

Deviations
----------
1. It always uses two views, raw and augmented; the augmentation is "scr" unless another one is set.
2. With R = 10 it is weak, as in the UER paper; its own paper replays 100 samples (`--replay 100`).
3. T = 0.07, and one pass per view, shared by stream and memory, are the defaults of its authors' code. Their
   configurations for 100 samples have T = 0.1; with `by_view=False` both views share a pass.
4. `+uer` adds the UER loss on the linear head, and tests the head (our choice).

Cost: two views, C_D = 2.

Mai et al., Supervised Contrastive Replay, CVPR Workshops 2021.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import Argmax, er
from evenhand.methods.ncm import NearestMean


@part("evenhand.methods.scr.Contrastive")
class SupervisedContrast:
    """The supervised contrastive loss over both views; with `classify` the cross-entropy of a linear head as well."""

    temperature: float = 0.1
    classify: bool = False

    views = "concat"

    def __post_init__(self) -> None:
        errors.number("The 'temperature' parameter of scr", self.temperature, 1e-6)

    def rescored(self, method: Method) -> Method:
        """Add a cross-entropy, which a scoring can act on, and test the head."""
        return method.but(objective=replace(self, classify=True), prediction=Argmax())

    def modules(self, network: Network) -> dict[str, nn.Module]:
        dim = network.head.dim
        return {"projector": nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 128))}

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        h, past = self.passed(learner, batch, replay)
        learning, replaying = None, None
        if replay:
            z = F.normalize(learner.network.extra["projector"](torch.cat([h, past])), dim=1)
            learning = contrast(z, torch.cat([batch.targets, replay.targets]), self.temperature)
        if self.classify:
            cross_entropy = learner.expect("learn", h, batch.cross_entropy)
            learning = cross_entropy if learning is None else learning + cross_entropy
            replaying = learner.expect("replay", past, replay.cross_entropy) if replay else None
        return Losses(learning, replaying)

    def passed(self, learner: Learner, batch: Batch, replay: Batch | None) -> list[Tensor]:
        """The features of batch and replay."""
        return learner.features(batch, replay)


@part("evenhand.methods.scr.ContrastiveByView")
class ContrastByView(SupervisedContrast):
    """The same with one pass per view, shared by stream and memory."""

    passes = "separate"

    def passed(self, learner: Learner, batch: Batch, replay: Batch | None) -> list[Tensor]:
        """The features of batch and replay."""
        both = [one for one in (batch, replay) if one]
        views = map(torch.cat, zip(*(one.inputs.unflatten(0, (-1, len(one))) for one in both), strict=True))
        y = torch.cat([one.y for one in both])
        h = torch.stack(learner.features(*(Batch(view, y, views=view) for view in views)))
        return [h[:, : len(batch)].flatten(0, 1), h[:, len(batch) :].flatten(0, 1)]


def contrast(z: Tensor, y: Tensor, temperature: float) -> Tensor:
    """The supervised contrastive loss of normalised projections (n, d), averaged over anchors."""
    others = ~torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = (y.unsqueeze(0) == y.unsqueeze(1)) & others
    similarities = (z @ z.T / temperature).masked_fill(~others, -torch.inf)
    log_p = similarities - similarities.logsumexp(1, keepdim=True)
    return -(log_p.masked_fill(~positive, 0).sum(1) / positive.sum(1)).mean()


@register(cost=lambda sizes: sizes._replace(views=2).er)
def scr(temperature: float = 0.07, by_view: bool = True) -> Method:
    """Supervised contrastive replay, tested by the nearest class mean."""
    objective = ContrastByView if errors.truth("The 'by_view' parameter of scr", by_view) else SupervisedContrast
    return er().but(objective=objective(temperature), prediction=NearestMean())
