"""PCR: proxy-based contrastive replay, by the authors of UER.

ER, but samples are contrasted with the proxies (the rows of W) of the classes that occur in B and B_M together:

    L = E_{B u B_M}[-log exp(cos(w_y, h)/T) / sum_{c in B u B_M} exp(cos(w_c, h)/T)],

where the sum counts a class as often as it occurs; the test uses cos over all seen classes.

Deviations
----------
1. There is no loss while the memory is empty.

Cost: that of ER, C_D = 1.

Lin et al., PCR: Proxy-based Contrastive Replay for Online Class-Incremental Continual Learning, CVPR 2023.
"""

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.batch import Batch, Losses
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.scoring import COS
from evenhand.methods.er import er


@part("evenhand.methods.pcr.Proxies")
class ProxyContrast:
    """Contrast every sample with the proxies of the classes in the batch and the replay."""

    temperature: float = 0.09

    def __post_init__(self) -> None:
        errors.number("The 'temperature' parameter of pcr", self.temperature, 1e-6)

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        if not replay:
            return Losses(None)
        network = learner.network
        cosines = network.logits(torch.cat(learner.features(batch, replay)), "cos") / network.head.gamma
        targets = torch.cat([batch.targets, replay.targets])
        return Losses(proxy_contrast(cosines / self.temperature, targets, among=targets))


def proxy_contrast(similarities: Tensor, targets: Tensor, among: Tensor) -> Tensor:
    """Cross-entropy in which a class counts as often as it occurs in `among`, and absent ones not at all."""
    counts = torch.bincount(among, minlength=similarities.shape[1]).to(similarities)
    own = similarities.gather(1, targets.unsqueeze(1)).squeeze(1)
    return (torch.logsumexp(similarities + counts.log(), dim=1) - own).mean()


@register(cost=1, closed="pcr replaces the cross-entropy that others build on")
def pcr(temperature: float = 0.09) -> Method:
    """Proxy-based contrastive replay: contrast samples with the rows of W."""
    return er().but(objective=ProxyContrast(temperature), scoring=COS)
