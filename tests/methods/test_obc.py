import copy
import re
from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Learner, backbones, errors
from evenhand.backbones import MLP
from evenhand.core import registry
from reference import losses, obc

LABELS = [0, 1, 2, 0, 1]


def layers_of(network):
    return {"head": (network.head.weight.tolist(), network.head.bias.tolist())}


def steps(method, reference):
    """Whether a step ends at the W and b of a reference; the memory is the first batch, so both draws are all of it."""
    drawn = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 5, 6, generator=drawn)
    learner = Learner(MLP((6,), hidden=0), method, memory=5, replay=5, lr=0.3, device="cpu")
    learner.observe(first, LABELS)
    before = layers_of(learner.network)
    learner.observe(second, LABELS[::-1])
    current = list(zip(second.tolist(), LABELS[::-1], strict=True))
    replayed = list(zip(first.tolist(), LABELS, strict=True))
    expected = reference(before, current, replayed)["head"]
    return all(
        np.allclose(a, b, rtol=0, atol=1e-5) for a, b in zip(layers_of(learner.network)["head"], expected, strict=True)
    )


def test_both_steps():
    for name in ("obc", "obc(apart=5)", "obc(separate=True, apart=0)"):
        assert steps(name, lambda layers, b, r: obc.obc(layers, b, r, r, 0.3))
        assert steps(f"{name}+uer(alpha=0.3)", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3, alpha=0.3))
    one_head = partial(obc.obc, separate=False)
    assert steps("obc(apart=0)", lambda layers, b, r: one_head(layers, b, r, r, 0.3))
    assert steps("obc(apart=0)+uer(alpha=0.3)", lambda layers, b, r: one_head(layers, b, r, r, 0.3, alpha=0.3))


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("obc", lambda layers, b, r: obc.moved(layers, losses.er(layers, b, r), 0.3)),  # no second step
        ("obc", lambda layers, b, r: obc.obc(layers, b, r, [*b, *r], 0.3)),  # the stream in the second step
        ("obc", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3, alpha=0.3)),
        ("obc", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3, separate=False)),
        ("obc(apart=0)", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3)),
        ("obc(separate=True, apart=0)", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3, separate=False)),
        ("obc+uer(alpha=0.3)", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3, alpha=0.7)),
        ("obc+uer(alpha=0.3)", lambda layers, b, r: obc.obc(layers, b, r, r, 0.3)),
    ],
)
def test_a_wrong_equation_is_noticed(method, mutant):
    assert not steps(method, mutant)


def pair(learner, images, method="obc(apart=0)"):
    """OBC and ER after the same two batches, the second of which replays the whole first."""
    made = [learner(name, memory=10, replay=10, lr=0.2) for name in (method, "er")]
    for each in made:
        for x, y in images(2):
            each.observe(x, y)
    return made


@pytest.mark.parametrize("method", ["obc(apart=0)", "obc(separate=True, apart=0)"])
def test_the_second_step_moves_the_head_alone(method, learner, images):
    corrected, plain = pair(learner, images, method)
    ours, theirs = corrected.network.state_dict(), plain.network.state_dict()
    differing = {name for name in ours if not torch.equal(ours[name], theirs[name])}
    assert differing == {"head.weight", "head.bias"}
    assert any("running" in name for name in ours)
    assert any("num_batches" in name for name in ours)


def test_the_second_step_on_features_of_a_trunk(learner, images):
    """Features by batch statistics and by the weights after the first step."""
    corrected, plain = pair(learner, images)
    draws = learner("obc(apart=0)", memory=10, replay=10)  # the memory after step 1, before the second batch changed it
    (x, y), _ = images(2)
    draws.observe(x, y)
    stored = draws.memory.read(torch.arange(10))
    trunk = copy.deepcopy(plain.network.trunk).train()
    h = trunk(stored.x / 255).detach()
    layers = layers_of(plain.network)
    batch = list(zip(h.tolist(), stored.y.tolist(), strict=True))
    expected = obc.moved(layers, obc.correction(layers, batch), 0.2)["head"]
    for found, value in zip(layers_of(corrected.network)["head"], expected, strict=True):
        assert np.allclose(found, value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", ["obc(apart=0)", "obc(separate=True, apart=0)"])
def test_it_is_er_while_the_memory_is_empty(method, learner, images, same):
    one, other = learner(method), learner("er")
    for each in (one, other):
        each.observe(*images(1)[0])
    assert same(one, other)


def test_the_second_batch_is_another_draw():
    """Memory i is the i-th unit vector: more columns move than one draw of two could move."""
    learner = Learner(MLP((8,), hidden=0), "obc(apart=0)", memory=8, replay=2, device="cpu")
    learner.observe(torch.eye(8), [0, 1] * 4)
    counts = []
    for _ in range(20):
        before = learner.network.head.weight.detach().clone()
        still = learner.method.but(storage=lambda *_: None)
        still.step(learner, learner.memory.read(torch.tensor([0])))
        counts.append(int((learner.network.head.weight.detach() != before)[:, 1:].any(0).sum()))
    assert max(counts) == 4


def test_the_second_step_leaves_the_neck(learner, images):
    made = [learner(m, "mlp", neck=True, memory=10, replay=10) for m in ("obc(apart=0)", "er")]
    for each in made:
        for x, y in images(2):
            each.observe(x, y)
    assert torch.equal(made[0].network.neck.weight, made[1].network.neck.weight)
    assert not torch.equal(made[0].network.head.weight, made[1].network.head.weight)


def test_apart_from_the_tested_head_it_is_er_with_another(images):
    """The second head and the trunk move as ER's would, had its head begun with the same weights."""
    made = [
        Learner(backbones.build("small_cnn", (1, 8, 8)), name, memory=10, replay=10, rows=10, device="cpu")
        for name in ("obc(apart=4)", "er")
    ]
    corrected, plain = (each.network for each in made)
    plain.load_state_dict(
        {**corrected.state_dict(), **corrected.extra["makeshift"].state_dict(prefix="head.")}, strict=False
    )
    first = corrected.head.weight.detach().clone()
    for each in made:
        for x, y in images(2):
            each.observe(x, y)
    for name, value in plain.trunk.state_dict().items():
        assert torch.equal(corrected.trunk.state_dict()[name], value), name
    assert torch.equal(corrected.extra["makeshift"].weight, plain.head.weight)
    assert not torch.equal(corrected.head.weight, first)
    assert not torch.equal(corrected.head.weight, plain.head.weight)


@pytest.mark.parametrize(("method", "count"), [("obc(apart=6)", 6), ("obc", 10)])
def test_the_head_apart_learns_as_many_memories_as_are_asked_for(method, count):
    learner = Learner(MLP((12,), hidden=0), method, memory=12, replay=2, device="cpu")
    learner.observe(torch.eye(12), [0, 1] * 6)
    before = learner.network.head.weight.detach().clone()
    learner.observe(torch.eye(12)[:1], [0])
    assert int((learner.network.head.weight.detach() != before).any(0).sum()) == count


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("obc(apart=-1)", "The 'apart' parameter of obc must be a whole number of at least 0. Got -1 instead."),
        ("obc(apart=1.5)", "The 'apart' parameter of obc must be a whole number"),
        ("obc(separate=1)", "The 'separate' parameter of obc must be"),
        ("obc(separate=True)", "The 'apart' parameter of obc must be 0 with separate=True, which has one head. Got 10"),
    ],
)
def test_options_are_checked(name, sentence):
    with pytest.raises(errors.InputError, match=re.escape(sentence)):
        registry.resolve(name)
