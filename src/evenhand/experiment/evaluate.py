"""The record of a stage: accuracies, and the head class by class, so that figures do not need the weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from evenhand.core import draws
from evenhand.core.learner import Learner
from evenhand.core.network import DualLinear
from evenhand.core.scoring import Form
from evenhand.streams import Stream


class HeadWatch:
    """Remembers the head as it was when the stage began, with new rows as they were initialised."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None

    def begin_stage(self, learner: Learner) -> None:
        """Copy the head."""
        head = learner.network.head
        self.weight, self.bias = head.weight.detach().clone(), head.bias.detach().clone()

    def before(self, head: DualLinear) -> tuple[Tensor, Tensor]:
        """W and b of all classes at the beginning of the stage, or at their arrival in it."""
        fresh = DualLinear(head.dim)
        fresh.grow(len(head.bias), draws.generator(self.seed, "head"))
        weight, bias = fresh.weight.detach().to(head.weight), fresh.bias.detach().to(head.bias)
        if self.weight is not None and self.bias is not None:
            weight[: len(self.weight)] = self.weight
            bias[: len(self.bias)] = self.bias
        return weight, bias

    def state_dict(self) -> dict[str, Tensor]:
        """The copy, if there is one."""
        if self.weight is None or self.bias is None:
            return {}
        return {"watch/weight": self.weight, "watch/bias": self.bias}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore the copy from `state_dict`."""
        self.weight, self.bias = tensors.get("watch/weight"), tensors.get("watch/bias")


def evaluate(learner: Learner, stream: Stream, stage: int, watch: HeadWatch, both: bool = False) -> dict[str, Any]:
    """Test on all stages so far and describe the head, with classes in order of arrival.

    With `both`, test again with the other form of the logits and record it as "otherwise".
    """
    tested = _test(learner, stream, stage)
    record: dict[str, Any] = {
        "arrival": list(learner.labels),
        "accuracy": tested.pop("accuracy"),
        "head": describe(learner, watch),
        **tested,
    }
    if both:
        with _tested_by(learner, "cos" if learner.method.scoring.test == "dot" else "dot"):
            record["otherwise"] = _test(learner, stream, stage)
    return record


@contextmanager
def _tested_by(learner: Learner, form: Form) -> Iterator[None]:
    """Let the learner test with this form of the logits."""
    method = learner.method
    learner.method = method.but(scoring=replace(method.scoring, test=form))
    try:
        yield
    finally:
        learner.method = method


def _test(learner: Learner, stream: Stream, stage: int) -> dict[str, Any]:
    """Accuracy of each stage, mean probability of each class and, after the last stage, the confusion matrix."""
    count = len(learner.labels)
    confusion = torch.zeros(count, count, dtype=torch.int64)
    probability = torch.zeros(count, dtype=torch.float64)
    accuracy = []
    row_of = {label: row for row, label in enumerate(learner.labels)}
    for j in range(stage + 1):
        x, y = stream.test(j)
        scores = learner.scores(x).cpu()
        predicted = scores.argmax(1)
        # All samples of a class count as errors if it never arrived because its samples fell into a dropped batch.
        rows = torch.tensor([row_of.get(label, -1) for label in y.tolist()])
        accuracy.append((predicted == rows).sum().item() / len(y))
        probability += scores.double().softmax(1).sum(0)
        known = rows >= 0
        confusion.index_put_((rows[known], predicted[known]), torch.ones(1, dtype=torch.int64), accumulate=True)
    tested = sum(len(stream.stages[j].test) for j in range(stage + 1))
    record: dict[str, Any] = {"accuracy": accuracy, "probability": (probability / tested).tolist()}
    if stage == len(stream.stages) - 1:
        record["confusion"] = confusion.tolist()
    return record


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
