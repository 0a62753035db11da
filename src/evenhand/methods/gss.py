"""GSS: gradient-based sample selection, the greedy variant.

ER, but the memory keeps samples whose gradients point in many directions. A sample's score is the largest cosine
between its gradient and those of some random batches of the memory; a full memory accepts a batch only if its own
largest cosine is negative, and then replaces candidates, preferably those with high scores, with probability

    P(replace c by x) = s'_c / (s'_c + s'_x),   s' = (s + 1) / 2

Deviations
----------
1. Gradients are those of the cross-entropy over all parameters of the network, in eval mode.
2. The gradient of the batch is the mean of those of its samples, which in eval mode is the same.
3. Candidates are drawn with weights (s - min) / (max - min + 0.01), or uniformly if all weights are zero.

Cost: 60 for the step, 30 for the gradients of 10 samples and 300 for those of 10 x 10 memories: 390 against ER's 60.
Torch counts the vectorised gradients of single samples four times.

Aljundi et al., Gradient based Sample Selection for Online Continual Learning, NeurIPS 2019.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from evenhand import errors
from evenhand.core.batch import Batch
from evenhand.core.gradients import batch_gradient, sample_gradients
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import er

FIRST_SCORE = 0.1


@part("evenhand.methods.gss.Diverse")
class DiverseGradients:
    """Keep samples whose gradients differ from those of the memory."""

    batches: int = 10
    size: int = 10

    def __post_init__(self) -> None:
        errors.whole("The 'batches' parameter of gss", self.batches, 1)
        errors.whole("The 'size' parameter of gss", self.size, 1)

    def __call__(self, learner: Learner, batch: Batch) -> None:
        memory, generator = learner.memory, learner.generators["storage"]
        memory.offered += len(batch)
        scores, likeness = self.compare(learner, batch)
        room = min(memory.size - len(memory), len(batch))
        early, late = batch.with_({"score": scores}).split(room)
        memory.write(torch.arange(len(memory), len(memory) + room), early)
        if late and memory.size and likeness < 0:
            slots = candidates(memory.columns["score"], len(late), generator)
            late = late[: len(slots)]
            taken = replaces(memory.columns["score"][slots], late.extra["score"], generator)
            memory.write(slots[taken], late[taken])

    def compare(self, learner: Learner, batch: Batch) -> tuple[Tensor, float]:
        """The score of each sample, and the largest cosine of the whole batch."""
        memory, scoring = learner.memory, learner.method.scoring
        if not len(memory):
            return torch.full((len(batch),), FIRST_SCORE, dtype=torch.float32), 1.0
        size = min(self.size, len(memory))
        count = min(self.batches, len(memory) // size)
        slots = memory.sample(count * size, learner.generators["storage"]).split(size)
        stored = torch.stack([batch_gradient(learner, memory.read(part), scoring.replay) for part in slots])
        new = sample_gradients(learner, batch, scoring.learn)
        directions = F.normalize(stored, dim=1).T
        cosines = F.normalize(new, dim=1) @ directions
        together = F.normalize(new.mean(0, keepdim=True), dim=1) @ directions
        return cosines.amax(1).cpu(), together.max().item()


def candidates(scores: Tensor, count: int, generator: Generator) -> Tensor:
    """Draw slots without replacement, preferably those with high scores; fewer if fewer have a weight above 0."""
    scores = scores.cpu().double()
    weights = (scores - scores.min()) / (scores.max() - scores.min() + 0.01)
    if not weights.any():
        weights = torch.ones_like(weights)
    return torch.multinomial(weights, min(count, int((weights > 0).sum())), generator=generator)


def replaces(stored: Tensor, new: Tensor, generator: Generator) -> Tensor:
    """Whether each new sample replaces its candidate."""
    old, fresh = (stored.cpu() + 1) / 2, (new + 1) / 2
    draws = torch.rand(len(new), generator=generator)
    return draws * (old + fresh) < old


@register(cost=lambda sizes, batches, size: sizes.er + 3 * (sizes.batch + batches * size), tolerance=0.3, revision=2)
def gss(batches: int = 10, size: int = 10) -> Method:
    """Gradient-based sample selection: keep samples whose gradients differ."""
    return er().but(storage=DiverseGradients(batches, size))
