"""EMA: averaged weights, as a way to test any method.

Training stays as it is, to the bit; a test asks an exponential moving average of the weights and of the running
statistics, which follows them after every step:

    theta' <- d theta' + (1 - d) theta,   d = min(decay, (1 + t) / (10 + t)) at step t

At a constant learning rate SGD circles around good weights, and their average lies nearer to the middle. It also
forgets more slowly, since it still holds some of the weights from before the newest classes arrived. New rows of the
head start as copies; their norms lag behind those of the live network, which a test by dot products feels more than one
by cosines.

Deviations
----------
1. The warm-up (1 + t) / (10 + t) keeps the random start out of the average.

Cost: that of the method, with one pass over the weights after each step, and one more network in memory.

Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim. 1992.
"""

from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from evenhand import errors
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.parts import part
from evenhand.core.registry import way


@part("evenhand.methods.ema.Averaged")
class Averaged:
    """An exponential moving average of all that training moves."""

    decay: float = 0.99

    def __post_init__(self) -> None:
        errors.number("The 'decay' parameter of ema", self.decay, 0, 1)

    @property
    def name(self) -> str:
        """What the learner keeps it by."""
        return f"ema.{self.decay}"

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
        if self.name not in learner.kept:
            learner.kept[self.name] = learner.network
            return
        decay = min(self.decay, (1 + learner.steps) / (10 + learner.steps))
        averages, lives = floats(self(learner), learner.network)
        get_ema_multi_avg_fn(decay)(averages, lives, 0)


def tensors(network: Network) -> list[Tensor]:
    """Everything that training may move."""
    return [*network.parameters(), *network.buffers()]


def floats(average: Network, live: Network) -> tuple[list[Tensor], list[Tensor]]:
    """The floating-point tensors of both networks.

    Collecting them takes longer than averaging them, so it is done again only for a new head or other buffers.
    """
    state, *found = _floats.get(average, (None,))
    now = (id(live.head.weight), *map(id, live.buffers()))
    if state != now:
        pairs = zip(tensors(average), tensors(live), strict=True)
        found = list(map(list, zip(*((a, b.detach()) for a, b in pairs if b.is_floating_point()), strict=True)))
        _floats[average] = (now, *found)
    return found[0], found[1]


_floats: WeakKeyDictionary[Network, tuple[Any, ...]] = WeakKeyDictionary()


@way
def ema(method: Method, decay: float = 0.99) -> Method:
    """Any method, tested with averaged weights."""
    return method.but(weights=Averaged(decay))
