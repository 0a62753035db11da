"""Modules of TorchScript and of torch.fx: they learn, fail and are copied like any other."""

import copy

import pytest
import torch
from torch import nn

from core.made import X, Y, mlp, small
from evenhand import Network


@pytest.mark.parametrize("compiled", [torch.jit.script, lambda module: torch.jit.trace(module, X)])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_trunk_of_torchscript(compiled):
    ours, plain = (small("uer+ema", model=Network.of(trunk, dim=8)) for trunk in (compiled(mlp()[:2]), mlp()[:2]))
    for learner in (ours, plain):
        for _ in range(3):
            learner.observe(X, Y)
    torch.testing.assert_close(ours.scores(X), plain.scores(X))


class Scripted(nn.Module):
    """A scripted part, whose tensors Python does not hold."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.part = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()))
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.part(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_failed_step_of_a_scripted_module_leaves_no_trace(same, monkeypatch):
    learner, twin = small(model=Scripted()), small(model=Scripted())
    for each in (learner, twin):
        each.observe(X, Y)
    with monkeypatch.context() as broken:
        broken.setattr(learner.optimizer, "step", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learner.observe(X, [7, 8] * 3)
    assert learner.labels == [0, 1]
    for each in (learner, twin):
        each.observe(X, Y)
    assert same(learner, twin)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_copy_of_a_learner_with_a_scripted_part_learns_on(same):
    learner = small(model=Scripted())
    learner.observe(X, Y)
    copied = copy.deepcopy(learner)
    for each in (learner, copied):
        each.observe(X, Y)
    assert same(learner, copied)


def test_a_traced_graph_is_a_module_like_any_other(same):
    traced, plain = small(model=torch.fx.symbolic_trace(mlp())), small()
    for each in (traced, plain):
        each.observe(X, Y)
    copied = copy.deepcopy(traced)
    for each in (traced, plain, copied):
        each.observe(X, Y)
    assert torch.equal(traced.scores(X), plain.scores(X))
    assert same(traced, copied)
