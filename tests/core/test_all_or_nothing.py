"""A step that fails, whatever the reason, leaves everything as it was before it."""

import pytest
import torch
from torch import nn

from core.made import state
from evenhand import Learner, resolve
from evenhand.core.memory import Memory
from evenhand.errors import InputError
from evenhand.methods.ema import Averaged

METHODS = ["er", "uer", "uer+ema", "derpp", "gmed", "mir", "ss_il", "aser", "gss", "obc", "er_wa", "agem"]
SEVERAL = ["gmed", "mir", "obc", "agem"]  # pass the network more than once in a step
X = torch.rand(60, 6, generator=torch.Generator().manual_seed(0))
Y = [int(5 * row.mean()) for row in X]


class Fragile(nn.Module):
    """Raises at a chosen pass."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
        self.drop = nn.Dropout(0.2)
        self.passes, self.error = 0, None

    def forward(self, x):
        h = self.drop(torch.relu(self.norm(self.first(x))))
        if self.training:
            self.passes -= 1
            if self.error and self.passes == 0:
                raise self.error
        return self.last(h)


def fragile(method="er", **options):
    torch.manual_seed(0)
    model = Fragile()
    return model, Learner(model, method, memory=12, replay=6, device="cpu", **options)


def feed(learner, first, last):
    for start in range(first, last, 6):
        learner.observe(X[start : start + 6], Y[start : start + 6])
    return learner


@pytest.mark.parametrize(("method", "place"), [*((name, 1) for name in METHODS), *((name, 2) for name in SEVERAL)])
@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_model_that_raises(method, place, error, same):
    (model, learner), (_, calm) = fragile(method), fragile(method)
    feed(learner, 0, 30), feed(calm, 0, 30)
    before = state(learner)
    model.passes, model.error = place, error
    with pytest.raises(type(error)):
        learner.observe(X[:6], [*Y[:5], "new"])
    model.error = None
    assert state(learner) == before
    feed(learner, 30, 60), feed(calm, 30, 60)
    assert same(learner, calm)


@pytest.mark.parametrize("optimizer", ["sgd(momentum=0.9)", "adamw", "rmsprop(momentum=0.5)"])
@pytest.mark.parametrize("place", ["write", "follow"])
def test_an_interrupt_after_the_weights_have_moved(optimizer, place, monkeypatch, same):
    (_, learner), (_, calm) = (fragile("uer+ema", optimizer=optimizer, lr=0.01) for _ in range(2))
    feed(learner, 0, 30), feed(calm, 0, 30)
    before, whole = state(learner), {"write": Memory, "follow": Averaged}[place]
    original = getattr(whole, place)

    def interrupted(*arguments):
        original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(whole, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.observe(X[:6], ["new", "newer", *Y[2:6]])
    assert state(learner) == before
    assert len(learner.optimizer.state) == len(calm.optimizer.state)
    feed(learner, 30, 60), feed(calm, 30, 60)
    assert same(learner, calm)


def test_nothing_that_a_failed_step_computed_is_used_later(monkeypatch, same):
    """GSS computes gradients with a copy of the network, after its weights have moved."""
    (_, learner), (_, calm) = fragile("gss"), fragile("gss")
    feed(learner, 0, 30), feed(calm, 0, 30)
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "write", lambda *arguments: 1 / 0)
        for start in range(30, 60, 6):
            try:
                learner.observe(X[start : start + 6], Y[start : start + 6])
            except ZeroDivisionError:
                break
    feed(learner, start, 60), feed(calm, 30, 60)
    assert start < 60 - 6
    assert same(learner, calm)


def test_the_very_first_step_may_fail():
    model, learner = fragile("uer")
    before = state(learner)
    model.passes, model.error = 1, RuntimeError("no")
    with pytest.raises(RuntimeError, match="no"):
        learner.observe(X[:6], Y[:6])
    model.error = None
    assert state(learner) == before
    assert (learner.labels, learner.kind, learner.network.rows) == ([], None, 0)
    learner.observe(torch.rand(3, 6).double(), ["x", "y", "z"])


def test_a_boundary_that_fails_leaves_no_trace(monkeypatch):
    _, learner = fragile("er_wa")
    feed(learner, 0, 12)
    learner.boundary()
    learner.observe(X[:6], ["a", "b", "c", "d", "e", "f"])
    before = state(learner)

    def fail(part, learner):
        learner.network.head.weight.data.mul_(2)
        learner.kept["er_wa.stages"] = [1, 2, 3]
        raise ZeroDivisionError

    monkeypatch.setattr(type(resolve("er_wa").parts("boundary")[0]), "boundary", fail)
    with pytest.raises(ZeroDivisionError):
        learner.boundary()
    assert state(learner) == before


def test_a_memory_that_does_not_fit_is_refused_before_a_weight_moves():
    torch.manual_seed(0)
    learner = Learner(Fragile(), memory=10**12, device="cpu")
    before = state(learner)
    with pytest.raises(InputError, match=r"A memory of 1000000000000 samples of 24 bytes needs 24000\.0 GB, but only"):
        learner.observe(X[:6], Y[:6])
    assert state(learner) == before


def interrupt():
    raise KeyboardInterrupt


def test_an_interrupted_copy_is_not_taken_for_a_state(monkeypatch):
    (_, learner), (_, calm) = fragile("uer"), fragile("uer")
    for _ in range(3):
        for each in (learner, calm):
            each.predict(X[:6]) if each.labels else None
            each.observe(X[:6], Y[:6])
    with monkeypatch.context() as patched:
        patched.setattr(torch, "_foreach_copy_", lambda *arguments: interrupt())
        with pytest.raises(KeyboardInterrupt):
            learner.predict(X[:6])
    assert torch.equal(learner.scores(X[:6]), calm.scores(X[:6]))
    hook = learner.network.trunk.first.register_forward_hook(lambda *arguments: interrupt())
    with monkeypatch.context() as patched:
        patched.setattr(torch, "_foreach_copy_", lambda *arguments: interrupt())
        with pytest.raises(KeyboardInterrupt):
            learner.observe(X[:6], [*Y[:5], "new"])
    with pytest.raises(KeyboardInterrupt):
        learner.observe(X[:6], [*Y[:5], "new"])
    hook.remove()
    assert torch.equal(learner.scores(X[:6]), calm.scores(X[:6]))
    assert (learner.steps, learner.labels) == (calm.steps, calm.labels)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_head_that_failed_to_grow_still_learns(optimizer, same):
    (_, learner), (_, calm) = (fragile("obc", optimizer=optimizer, lr=0.01) for _ in range(2))
    feed(learner, 0, 30), feed(calm, 0, 30)
    second = next(iter(learner.network.extra.values()))
    second.grow = lambda *arguments: interrupt()
    with pytest.raises(KeyboardInterrupt):
        learner.observe(X[:6], ["new", *Y[1:6]])
    del second.grow
    for _ in range(3):
        learner.observe(X[:6], ["new", *Y[1:6]]), calm.observe(X[:6], ["new", *Y[1:6]])
    assert same(learner, calm)
