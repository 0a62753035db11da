from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, Network
from evenhand.backbones import MLP
from reference import losses, predictor

REFERENCES = {
    "er": losses.er,
    "lucir": losses.lucir,
    "uer_a": losses.uer_a,
    "uer_a(full=True)": losses.uer_full,
    "uer(alpha=0.3)": partial(losses.uer, alpha=0.3),
    "uer(alpha=0)": partial(losses.uer, alpha=0.0),
}
SHAPES = [(1, 1, 2, 2), (4, 7, 5, 3), (6, 3, 8, 11)]  # batch, replay, dim, classes


@dataclass
class Problem:
    """One predictor and two batches of features, for the toolkit in float64 and as plain lists."""

    network: Network
    batch: Batch
    replay: Batch
    layers: dict[str, Any]
    current: list[Any]
    replayed: list[Any]


def draw(seed, shape, *, views=1, neck=False):
    n, m, dim, classes = shape
    drawn = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=drawn, dtype=torch.float64)
    network = Network.of(MLP((dim,), hidden=0), neck=neck)
    network.grow(classes, drawn)
    network.double()
    layers = {}
    for name in ("head", "neck") if neck else ("head",):
        layer = getattr(network, name)
        layer.weight.data, layer.bias.data = normal(layer.weight.shape), normal(layer.bias.shape)
        layers[name] = (layer.weight.tolist(), layer.bias.tolist())
    made, lists = [], []
    for size in (n, m):
        y = torch.randint(classes, (size,), generator=drawn)
        h = normal(views * size, dim).abs().requires_grad_()
        made.append(Batch(h[:size].detach(), y, views=h))
        lists.append(list(zip(h.tolist(), y.tolist() * views, strict=True)))
    return Problem(network, *made, layers, *lists)


def toolkit(problem, method):
    """The loss that a step would descend, and its gradients, under the reference's names."""
    learner = Learner(problem.network, method, device="cpu")
    loss = learner.method.objective(learner, problem.batch, problem.replay).total
    leaves = {"current": problem.batch.views, "replayed": problem.replay.views}
    for name in problem.layers:
        layer = getattr(problem.network, name)
        leaves |= {f"{name}.W": layer.weight, f"{name}.b": layer.bias}
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return {"loss": loss.detach().numpy()} | {k: g.numpy() for k, g in zip(leaves, gradients, strict=True)}


def reference(problem, loss, **options):
    return loss(problem.layers, problem.current, problem.replayed, **options)


def agree(one, other):
    assert one.keys() == other.keys()
    assert all(np.shape(one[name]) == np.shape(other[name]) for name in one)
    return all(np.allclose(one[name], other[name], rtol=1e-9, atol=1e-12) for name in one)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", REFERENCES)
def test_losses_and_gradients(method, shape, views):
    for seed in range(3):
        problem = draw(seed, shape, views=views)
        assert agree(toolkit(problem, method), reference(problem, REFERENCES[method]))


@pytest.mark.parametrize("couple", ["head", "neck", "both"])
@pytest.mark.parametrize("alpha", [0.3, 1])
def test_losses_and_gradients_with_a_neck(couple, alpha):
    for seed in range(3):
        problem = draw(seed, (4, 6, 5, 3), neck=True)
        found = toolkit(problem, f"uer(alpha={alpha}, couple='{couple}')")
        assert agree(found, reference(problem, losses.uer, alpha=alpha, couple=couple))
        for other in {"head", "neck", "both"} - {couple}:
            assert not agree(found, reference(problem, losses.uer, alpha=alpha, couple=other))


def test_the_neck_of_er_is_dot():
    problem = draw(0, (4, 6, 5, 3), neck=True)
    assert agree(toolkit(problem, "er"), reference(problem, losses.er))


@pytest.mark.parametrize("method", REFERENCES)
def test_a_zero_feature_and_a_zero_row_have_bounded_gradients(method):
    problem = draw(0, (3, 3, 4, 3))
    with torch.no_grad():
        problem.batch.views[0] = 0
        problem.replay.views[1] = 0
        problem.network.head.weight[2] = 0
    problem.current[0] = ([0.0] * 4, problem.current[0][1])
    problem.replayed[1] = ([0.0] * 4, problem.replayed[1][1])
    problem.layers["head"][0][2] = [0.0] * 4
    found = toolkit(problem, method)
    assert all(np.isfinite(value).all() for value in found.values())
    assert agree(found, reference(problem, REFERENCES[method]))


def without_bias(loss):
    def mutated(layers, current, replayed):
        W, b = layers["head"]
        return loss({"head": (W, [0.0] * len(b))}, current, replayed)

    return mutated


def phases_swapped(loss):
    def mutated(layers, current, replayed):
        found = loss(layers, replayed, current)
        return found | {"current": found["replayed"], "replayed": found["current"]}

    return mutated


MUTANTS = [
    ("er", "bias dropped", without_bias(losses.er)),
    ("er", "one mean over the union", partial(losses.union, form="dot")),
    ("er", "learned by cosine", losses.uer_a),
    ("lucir", "one mean over the union", partial(losses.union, form="cos")),
    ("lucir", "replayed by dot product", losses.uer_a),
    ("lucir", "dot product everywhere", losses.er),
    ("uer_a", "phases swapped", phases_swapped(losses.uer_a)),
    ("uer_a", "bias dropped", without_bias(losses.uer_a)),
    ("uer_a", "replayed by cosine as well", partial(losses.uer, alpha=0.5)),
    ("uer_a(full=True)", "half of each", partial(losses.uer, alpha=0.5)),
    ("uer(alpha=0.3)", "alpha on the other side", partial(losses.uer, alpha=0.7)),
    ("uer(alpha=0.3)", "phases swapped", phases_swapped(partial(losses.uer, alpha=0.3))),
    ("uer(alpha=0.3)", "bias dropped", without_bias(partial(losses.uer, alpha=0.3))),
]


@pytest.mark.parametrize(("method", "mutation", "mutant"), MUTANTS, ids=[f"{m}: {what}" for m, what, _ in MUTANTS])
def test_a_wrong_equation_is_noticed(method, mutation, mutant):
    problem = draw(1, (4, 7, 5, 3))
    assert not agree(toolkit(problem, method), reference(problem, mutant))


@pytest.mark.parametrize(("constant", "value"), [("GAMMA", 9.99), ("EPSILON", 0.0)])
def test_a_wrong_constant_is_noticed(constant, value, monkeypatch):
    problem = draw(1, (4, 7, 5, 3))
    found = toolkit(problem, "uer(alpha=0.3)")
    assert agree(found, reference(problem, REFERENCES["uer(alpha=0.3)"]))
    monkeypatch.setattr(predictor, constant, value)
    assert not agree(found, reference(problem, REFERENCES["uer(alpha=0.3)"]))


@pytest.mark.parametrize("method", REFERENCES)
def test_a_step_of_the_learner_descends_the_reference(method):
    """In the learner's own float32: the second step replays all of the first batch, which is the whole memory."""
    drawn = torch.Generator().manual_seed(3)
    first, second = torch.rand(2, 5, 6, generator=drawn)
    y = [0, 1, 2, 0, 1]
    learner = Learner(MLP((6,), hidden=0), method, memory=5, replay=5, lr=0.1, device="cpu")
    learner.observe(first, y)
    head = learner.network.head
    W, b = head.weight.detach().double(), head.bias.detach().double()
    learner.observe(second, y)
    pairs = [list(zip(x.tolist(), y, strict=True)) for x in (second, first)]
    expected = REFERENCES[method]({"head": (W.tolist(), b.tolist())}, *pairs)
    assert np.allclose(head.weight.tolist(), W.numpy() - 0.1 * expected["head.W"], rtol=0, atol=1e-6)
    assert np.allclose(head.bias.tolist(), b.numpy() - 0.1 * expected["head.b"], rtol=0, atol=1e-6)
