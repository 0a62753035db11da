"""Losses for your own loop, in plain PyTorch, Lightning or Avalanche; they need a `DualLinear` as the head.

    head = DualLinear(dim=256, rows=10)
    h = trunk(torch.cat([x, past_x]))
    loss = losses.uer(head, (h[:n], y), (h[n:], past_y))
    predicted = head(trunk(x), "dot").argmax(1)

For a complete loop, see `examples/plain_loop.py`.
"""

import torch.nn.functional as F
from torch import Tensor

from evenhand import errors
from evenhand.core.network import DualLinear
from evenhand.core.scoring import Mix
from evenhand.methods.uer import unbiased

Samples = tuple[Tensor, Tensor]  # features (n, dim), and classes (n,) as rows of the head


def uer(head: DualLinear, batch: Samples, replay: Samples | None = None, *, alpha: float = 0.5) -> Tensor:
    """L = L_c + L_p of UER (Eq. 10 to 12), bit for bit the loss that a `Learner` minimises.

    Parameters
    ----------
    head
        The last layer. `head.grow` adds rows for new classes; then give its parameters to the optimizer again.
    batch
        Features and classes of the stream's samples.
    replay
        Those of the samples from the memory, if there are any.
    alpha
        The weight of the dot product in replaying; that of the cosine is 1 - alpha.
    """
    scoring = unbiased(alpha)
    learning = mixed(head, batch, scoring.learn)
    return learning if replay is None or not len(replay[1]) else learning + mixed(head, replay, scoring.replay)


def mixed(head: DualLinear, samples: Samples, mix: Mix) -> Tensor:
    """The mean cross-entropy of samples on each form of the logits, weighted by the mix.

    ER is Mix(dot=1), in learning and in replaying; LUCIR is Mix(cos=1).
    """
    h, y = samples
    if not isinstance(head, DualLinear):
        raise errors.wrong("The 'head' of a loss", "be a DualLinear", type(head).__name__)
    if not len(y) or y.is_floating_point():
        raise errors.wrong("The classes of a loss", "be whole numbers, one for each of one or more samples", y)
    return mix.expect(lambda form: F.cross_entropy(head(h, form), y.long()))
