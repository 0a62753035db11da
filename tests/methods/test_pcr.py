import math
from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, errors, resolve
from evenhand.backbones import MLP
from reference import counted, losses, pcr

DIM, CLASSES = 5, 7
CURRENT, REPLAYED = [5, 1, 5, 3], [0, 5, 1, 1, 0, 5]  # neither 2, 4 nor 6 occurs


def compared(method, reference, views=1):
    """Whether loss and gradients of a method are those of a reference."""
    drawn = torch.Generator().manual_seed(views)
    learner = Learner(MLP((DIM,), hidden=0), method, device="cpu")
    learner.network.grow(CLASSES, drawn)
    head = learner.network.double().head
    batches, lists = [], []
    for y in (CURRENT, REPLAYED):
        h = torch.randn(views * len(y), DIM, generator=drawn, dtype=torch.float64).requires_grad_()
        batches.append(Batch(h[: len(y)].detach(), torch.tensor(y), views=h))
        lists.append(list(zip(h.tolist(), y * views, strict=True)))
    expected = reference({"head": (head.weight.tolist(), head.bias.tolist())}, *lists)
    loss = learner.method.objective(learner, *batches).total
    leaves = {"head.W": head.weight, "head.b": head.bias, "current": batches[0].views, "replayed": batches[1].views}
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    pairs = [(loss.item(), expected["loss"])] + [(g, expected[k]) for k, g in zip(leaves, found, strict=True)]
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize(("method", "temperature"), [("pcr", 0.09), ("pcr(temperature=0.5)", 0.5)])
def test_loss_and_gradients(method, temperature, views):
    assert compared(method, partial(pcr.pcr, temperature=temperature), views)


@pytest.mark.parametrize(
    "mutant",
    [
        partial(pcr.pcr, multiplicity=False),
        partial(pcr.pcr, temperature=0.1),
        losses.lucir,
        partial(losses.union, form="cos"),
    ],
)
def test_a_wrong_equation_is_noticed(mutant):
    assert not compared("pcr", mutant)


COUNTED = {
    "counted": {},
    "counted+lucir": {"learn": "cos", "alpha": 0.0},
    "counted+uer": {"learn": "cos", "alpha": 0.5},
    "counted+uer(alpha=0.3)": {"learn": "cos", "alpha": 0.3},
}


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("method", list(COUNTED))
def test_loss_and_gradients_of_counted(method, views):
    assert compared(method, partial(counted.counted, **COUNTED[method]), views)


@pytest.mark.parametrize(
    "mutant",
    [
        partial(counted.counted, learn="cos", alpha=0.5, once=True),
        partial(counted.counted, alpha=0.5),
        partial(counted.counted, learn="cos", alpha=0.6),
        partial(losses.uer, alpha=0.5),
    ],
)
def test_a_wrong_equation_of_counted_is_noticed(mutant):
    assert not compared("counted+uer", mutant)


def test_counted_without_a_memory_is_cross_entropy_among_the_batch(learner, images):
    made = learner("counted")
    for x, _ in images(2):
        made.observe(x, [0, 1] * (len(x) // 2))
    [(x, _)] = images(1, seed=3)
    batch = Batch(x, torch.tensor([0, 1] * (len(x) // 2)))
    assert made.method.objective(made, batch, None).total.item() == pytest.approx(
        resolve("er").objective(made, batch, None).total.item() + math.log(len(x) / 2), rel=1e-5
    )


def test_multiplicity_by_hand():
    """Rows along the axes, T = 1, labels 0 | 1, 1: the anchor e_0 sees exp(1) once and exp(0) twice."""
    learner = Learner(MLP((3,), hidden=0), "pcr(temperature=1)", device="cpu")
    learner.network.grow(3)
    learner.network.head.weight.data = 4 * torch.eye(3)
    axes = torch.eye(3)
    loss = learner.method.objective(
        learner, Batch(axes[[0]], torch.tensor([0])), Batch(axes[[1, 1]], torch.tensor([1, 1]))
    ).total
    zero, one = math.log((math.e + 2) / math.e), math.log((2 * math.e + 1) / math.e)
    assert loss.item() == pytest.approx((zero + 2 * one) / 3, abs=1e-4)


def test_absent_classes_do_not_move():
    learner = Learner(MLP((4,), hidden=0), "pcr", device="cpu")
    drawn = torch.Generator().manual_seed(0)
    learner.network.grow(5, drawn)
    one, other = (Batch(torch.rand(2, 4, generator=drawn), torch.tensor(y)) for y in ([4, 1], [1, 1]))
    [dW] = torch.autograd.grad(learner.method.objective(learner, one, other).total, [learner.network.head.weight])
    assert dW.any(1).tolist() == [False, True, False, False, True]


def test_no_loss_while_the_memory_is_empty():
    learner = Learner(MLP((4,)), "pcr", memory=5, device="cpu")
    before = [p.clone() for p in learner.network.trunk.parameters()]
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    learner.observe(x, [0, 1, 2])
    assert len(learner.memory) == 3
    assert all(torch.equal(p, b) for p, b in zip(learner.network.trunk.parameters(), before, strict=True))
    learner.observe(x, [0, 1, 2])
    assert not all(torch.equal(p, b) for p, b in zip(learner.network.trunk.parameters(), before, strict=True))


def test_tested_by_cosine_over_all_seen_classes():
    learner = Learner(MLP((2,), hidden=0), "pcr", memory=5, device="cpu")
    learner.observe(torch.eye(2), ["east", "north"])
    learner.network.head.weight.data = torch.tensor([[0.1, 0.0], [0.0, 9.0]])
    learner.network.head.bias.data = torch.tensor([0.0, 50.0])
    assert learner.predict(torch.tensor([[1.0, 0.9], [0.9, 1.0]])) == ["east", "north"]


@pytest.mark.parametrize("text", ["pcr+uer", "uer+pcr", "mir+pcr"])
def test_it_takes_no_companion(text):
    with pytest.raises(errors.InputError, match="pcr replaces the cross-entropy"):
        resolve(text)


@pytest.mark.parametrize("value", ["0", "-1", "'warm'", "True"])
def test_temperature_is_validated(value):
    with pytest.raises(errors.InputError, match="'temperature' parameter of pcr must be a number of at least 1e-06"):
        resolve(f"pcr(temperature={value})")
