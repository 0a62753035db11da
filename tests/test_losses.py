"""The losses alone: those of the learner to the bit, and an example that trains with them."""

import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

from evenhand import Batch, DualLinear, Learner, Mix, Network, Stream, losses
from evenhand.backbones import MLP
from evenhand.datasets import load
from evenhand.errors import InputError

EXAMPLE = Path(__file__).parents[1] / "examples/plain_loop.py"


def samples(seed, count=6, dim=5, classes=4):
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, generator=drawn).abs(), torch.randint(classes, (count,), generator=drawn)


def learner_of(method, rows=4):
    network = Network.of(MLP((5,), hidden=0))
    network.grow(rows, torch.Generator().manual_seed(0))
    return Learner(network, method, device="cpu")


@pytest.mark.parametrize("alpha", [0, 0.3, 1])
@pytest.mark.parametrize("replayed", [True, False])
def test_uer_is_the_loss_and_the_gradient_of_the_learner(alpha, replayed):
    learner = learner_of(f"uer(alpha={alpha})")
    now, past = samples(1), samples(2) if replayed else None
    theirs = learner.method.objective(learner, Batch(*now), Batch(*past) if past else None).total
    h = torch.cat([now[0], past[0]]) if past else now[0]  # as one pass through a trunk returns them
    ours = losses.uer(learner.network.head, (h[:6], now[1]), past and (h[6:], past[1]), alpha=alpha)
    assert torch.equal(ours, theirs)
    weights = list(learner.network.head.parameters())
    for one, other in zip(*(torch.autograd.grad(x, weights, allow_unused=True) for x in (ours, theirs)), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize(("method", "mix"), [("er", Mix(dot=1)), ("lucir", Mix(cos=1))])
def test_a_mix_is_the_loss_of_one_phase(method, mix):
    learner, now = learner_of(method), samples(1)
    theirs = learner.method.objective(learner, Batch(*now), None).total
    assert torch.equal(losses.mixed(learner.network.head, now, mix), theirs)


def test_alpha_is_checked():
    with pytest.raises(InputError, match="The 'alpha' parameter of uer must be a number in \\[0, 1\\]. Got 2 instead"):
        losses.uer(DualLinear(5, rows=4), samples(1), alpha=2)


def test_the_example_trains_the_learner_to_the_bit(capsys):
    loop = runpy.run_path(str(EXAMPLE))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    learner = Learner(model, "uer", memory=200, device="cpu")
    for step in Stream.split(load("fashion-cut"), stages=5, seed=0).steps():
        learner.observe(step.x, step.y)
    ours = [*loop["trunk"].parameters(), *loop["head"].parameters()]
    assert all(torch.equal(a, b) for a, b in zip(ours, learner.network.parameters(), strict=True))
    assert list(loop["labels"]) == learner.labels
    assert torch.equal(torch.stack([x for x, _ in loop["memory"]]), learner.memory.columns["x"])


def test_the_loss_alone_without_memories():
    head = DualLinear(4, rows=2)
    h, y = torch.rand(3, 4), torch.tensor([0, 1, 0])
    assert torch.equal(losses.uer(head, (h, y), (h[:0], y[:0])), losses.uer(head, (h, y)))


@pytest.mark.parametrize("y", [torch.empty(0, dtype=torch.int64), torch.tensor([0.5, 1.0])])
def test_classes_that_a_loss_cannot_use(y):
    with pytest.raises(InputError, match="The classes of a loss must be whole numbers"):
        losses.uer(DualLinear(4, rows=2), (torch.rand(len(y), 4), y))
