"""ASER: adversarial Shapley value experience replay.

ER, but samples are valued by how they help or hurt a K-nearest-neighbour classifier in feature space. With candidates
sorted by their distance to an evaluation point of class y, the Shapley value of the m-th is

    s(N) = [y_N = y] / N,   s(m) = s(m + 1) + ([y_m = y] - [y_{m+1} = y]) / K * min(K, m) / m

It replays the samples whose mean value for the rest of the memory, minus that for the batch of the stream, is highest:
those that represent their class well and are close to the batch. It stores the samples with the highest summed value.

Deviations
----------
1. Distances are squared Euclidean, features in eval mode from raw views.
2. L is the sum of two means as in ER; its code takes one mean over all samples: `reduction="joint"`.
3. The number of candidates per class is 2 by default; its authors use different numbers for different datasets.
4. If the memory has no slots beyond its evaluation points, fewer of these are drawn, or later classes would find no
   place.

Cost: ER's 60, and forward passes that grow with the number of classes C: 2 x 2C + 10 in retrieval and 4C + 10 in
storage, 160 against 60 with the ten classes of the check.

Shim et al., Online Class-Incremental Continual Learning with Adversarial Shapley Value, AAAI 2021.
"""

import torch
from torch import Generator, Tensor

from evenhand import errors
from evenhand.core.batch import Batch, Losses, unit
from evenhand.core.learner import Learner
from evenhand.core.memory import Memory
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.core.ways import pieces
from evenhand.methods.er import CrossEntropy, er


@part("evenhand.methods.aser.Shapley")
class Shapley:
    """Parameters of both retrieval and storage: the number of neighbours that vote, and of candidates per class."""

    k: int = 3
    n: int = 2

    def __post_init__(self) -> None:
        errors.whole("The 'k' parameter of aser", self.k, 1)
        errors.whole("The 'n' parameter of aser", self.n, 1)


@part("evenhand.methods.aser.Adversarial")
class AdversarialShapley(Shapley):
    """Replay what is typical of its class and near the batch."""

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        memory, generator = learner.memory, learner.generators["retrieval"]
        if memory.offered <= memory.size or not len(memory):
            return learner.recall(memory.sample(learner.replay, generator))
        slots = balanced(memory, self.n, generator)
        others = balanced(memory, self.n, generator, without=slots)
        candidates, friends = memory.read(slots), memory.read(others)
        h, h_friends, h_batch = features(learner, candidates, friends, batch)
        value = -shapley(h, candidates.y, h_batch, batch.y, self.k).mean(0)
        if len(others):
            value = value + shapley(h, candidates.y, h_friends, friends.y, self.k).mean(0)
        return learner.recall(slots[value.topk(min(learner.replay, len(slots))).indices.cpu()])


@part("evenhand.methods.aser.Valuable")
class HighestShapley(Shapley):
    """Keep what helps to classify the memory and rare classes."""

    def __call__(self, learner: Learner, batch: Batch) -> None:
        memory, generator = learner.memory, learner.generators["storage"]
        room = min(memory.size - len(memory), len(batch))
        memory.write(torch.arange(len(memory), len(memory) + room), batch[:room])
        memory.offered += len(batch)
        late = batch[room:]
        if not len(late) or not memory.size:
            return
        for n in range(self.n, 0, -1):
            points = balanced(memory, n, generator)
            if len(free := outside(memory, points)):
                break
        rare = self.rare(learner, late)
        slots = free[torch.randperm(len(free), generator=generator)[: self.n * len(learner.labels)]]
        if not len(slots):
            return
        stored, evaluation = memory.read(slots), memory.read(points)
        h_stored, h_late, h_points = features(learner, stored, late, evaluation)
        value = shapley(
            torch.cat([h_stored, h_late]),
            torch.cat([stored.y, late.y]),
            torch.cat([h_points, h_late[rare]]),
            torch.cat([evaluation.y, late.y[rare]]),
            self.k,
        ).sum(0)
        kept = set(value.topk(len(slots)).indices.tolist())
        leaving = [i for i in range(len(slots)) if i not in kept]
        entering = [i for i in range(len(late)) if len(slots) + i in kept]
        memory.write(slots[leaving], late[entering])

    def rare(self, learner: Learner, batch: Batch) -> Tensor:
        """Whether the class of each sample has a smaller share of the memory than a draw from U(0, 1/classes)."""
        counts = learner.memory.counts()
        shares = torch.tensor([counts.get(y, 0) / len(learner.memory) for y in batch.y.tolist()])
        return shares < torch.rand(len(batch), generator=learner.generators["storage"]) / len(learner.labels)


@part("evenhand.methods.aser.OneMean")
class JointCrossEntropy(CrossEntropy):
    """One mean over the batch and the replayed samples together."""

    def __call__(self, learner: Learner, batch: Batch, replay: Batch | None) -> Losses:
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        if losses.learning is None or losses.replaying is None or replay is None:
            return losses
        share = len(batch) / (len(batch) + len(replay))
        return Losses(share * losses.learning, (1 - share) * losses.replaying)


def shapley(candidates: Tensor, labels: Tensor, points: Tensor, truths: Tensor, k: int) -> Tensor:
    """The KNN-Shapley value of every candidate for every evaluation point, (points, candidates)."""
    count = len(candidates)
    # One matrix product, in float64: float32 would lose the distances of near neighbours.
    order = torch.cdist(points.double(), candidates.double()).argsort(dim=1, stable=True)
    match = (labels[order] == truths.unsqueeze(1)).to(candidates.dtype)
    rank = torch.arange(1, count + 1, device=candidates.device, dtype=candidates.dtype)
    steps = match / count
    steps[:, :-1] = (match[:, :-1] - match[:, 1:]) / k * (rank.clamp(max=k) / rank)[:-1]
    values = steps.flip(1).cumsum(1).flip(1)
    return torch.empty_like(values).scatter_(1, order, values)


def balanced(memory: Memory, n: int, generator: Generator, without: Tensor | None = None) -> Tensor:
    """Draw up to n slots of every class, leaving out the slots in `without`."""
    slots = outside(memory, without)
    slots = slots[torch.randperm(len(slots), generator=generator)]
    classes = memory.columns["y"].cpu()[slots]
    order = classes.argsort(stable=True)
    _, counts = classes[order].unique_consecutive(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    place = torch.arange(len(order)) - starts
    return slots[order[place < n]]


def outside(memory: Memory, slots: Tensor | None) -> Tensor:
    """The filled slots except these."""
    free = torch.ones(len(memory), dtype=torch.bool)
    if slots is not None:
        free[slots] = False
    return free.nonzero().flatten()


@torch.no_grad()
def features(learner: Learner, *batches: Batch) -> list[Tensor]:
    """The features of raw samples, in eval mode, in batches of the fastest size."""
    samples = torch.cat([unit(batch.x) for batch in batches])
    h = torch.cat([learner.folded_copy().features(piece) for piece in pieces(samples)])
    return list(h.split([len(batch) for batch in batches]))


@register(cost=lambda sizes, n: sizes.er + 4 * n * 10 + 2 * sizes.batch, tolerance=0.3, revision=3)
def aser(k: int = 3, n: int = 2, reduction: str = "sum") -> Method:
    """Adversarial Shapley value: replay and keep what helps a nearest-neighbour classifier."""
    errors.choice("The 'reduction' parameter of aser", reduction, ("sum", "joint"))
    objective = CrossEntropy() if reduction == "sum" else JointCrossEntropy()
    return er().but(retrieval=AdversarialShapley(k, n), objective=objective, storage=HighestShapley(k, n))
