"""A method is a value with seven parts; `step` is Algorithm 1 of the paper."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from evenhand import errors
from evenhand.core import parts
from evenhand.core.batch import Batch, Losses
from evenhand.core.network import Network
from evenhand.core.scoring import Scoring

if TYPE_CHECKING:
    from evenhand.core.learner import Learner


class Retrieval(Protocol):
    """Which samples of the memory are replayed?"""

    def __call__(self, learner: "Learner", batch: Batch, /) -> Batch | None: ...


class Objective(Protocol):
    """What are L_c and L_p?"""

    def __call__(self, learner: "Learner", batch: Batch, replay: Batch | None, /) -> Losses: ...


class Update(Protocol):
    """How do the losses update the weights?"""

    def __call__(self, learner: "Learner", losses: Losses, /) -> None: ...


class Storage(Protocol):
    """Which samples enter the memory?"""

    def __call__(self, learner: "Learner", batch: Batch, /) -> None: ...


class Prediction(Protocol):
    """How are inputs scored in a test? Changes nothing; (n, ...) -> (n, rows)."""

    def __call__(self, learner: "Learner", x: Tensor, /) -> Tensor: ...


class Weights(Protocol):
    """Which weights are tested?"""

    def __call__(self, learner: "Learner", /) -> Network: ...


DECLARATIONS = ("boundary", "modules", "views", "passes", "bounded", "rescored")
LATEST = {"part": "evenhand.methods.er.Latest"}


@dataclass(frozen=True)
class Method:
    """Seven stateless parts; everything that changes lives in the learner.

    No slot has a default here: `er()` sets all seven, and every other method is `er().but(...)`. A part that needs
    something from one step to the next keeps it in `learner.kept`, a dict that is saved and restored with the learner:
    tensors, copies of the network and JSON values. Names start with that of the method, so that methods compose:

        learner.kept["ss_il.teacher"] = learner.network    # a copy, as the network is now

    A part may also declare

    boundary(learner)
        Called at the end of a stage, before it is evaluated; such a method needs a stream with stages.
    modules(network)
        Further modules to train, by name; found in `learner.network.extra`. One with `grow` grows with the head.
    views, passes
        The views or passes that it requires, whatever the learner's settings are.
    bounded
        True if float images must be in [0, 1]; others are rejected.
    rescored(method)
        Returns what the method becomes when a scoring is composed onto it, e.g. by `+uer`. SCR, which has no
        cross-entropy to score, adds one.

    logits
        False if the scores of a prediction are not logits, so that their softmax does not give probabilities.

    `weights` may also declare `follow(learner)`, called after every step, `grow(learner)`, called when the head has
    grown, and `way`, the name of the way to test with them, needed if they are a method's own weights.
    """

    retrieval: Retrieval
    objective: Objective
    scoring: Scoring
    update: Update
    storage: Storage
    prediction: Prediction
    weights: Weights

    @property
    def training(self) -> Hashable:
        """What determines the training: methods that share this train identically."""
        trains = any(hasattr(self.prediction, name) for name in DECLARATIONS)
        scoring = replace(self.scoring, test="dot")
        return self.retrieval, self.objective, scoring, self.update, self.storage, self.prediction if trains else None

    @property
    def test(self) -> Hashable:
        """What a test depends on besides the training."""
        return self.weights, self.prediction, self.scoring.test

    def step(self, learner: "Learner", batch: Batch, second: Batch | None = None) -> Losses:
        """Learn one batch of the stream (Algorithm 1); returns the losses.

        A `second` batch of the stream (the order iid++) is learned in place of a replay; then nothing is stored.
        """
        for _ in range(learner.iterations):
            replay = second or self.retrieval(learner, batch)  # 5    B_M <- MemoryRetrieval(M)
            losses = self.objective(learner, batch, replay)  #   6-7  L_c, L_p
            self.update(learner, losses)  #                      8-9  theta <- theta - lambda grad(L_c + L_p)
        if second is None:
            self.storage(learner, batch.with_(losses.keep))  #   10   M <- MemoryUpdate(M, B_t)
        return losses

    def but(self, **slots: Any) -> "Method":
        """Return the same method with some slots replaced."""
        for slot in slots:
            if slot not in SLOTS:
                raise errors.unknown("slot of a method", slot, SLOTS)
        return replace(self, **slots)

    def changes(self, other: "Method") -> dict[str, Any]:
        """The slots in which this method differs from another."""
        return {slot: getattr(self, slot) for slot in SLOTS if getattr(self, slot) != getattr(other, slot)}

    def parts(self, declaring: str) -> list[Any]:
        """The parts that declare something, in the order of the slots."""
        return [part for slot in SLOTS if hasattr(part := getattr(self, slot), declaring)]

    def to_json(self) -> dict[str, Any]:
        """The parts as plain dicts; without `weights` if they are the latest, as before this slot existed."""
        slots = {slot: parts.to_json(getattr(self, slot)) for slot in SLOTS}
        return {slot: value for slot, value in slots.items() if value != LATEST}

    @classmethod
    def from_json(cls, slots: Mapping[str, Any]) -> "Method":
        """The method that `to_json` was called on."""
        slots = {"weights": LATEST, **slots}
        if set(slots) != set(SLOTS):
            raise errors.wrong("A method", f"have the slots {', '.join(SLOTS)}", sorted(slots))
        return cls(**{slot: parts.from_json(value) for slot, value in slots.items()})


SLOTS = tuple(field.name for field in fields(Method))
