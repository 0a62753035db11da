"""What the adapters share: a learner for data of any shape, and its predictions as probabilities."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from evenhand import errors
from evenhand.backbones import MLP
from evenhand.core.cloning import cloned
from evenhand.core.draws import seeded
from evenhand.core.labels import Label
from evenhand.core.learner import Learner

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def new_learner(
    network: nn.Module | Callable[[Shape], nn.Module] | None, shape: Shape, *, seed: int, **settings: Any
) -> Learner:
    """A learner for samples of this shape, with its own network; equal arguments give equal initial weights."""
    if network is not None and not callable(network):
        raise errors.wrong("The 'network' of a classifier", "be a torch module, a function or None", network)
    with seeded(seed, "init"):
        made = cloned(network) if isinstance(network, nn.Module) else (network or MLP)(shape)
    return Learner(made, seed=seed, **settings)


def observe(learner: Learner, x: Array, y: Sequence[Label]) -> None:
    """Learn one batch; divergence raises a ValueError, since the data or a parameter caused it."""
    try:
        learner.observe(x, y)
    except errors.DivergedError as error:
        raise errors.InputError(f"{error} So may a StandardScaler before the classifier.") from None


def probabilities(learner: Learner, x: Array) -> tuple[Array, list[Label]]:
    """The probability of each label for each sample as float64, (n, labels), and the labels of the same step."""
    learner.ways.check_probable("")
    [scores], labels = learner.ways.scores(learner, x, "")
    return scores.double().softmax(1).cpu().numpy(), labels
