"""Samples and labels that a user may bring by mistake, and must be able to go on from."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from evenhand import Learner
from evenhand.backbones import MLP, ReducedResNet18
from evenhand.errors import InputError

X, Y = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)), [0, 1, 2, 3]


def small(**options):
    return Learner(MLP((4,), hidden=8), "er", **{"memory": 20, "device": "cpu", **options})


def snapshot(learner):
    return pickle.dumps((learner.facts(), {name: tensor.tolist() for name, tensor in learner.state_dict().items()}))


def test_a_bad_second_batch_leaves_no_trace():
    learner = small()
    before = snapshot(learner)
    with pytest.raises(InputError):
        learner.observe(X, Y, second=(torch.rand(4, 5), Y))
    assert snapshot(learner) == before


def test_a_second_batch_must_be_of_the_same_kind():
    learner = small()
    before = snapshot(learner)
    with pytest.raises(InputError, match="'second' batch must have samples of the same type and shape as the first"):
        learner.observe(X, Y, second=((255 * X).to(torch.uint8), Y))
    assert snapshot(learner) == before


@pytest.mark.parametrize("y", [3, None, torch.tensor(3), "abcd", {0: 1}])
def test_labels_that_are_no_sequence_of_labels(y):
    learner = small()
    before = snapshot(learner)
    with pytest.raises(InputError, match="label"):
        learner.observe(X, y)
    assert snapshot(learner) == before


@pytest.mark.parametrize("bytes_first", [True, False])
def test_samples_of_another_type_than_the_first(bytes_first):
    learner = small()
    as_bytes = (X * 255).to(torch.uint8)
    learner.observe(as_bytes if bytes_first else X, Y)
    before = snapshot(learner)
    with pytest.raises(InputError):
        learner.observe(X if bytes_first else as_bytes, Y)
    assert snapshot(learner) == before


def test_samples_that_carry_a_gradient():
    learner = small()
    embedding = nn.Linear(4, 4)
    for _ in range(3):
        learner.observe(embedding(X), Y)
    assert not learner.memory.columns["x"].requires_grad
    assert embedding.weight.grad is None


@pytest.mark.parametrize("x", [np.full((4, 4), "a"), np.full((4, 4), None), np.ones((4, 4), ">f4")])
def test_arrays_that_torch_cannot_hold(x):
    learner = small()
    try:
        learner.observe(x, Y)
    except InputError:
        return
    assert learner.memory.columns["x"][:4].tolist() == x.tolist()


def test_arrays_that_cannot_be_written():
    x = X.numpy().copy()
    x.setflags(write=False)
    learner = small()
    learner.observe(x, Y)
    assert learner.steps == 1


@pytest.mark.parametrize(
    ("make", "wrong", "right"),
    [
        (lambda: MLP((4,), hidden=0), (4, 5), (4, 4)),
        (lambda: ReducedResNet18((3, 8, 8), width=2), (4, 3, 64, 64), (4, 3, 8, 8)),
    ],
)
def test_samples_of_another_shape_than_the_backbones(make, wrong, right):
    learner = Learner(make(), device="cpu")
    with pytest.raises(InputError):
        learner.observe(torch.rand(wrong), Y)
    assert learner.labels == []
    learner.observe(torch.rand(right), Y)


def test_a_stream_of_single_small_images(images):
    """Batch normalisation of maps of 1x1 cannot normalise the first one; later ones come with a replay."""
    learner = Learner(ReducedResNet18((1, 8, 8), width=2), device="cpu")
    before = [parameter.clone() for parameter in learner.network.trunk.parameters()]
    singles = [(x[i : i + 1], y[i : i + 1]) for x, y in images(6) for i in range(10)]
    with pytest.warns(UserWarning, match="cannot normalise a single sample"):
        learner.observe(*singles[0])
    for x, y in singles[1:]:
        learner.observe(x, y)
    assert learner.steps == len(learner.memory) == 60
    assert any(not torch.equal(a, b) for a, b in zip(before, learner.network.trunk.parameters(), strict=True))
    assert learner.network.training
    x, y = images(1, size=40, seed=5)[0]
    assert sum(a == b for a, b in zip(learner.predict(x), y, strict=True)) > 15
