"""The record of a stage: accuracies, and the head class by class, so that figures do not need the weights."""

from typing import Any

import torch
from torch import Tensor

from evenhand.core import draws
from evenhand.core.learner import Learner
from evenhand.core.network import DualLinear
from evenhand.streams import Stream


class HeadWatch:
    """Remembers the head as it was when the stage began, with new rows as they were initialised."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.begun: dict[str, Tensor] = {}  # empty in the first stage

    def begin_stage(self, learner: Learner) -> None:
        """Copy the head."""
        head = learner.network.head
        self.begun = {"watch/weight": head.weight.detach().clone(), "watch/bias": head.bias.detach().clone()}

    def before(self, head: DualLinear) -> tuple[Tensor, Tensor]:
        """W and b of all classes at the beginning of the stage, or at their arrival in it."""
        fresh = DualLinear(head.dim)
        fresh.grow(len(head.bias), draws.generator(self.seed, "head"))
        weight, bias = fresh.weight.detach().to(head.weight), fresh.bias.detach().to(head.bias)
        for now, then in zip((weight, bias), self.begun.values(), strict=False):
            now[: len(then)] = then
        return weight, bias

    def state_dict(self) -> dict[str, Tensor]:
        """The copy, if there is one."""
        return self.begun

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore the copy from `state_dict`."""
        self.begun = {name: tensors[name] for name in ("watch/weight", "watch/bias") if name in tensors}


class Tally:
    """What one test adds up, stage by stage."""

    def __init__(self, classes: int) -> None:
        self.accuracy: list[float] = []
        self.confusion = torch.zeros(classes, classes, dtype=torch.int64)
        self.probability = torch.zeros(classes, dtype=torch.float64)
        self.samples = 0

    def add(self, scores: Tensor, rows: Tensor) -> None:
        """Add the samples of a stage, with their scores and the rows of their classes; -1 if a class never arrived."""
        predicted, known = scores.argmax(1), rows >= 0
        self.accuracy.append((predicted == rows).sum().item() / len(rows))
        self.probability += scores.double().softmax(1).sum(0)
        self.confusion.index_put_((rows[known], predicted[known]), torch.ones(1, dtype=torch.int64), accumulate=True)
        self.samples += len(rows)

    def record(self, last: bool) -> dict[str, Any]:
        """Accuracy of each stage, mean probability of each class and, after the last stage, the confusion matrix."""
        record = {"accuracy": self.accuracy, "probability": (self.probability / self.samples).tolist()}
        return {**record, "confusion": self.confusion.tolist()} if last else record


def evaluate(learner: Learner, stream: Stream, stage: int, watch: HeadWatch) -> dict[str, Any]:
    """Test on all stages so far and describe the head, with classes in order of arrival.

    If the learner has further ways to test, what they give is recorded as "tests".
    """
    names = ["", *learner.ways.others()]
    tallies = {name: Tally(len(learner.labels)) for name in names}
    row_of = {label: row for row, label in enumerate(learner.labels)}
    for j in range(stage + 1):
        x, y = stream.test(j)
        # All samples of a class count as errors if it never arrived because its samples fell into a dropped batch.
        rows = torch.tensor([row_of.get(label, -1) for label in y.tolist()])
        for name, scores in zip(names, learner.ways.scores(learner, x, *names)[0], strict=True):
            tallies[name].add(scores.cpu(), rows)
    own, *others = [tally.record(stage == len(stream.stages) - 1) for tally in tallies.values()]
    return {
        "arrival": list(learner.labels),
        "accuracy": own.pop("accuracy"),
        "head": describe(learner, watch),
        **own,
        **({"tests": dict(zip(names[1:], others, strict=True))} if others else {}),
    }


def describe(learner: Learner, watch: HeadWatch) -> dict[str, list[float]]:
    """Norm, mean and spread of the weights of each class, its bias, and the change of both during the stage."""
    head, seen = learner.network.head, len(learner.labels)
    weight, bias = head.weight.detach(), head.bias.detach()
    old_weight, old_bias = watch.before(head)
    columns = {
        "norm": weight.norm(dim=1),
        "mean": weight.mean(1),
        "std": weight.std(1, correction=0),
        "bias": bias,
        "weight_change": (weight - old_weight).mean(1),
        "bias_change": bias - old_bias,
    }
    return {name: [round(v, 7) for v in column[:seen].double().tolist()] for name, column in columns.items()}
