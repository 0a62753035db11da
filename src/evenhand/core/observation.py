"""What one call of `observe` did, and what the learner predicted before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from evenhand.core import parts
from evenhand.core.batch import Batch, Losses
from evenhand.core.labels import Label
from evenhand.core.method import LATEST
from evenhand.core.network import Network

if TYPE_CHECKING:
    from evenhand.core.learner import Learner
    from evenhand.core.learning import Learning

ARGMAX = {"part": "evenhand.methods.er.Argmax"}
MODAL = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd, nn.MultiheadAttention, nn.RNNBase, nn.RReLU)
MOVED = nn.utils.parametrize.ParametrizationList  # spectral normalisation updates its vectors in training


@dataclass(frozen=True, eq=False, repr=False)
class Observation:
    """The record of a step.

    Attributes
    ----------
    steps
        How many steps the learner has taken, including this one.
    new
        The labels that it saw for the first time.
    predicted
        What it predicted for the batch before learning it, if requested; None for every sample if it knew no class yet.
    """

    steps: int
    new: list[Label]
    losses: Losses
    predicted: list[Label] | None = None

    @property
    def learning(self) -> float | None:
        """L_c, the loss of the batch; None if the method had none."""
        return None if self.losses.learning is None else self.losses.learning.item()

    @property
    def replaying(self) -> float | None:
        """L_p, the loss of the replayed samples; None if there were none, or if the method has only one loss."""
        return None if self.losses.replaying is None else self.losses.replaying.item()

    def __repr__(self) -> str:
        losses = {"learning": self.learning, "replaying": self.replaying}
        shown = [f"{name} {value:.4g}" for name, value in losses.items() if value is not None]
        return f"Observation({', '.join([f'step {self.steps}', *shown, *([f'new {self.new}'] if self.new else [])])})"


class Prequential:
    """Predicts every batch before it is learned, and counts the correct predictions.

    Where training and prediction compute the same, it reuses the forward pass of the step; elsewhere it needs another.

    Attributes
    ----------
    right, asked
        How many predictions were correct, and how many were made.
    awaited
        The batch whose forward pass is still to come.
    """

    def __init__(self, learner: "Learner") -> None:
        self.right = self.asked = 0
        tested = parts.to_json(learner.method.prediction), parts.to_json(learner.method.weights)
        own = not learner.method.parts("modules")  # such as a second head
        self.free = own and tested == (ARGMAX, LATEST) and learner.views == "none" and _modeless(learner.network)
        self.awaited: Batch | None = None
        self._rows: Tensor | None = None
        self._known: Sequence[Label] = ()

    def ask(self, learner: "Learner", x: Any, batch: Batch, known: Sequence[Label]) -> list[Label] | None:
        """Predict a batch among the classes known before it, or wait for its forward pass."""
        self.awaited, self._rows, self._known = (batch if self.free and known else None), None, known
        if self.awaited is not None:
            return None
        return learner.predict(x) if known else [None] * len(batch)

    def passed(self, learner: "Learning", batch: Batch | None, h: Tensor) -> None:
        """Predict from the features of a batch in a forward pass, if it is the awaited one."""
        if batch is not None and batch is self.awaited:
            scoring = learner.method.scoring
            scores = learner.network.logits(h.detach(), scoring.test, scoring.couple)
            self.awaited, self._rows = None, scores[:, : len(self._known)].argmax(1)

    def count(self, learner: "Learner", x: Any, predicted: list[Label] | None, labels: Sequence[Label]) -> list[Label]:
        """Count the predictions that match `labels`, and return all of them. Called within the step."""
        self.awaited = None
        if predicted is None and self._rows is not None:
            predicted = [self._known[row] for row in self._rows.tolist()]
        elif predicted is None:  # no pass came; within a step, `predict` uses the state before it
            predicted = learner.predict(x)
        self.right += sum(a is not None and a == b for a, b in zip(predicted, labels, strict=True))
        self.asked += len(labels)
        return predicted


def _modeless(network: Network) -> bool:
    """Whether the network certainly computes the same while it learns as in evaluation mode and float32."""
    return (
        network.known
        and network.precision == "fp32"
        and not any(isinstance(p, (*MODAL, MOVED)) for p in network.modules())
        and not any(p._forward_hooks or p._forward_pre_hooks for p in network.modules())
    )
