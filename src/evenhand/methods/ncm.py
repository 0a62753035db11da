"""NCM: the nearest class mean of the memory, as a way to test any method.

The scores of a sample are its similarities to the mean feature of each class in the memory:

    y^ = argmax_c h(x)/|h(x)| . mean_c,   mean_c the renormalised mean of the memory's normalised features

Training stays the same. SCR, which has no classifier, is always tested this way.

Cost: that of the method; a test passes the memory through the network once more.

Mai et al., Supervised Contrastive Replay, CVPR Workshops 2021.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from evenhand.core.batch import unit
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import way
from evenhand.core.ways import EVALUATION_BATCH


@part("evenhand.methods.scr.NearestMean")
class NearestMean:
    """The nearest mean of the memory's features; a class without samples in the memory is never predicted."""

    logits = False

    def __call__(self, learner: Learner, x: Tensor) -> Tensor:
        means, known = learner.cached("ncm.means", lambda: class_means(learner))
        scores = F.normalize(learner.test_features(x), dim=1) @ means.T
        return scores.masked_fill(~known, -torch.inf) if known.any() else scores


def class_means(learner: Learner) -> tuple[Tensor, Tensor]:
    """The renormalised mean feature of each class, (rows, dim), and whether it has samples in the memory."""
    network, memory = learner.test_copy(), learner.memory
    means = torch.zeros_like(network.head.weight)
    known = torch.zeros(network.rows, dtype=torch.bool, device=learner.device)
    for slots in torch.arange(len(memory)).split(EVALUATION_BATCH) if len(memory) else ():
        stored = memory.read(slots)
        means.index_add_(0, stored.y, F.normalize(network.features(unit(stored.x)), dim=1))
        known[stored.y] = True
    return F.normalize(means, dim=1), known


@way
def ncm(method: Method) -> Method:
    """Any method, tested by the nearest class mean of the memory."""
    return method.but(prediction=NearestMean())
