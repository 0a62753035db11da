"""What the adapters share: a learner for data of any shape, and its answers as probabilities."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, nn

from evenhand import errors
from evenhand.backbones import MLP
from evenhand.core.draws import seeded
from evenhand.core.inputs import Label
from evenhand.core.learner import Learner

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class PickledLearner(Learner):
    """A learner that can be pickled, and to the same bytes until it learns: generators as bytes, no cached copies."""

    def __getstate__(self) -> dict[str, Any]:
        states = {name: generator.get_state().numpy().tobytes() for name, generator in self.generators.items()}
        return {**vars(self), "generators": states, "_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.generators = {name: Generator() for name in state["generators"]}
        for name, content in state["generators"].items():
            self.generators[name].set_state(torch.frombuffer(bytearray(content), dtype=torch.uint8))


def new_learner(
    network: nn.Module | Callable[[Shape], nn.Module] | None, shape: Shape, *, seed: int, **settings: Any
) -> Learner:
    """A learner for samples of this shape, with a network of its own: the same parameters always start alike."""
    if network is not None and not callable(network):
        raise errors.wrong("The 'network' of a classifier", "be a torch module, a function or None", network)
    with seeded(seed, "init"):
        made = copy.deepcopy(network) if isinstance(network, nn.Module) else (network or MLP)(shape)
    return PickledLearner(made, seed=seed, **settings)


def observe(learner: Learner, x: Array, y: Sequence[Label]) -> None:
    """Learn one batch; numbers that diverge are the fault of the data or of a parameter: a ValueError."""
    try:
        learner.observe(x, y)
    except errors.DivergedError as error:
        raise errors.InputError(f"{error} So may a StandardScaler before the classifier.") from None


def probabilities(learner: Learner, x: Array) -> Array:
    """The probability of each label for each sample as float64, (n, labels), in the order of `learner.labels`."""
    return torch.softmax(learner.scores(x).double(), dim=1).cpu().numpy()
