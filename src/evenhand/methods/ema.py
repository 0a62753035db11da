"""EMA: averaged weights, as a way to test any method.

Training stays the same, bit for bit; a test uses an exponential moving average of the weights and of the running
statistics, updated after every step:

    theta' <- d theta' + (1 - d) theta,   d = min(decay, (1 + t) / (10 + t)) at step t

At a constant learning rate SGD circles around good weights, and their average lies nearer to the middle. It also
forgets more slowly, since it still holds some of the weights from before the newest classes arrived. New rows of the
head start as copies and would lag behind those of the live network, so that a slow average hardly ever predicts the
newest classes. So each row of the head is warmed up according to its own age, and keeps up while the trunk and the old
rows are averaged slowly; `by_row=False` treats all alike. The defaults were chosen on held-out samples
(`results/search`).

Deviations
----------
1. The warm-up (1 + t) / (10 + t) keeps the random start out of the average.
2. `by_row` is ours: d_c = min(decay, (1 + t - t_c) / (10 + t - t_c)) for the row of a class that arrived at step t_c.

Cost: that of the method, with one pass over the weights after each step, and one more network in memory.

Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim. 1992.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from evenhand import errors
from evenhand.core.cloning import carry_extra_state
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import way


@part("evenhand.methods.ema.Averaged")
class Averaged:
    """An exponential moving average of everything that training changes."""

    decay: float
    by_row: bool = False  # as before this option existed

    def __post_init__(self) -> None:
        errors.number("The 'decay' parameter of ema", self.decay, 0, 1)
        errors.truth("The 'by_row' parameter of ema", self.by_row)

    @property
    def name(self) -> str:
        """The name under which the learner keeps it."""
        return f"ema.{self.decay}{'.by_row' * self.by_row}"

    @property
    def way(self) -> str:
        """The way to test that uses these weights."""
        return f"ema(decay={self.decay}, by_row={self.by_row})"

    def __call__(self, learner: Learner) -> Network:
        return learner.kept.get(self.name, learner.network)

    def grow(self, learner: Learner) -> None:
        """Append rows for new classes, as copies of the live ones."""
        for average, live in zip(tensors(self(learner)), tensors(learner.network), strict=True):
            if average.shape != live.shape:
                grown = live.detach().clone()
                grown[tuple(map(slice, average.shape))] = average
                average.data = grown

    def follow(self, learner: Learner) -> None:
        """Move towards the live weights."""
        rows = self._rows(learner)
        if self.name not in learner.kept:
            learner.kept[self.name] = learner.network
            return
        carry_extra_state(learner.network, self(learner))
        decay = min(self.decay, (1 + learner.steps) / (10 + learner.steps))
        for average, live in zip(self(learner).buffers(), learner.network.buffers(), strict=True):
            if average.shape != live.shape or not _averaged(live):
                average.data = live.detach().clone()  # a count, or a queue that has grown
        averages, lives = floats(self(learner), learner.network)
        get_ema_multi_avg_fn(decay)(averages, lives, 0)
        for average, before, live, share in rows:
            average.copy_(before.lerp_(live, share))

    def _rows(self, learner: Learner) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The head's tensors to decay by row: the average, a copy of it, the live tensor, and its new share."""
        if not self.by_row:
            return []
        name = f"{self.name}.arrived"
        arrived = learner.kept.get(name, torch.empty(0, dtype=torch.int64, device=learner.device))
        if missing := len(learner.labels) - len(arrived):
            arrived = learner.kept[name] = torch.cat([arrived, arrived.new_full((missing,), learner.steps)])
        age = F.pad(learner.steps - arrived, (0, learner.network.rows - len(arrived))).to(learner.network.head.weight)
        share = 1 - ((1 + age) / (10 + age)).clamp(max=self.decay)
        average, live = self(learner).head, learner.network.head
        return [
            (average.weight, average.weight.clone(), live.weight.detach(), share.unsqueeze(1)),
            (average.bias, average.bias.clone(), live.bias.detach(), share),
        ]


def tensors(network: Network) -> list[Tensor]:
    """Everything that training may change."""
    return [*network.parameters(), *network.buffers()]


def _averaged(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def floats(average: Network, live: Network) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors of both networks that have an average.

    Collecting them takes longer than averaging them, so it is repeated only for a new head or new buffers.
    """
    before, *found = _floats.get(average, ([],))
    now = [live.head.weight, *live.buffers()]
    if len(before) != len(now) or any(a is not b for a, b in zip(before, now, strict=True)):
        pairs = zip(tensors(average), tensors(live), strict=True)
        found = list(map(list, zip(*(pair for pair in pairs if _averaged(pair[1])), strict=True)))
        _floats[average] = (now, *found)
    return found[0], found[1]


_floats: WeakKeyDictionary[Network, tuple[Any, ...]] = WeakKeyDictionary()


@way
def ema(method: Method, decay: float = 0.998, by_row: bool = True) -> Method:
    """Any method, tested with averaged weights; `by_row` warms up each row of the head by its own age."""
    return method.but(weights=Averaged(decay, by_row))
