from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, errors, resolve
from evenhand.backbones import MLP
from reference import er_ace, losses

DIM, CLASSES = 5, 7
CURRENT, REPLAYED = [5, 1, 5, 3], [0, 6, 1, 2, 4, 5]  # what is present in B is a set, no range


def compared(method, reference, views=1):
    """Whether loss and gradients of a method are those of a reference."""
    drawn = torch.Generator().manual_seed(views)
    learner = Learner(MLP((DIM,), hidden=0), method, device="cpu")
    learner.network.grow(CLASSES, drawn)
    learner.labels = list(range(CLASSES))
    head = learner.network.double().head
    batches, lists = [], []
    for y in (CURRENT, REPLAYED):
        h = torch.randn(views * len(y), DIM, generator=drawn, dtype=torch.float64).requires_grad_()
        batches.append(Batch(h[: len(y)].detach(), torch.tensor(y), views=h))
        lists.append(list(zip(h.tolist(), y * views, strict=True)))
    expected = reference({"head": (head.weight.tolist(), head.bias.tolist())}, *lists)
    loss = learner.method.objective(learner, *batches).total
    leaves = {
        "head.W": head.weight,
        "head.b": head.bias,
        "current": batches[0].views,
        "replayed": batches[1].views,
    }
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    pairs = [(loss.item(), expected["loss"])] + [(g, expected[k]) for k, g in zip(leaves, found, strict=True)]
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("er_ace", partial(er_ace.er_ace, head="cos")),
        ("er_ace(head='dot')", partial(er_ace.er_ace, head="dot")),
        ("er_ace+uer(alpha=0.3)", partial(er_ace.er_ace_uer, alpha=0.3)),
        ("er_ace(head='dot')+uer(alpha=0.3)", partial(er_ace.er_ace_uer, alpha=0.3)),
    ],
)
def test_loss_and_gradients(method, reference, views):
    assert compared(method, reference, views)


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("er_ace", losses.lucir),  # no mask
        ("er_ace", partial(er_ace.er_ace, present=set(range(1, 6)))),  # the range from the first class to the last
        ("er_ace", partial(er_ace.er_ace, present={5, 1, 3, 6})),  # an absent class in the softmax
        ("er_ace", partial(er_ace.er_ace, head="dot")),
        ("er_ace(head='dot')", partial(er_ace.er_ace, head="cos")),
        ("er_ace+uer(alpha=0.3)", partial(er_ace.er_ace_uer, alpha=0.7)),
        ("er_ace+uer(alpha=0.3)", er_ace.er_ace),
    ],
)
def test_a_wrong_equation_is_noticed(method, mutant):
    assert not compared(method, mutant)


def test_the_stream_moves_only_the_rows_of_its_own_classes():
    """Without a memory nothing else can; the labels arrive in an order that is not theirs."""
    learner = Learner(MLP((4,), hidden=0), "er_ace(head='dot')", memory=0, device="cpu")
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    learner.observe(x, ["z", "a", "m"])
    learner.observe(x, [7, "m", 7])
    before = learner.network.head.weight.detach().clone()
    learner.observe(x, ["m", "z", "m"])
    moved = (learner.network.head.weight.detach() != before).any(1).tolist()
    assert dict(zip(learner.labels, moved, strict=True)) == {"z": True, "a": False, "m": True, 7: False}


def test_a_batch_of_one_class_teaches_nothing_by_itself():
    learner = Learner(MLP((4,), hidden=0), "er_ace", memory=0, device="cpu")
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    learner.observe(x, [0, 1, 2])
    before = learner.network.head.weight.detach().clone()
    learner.observe(x, [1, 1, 1])
    assert torch.equal(learner.network.head.weight, before)


def test_the_replay_moves_every_row():
    learner = Learner(MLP((4,), hidden=0), "er_ace(head='dot')", memory=3, device="cpu")
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    learner.observe(x, [0, 1, 2])
    before = learner.network.head.weight.detach().clone()
    learner.observe(x, [1, 1, 1])
    assert (learner.network.head.weight.detach() != before).any(1).all()


@pytest.mark.parametrize(("method", "test"), [("er_ace", "cos"), ("er_ace(head='dot')", "dot"), ("er_ace+uer", "dot")])
def test_form_of_the_test(method, test):
    assert resolve(method).scoring.test == test


@pytest.mark.parametrize("head", ["'cosine'", "3", "None"])
def test_head_is_validated(head):
    with pytest.raises(errors.InputError, match="'head' parameter of er_ace must be one of cos, dot"):
        resolve(f"er_ace(head={head})")
