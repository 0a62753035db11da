"""Ways to test: a learner is trained by one method, and tested as that method says or in further ways."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evenhand import errors
from evenhand.core import admission, registry
from evenhand.core.batch import unit
from evenhand.core.cloning import cloned
from evenhand.core.copies import Copies
from evenhand.core.labels import Label
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.snapshots import Cache, Snapshot

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

EVALUATION_BATCH = 128
SMALL_IMAGE = 3 * 32 * 32


class Ways:
    """The ways in which a learner can be tested.

    Attributes
    ----------
    methods
        Methods that train identically, by name: "" is the learner's own, the others are its `tests`.
    weights
        The parts that say which weights are tested.
    """

    def __init__(self, method: Method, tests: str) -> None:
        self.methods = {"": method, **{way: registry.tested(method, way) for way in registry.ways(tests)}}
        self.weights: list[Any] = list(dict.fromkeys(method.weights for method in self.methods.values()))

    def others(self) -> list[str]:
        """The names of the tests that differ from the method's own."""
        return [name for name, method in self.methods.items() if method.test != self.methods[""].test]

    def check_probable(self, name: str) -> None:
        """Raise if the scores of this test are not logits, so that their softmax does not give probabilities."""
        prediction = self.method(name).prediction
        if not getattr(prediction, "logits", True):
            raise errors.InputError(
                f"{type(prediction).__name__} scores by similarity, not by probability. Call scores() instead."
            )

    def method(self, name: str) -> Method:
        """The method behind the name of a test, in any spelling."""
        if isinstance(name, str) and name in self.methods:
            return self.methods[name]
        spelled, known = registry.ways(name) if isinstance(name, str) else [], [way for way in self.methods if way]
        if len(spelled) == 1 and spelled[0] in known:
            return self.methods[spelled[0]]
        if not known:
            raise errors.InputError(
                f"This learner has no test {errors.shown(name)}. Name it when making one: tests='...'."
            )
        raise errors.unknown("test of this learner", name, known)

    def notify(self, event: str, learner: "Learner") -> None:
        """Call what the weights declare for an event of training."""
        for weights in self.weights:
            if hasattr(weights, event):
                getattr(weights, event)(learner)

    def networks(self, learner: "Learner") -> list[Network]:
        """The live network, and all others that are tested."""
        asked = [learner.network, *(weights(learner) for weights in self.weights)]
        return list({id(network): network for network in asked}.values())

    @torch.inference_mode(False)
    @torch.no_grad()
    def scores(self, learner: "Learner", x: Any, *names: str) -> tuple[list[Tensor], list[Label]]:
        """The scores of samples by each of these ways, (n, labels) each, and the labels; changes nothing.

        They come from the learner's last complete step, even while another thread is taking the next one.
        """
        methods = [self.method(name) for name in names]
        with learner.snapshots.asked(learner) as snapshot:
            if not snapshot.labels:
                raise errors.InputError("The learner has seen no class yet, so it cannot predict. Call observe first.")
            shared: dict[Any, Any] = {}
            asked = [view_of(learner, method, snapshot, shared) for method in methods]
            samples, kind = admission.samples(asked[0], x)
            parts = pieces(samples.to(learner.device))
            with nullcontext() if learner.network.known else snapshot.passing:
                if snapshot.kind is None:  # only a step may fix the kind of all samples
                    fitted = cloned(snapshot.network)
                    admission.fit(fitted, samples, kind)
                    for view in asked:
                        view.network, view._copies, view._cache = fitted, Copies(), Cache()
                scored = [[view.method.prediction(view, part) for view in asked] for part in map(unit, parts)]
            labels = list(snapshot.labels)
            unseen = asked[0].network.rows - len(labels)  # rows that the head started with and no class uses yet
        columns = [torch.cat(column) for column in zip(*scored, strict=True)]
        return [scores[:, : scores.shape[1] - unseen] for scores in columns], labels


def pieces(samples: Tensor) -> tuple[Tensor, ...]:
    """Split samples into batches of the fastest size: on a CPU the activations of larger images must fit its cache."""
    size = EVALUATION_BATCH
    if samples.device.type == "cpu":
        size = min(size, max(16, size * SMALL_IMAGE // max(1, samples.shape[1:].numel())))
    return samples.split(size)


def view_of(learner: "Learner", method: Method, snapshot: Snapshot, shared: dict[Any, Any]) -> "Learner":
    """A learner with the state of the snapshot, for one test; tests of the same samples share what they compute."""
    assert snapshot.memory is not None
    view = object.__new__(type(learner))  # shares everything else; `copy.copy` would make its own generators
    vars(view).update(vars(learner))
    view.method, view.network, view.memory, view.kept = method, snapshot.network, snapshot.memory, snapshot.kept
    view.labels, view.steps = snapshot.labels, snapshot.steps
    view._copies, view._cache, view._shared = snapshot.copies, snapshot.cache, shared
    return view
