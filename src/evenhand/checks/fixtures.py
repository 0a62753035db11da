"""What the checks share: small learners, real images, and comparisons to the bit."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from evenhand import backbones, metrics
from evenhand.core import draws
from evenhand.core.flops import count_flops
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.settings import Conditions, Precision
from evenhand.datasets import load
from evenhand.experiment.evaluate import HeadWatch, evaluate
from evenhand.experiment.run import build
from evenhand.experiment.spec import Spec

Samples = list[tuple[Tensor, Any]]


@dataclass(frozen=True)
class Subject:
    """A method under check, with its documented cost and the checks that do not apply to it."""

    name: str
    method: Method
    cost: float | None = None
    tolerance: float = 0.05
    exempt: Mapping[str, str] = field(default_factory=dict)
    precision: Precision = "fp32"


class BrokenError(AssertionError):
    """A broken promise."""


def learner_of(subject: Subject, **settings: Any) -> Learner:
    """A new learner with the small network, with the same weights in every call."""
    settings = {"memory": 20, "replay": 5, "seed": 0} | settings
    with draws.seeded(settings["seed"], "init"):
        trunk = backbones.SmallCNN((1, 28, 28), width=4)
    return Learner(trunk, subject.method, precision=subject.precision, device="cpu", **settings)


def batches(count: int, classes: tuple[int, ...] = (0, 1), size: int = 5, start: int = 0) -> Samples:
    """Real images of the given classes, in turn."""
    data = load("fashion-cut")
    per_class = len(data.train_y) // len(data.classes)
    samples: Samples = []
    for number in range(start, start + count):
        y = torch.tensor([classes[(number * size + i) % len(classes)] for i in range(size)])
        samples.append((data.train_x[y * per_class + torch.arange(size) + number * size], y))
    return samples


def feed(learner: Learner, *stages: Samples) -> Learner:
    """Let a learner observe stages, each followed by a boundary if its method needs one."""
    for stage in stages:
        for x, y in stage:
            learner.observe(x, y)
        if learner.method.parts("boundary"):
            learner.boundary()
    return learner


def two_stages() -> tuple[Samples, Samples]:
    """Eight batches of two classes, then eight of two others: enough to fill the memory and replace samples in it."""
    return batches(8), batches(8, classes=(2, 3))


def everything(learner: Learner) -> dict[str, Any]:
    """A copy of everything a learner consists of."""
    tensors: dict[str, Any] = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    modes = {f"mode/{name}": module.training for name, module in learner.network.named_modules()}
    return {**tensors, **modes, "facts": learner.facts()}


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of what differs, to the bit."""

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b))
        return bool(a == b)

    def bits(tensor: Tensor) -> Tensor:
        return tensor.contiguous().flatten().view(torch.uint8)

    return [name for name in {**before, **after} if not same(before.get(name), after.get(name))]


def demand(condition: bool, sentence: str) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise BrokenError(sentence)


@contextmanager
def unchanged(learner: Learner, what: str) -> Iterator[None]:
    """Demand that the block changes neither the learner nor torch's global generator."""
    before, state = everything(learner), torch.get_rng_state()
    yield
    demand(not (names := changed(before, everything(learner))), f"{what} changed {', '.join(names)}")
    demand(torch.equal(state, torch.get_rng_state()), f"{what} drew from torch's global generator")


@cache
def final_accuracy(method: Method, precision: Precision = "fp32") -> float:
    """The final average accuracy with the small network and a fixed seed."""
    spec = Spec.make(method="er", backbone="small_cnn")
    stream, learner = build(spec, method, Conditions(compile="off", precision=precision))
    for _, steps in groupby(stream.steps(), key=lambda step: step.stage):
        for step in steps:
            learner.observe(step.x, step.y)
        learner.boundary()
    return metrics.mean(evaluate(learner, stream, len(stream.stages) - 1, HeadWatch(0))["accuracy"])


@cache
def step_flops(method: Method) -> int:
    """Operations of one step on the Reduced ResNet18 with a full memory, 10 + 10 raw samples in a joint pass."""
    with draws.seeded(0, "init"):
        trunk = backbones.ReducedResNet18((1, 28, 28))
    learner = Learner(trunk, method, memory=50, replay=10, device="cpu")
    feed(learner, batches(4, classes=tuple(range(5)), size=10), batches(4, classes=tuple(range(5, 10)), size=10))
    x, y = batches(1, classes=tuple(range(5, 10)), size=10, start=8)[0]
    return count_flops(lambda: learner.observe(x, y))
