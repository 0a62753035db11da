"""Ways to test: a learner is trained by one method, and tested as that method says or in further ways."""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core import admission, registry
from evenhand.core.batch import unit
from evenhand.core.method import Method
from evenhand.core.network import Network

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

EVALUATION_BATCH = 128


class Ways:
    """The ways in which a learner can be tested.

    Attributes
    ----------
    methods
        Methods that train alike, by name: "" is the learner's own, the others are its `tests`.
    weights
        The parts that say which weights are asked.
    """

    def __init__(self, method: Method, tests: str) -> None:
        self.methods = {"": method, **{way: registry.tested(method, way) for way in registry.ways(tests)}}
        self.weights: list[Any] = list(dict.fromkeys(method.weights for method in self.methods.values()))

    def others(self) -> list[str]:
        """The names of those that differ from the method's own."""
        return [name for name, method in self.methods.items() if method.test != self.methods[""].test]

    def notify(self, event: str, learner: "Learner") -> None:
        """Call what the weights declare for an event of training."""
        for weights in self.weights:
            if hasattr(weights, event):
                getattr(weights, event)(learner)

    def networks(self, learner: "Learner") -> list[Network]:
        """The live network, and all those that a test asks instead."""
        asked = [learner.network, *(weights(learner) for weights in self.weights)]
        return list({id(network): network for network in asked}.values())

    @torch.no_grad()
    def scores(self, learner: "Learner", x: Any, *names: str) -> list[Tensor]:
        """The scores of samples by each of these ways, (n, labels) each; changes nothing."""
        if not learner.labels:
            raise errors.InputError("The learner has seen no class yet, so it cannot predict. Call observe first.")
        for name in names:
            if name not in self.methods:
                raise errors.unknown("test of this learner", name, [way for way in self.methods if way])
        asked = []
        for name in names:
            view = copy.copy(learner)  # shares everything with the learner, except for the method to test by
            view.method = self.methods[name]
            asked.append(view)
        learner.guard.check()
        parts = admission.samples(learner, x).to(learner.device).split(EVALUATION_BATCH)
        scored = [[view.method.prediction(view, part) for view in asked] for part in map(unit, parts)]
        unseen = learner.network.rows - len(learner.labels)  # rows that the head started with and no class has yet
        return [(scores := torch.cat(column))[:, : scores.shape[1] - unseen] for column in zip(*scored, strict=True)]
