"""Clones of modules, also of those that copy.deepcopy refuses: locks, hooks, ties, shared dicts, computed weights."""

import threading

import pytest
import torch
from torch import nn

from core.made import X, Y, small
from evenhand import Learner
from evenhand.core.cloning import cloned, refresh


class Stateful(nn.Module):
    """Stores an activation with its graph, holds a lock, and a hook that is one of its methods."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.lock, self.calls, self.seen = threading.Lock(), [], None
        self.first.register_forward_hook(self.note)

    def note(self, module, inputs, output):
        self.calls.append(len(output))

    def forward(self, x):
        with self.lock:
            self.seen = torch.relu(self.first(x))
            return self.last(self.seen)


def normed(function):
    return lambda: nn.Sequential(function(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 3))


MODULES = {
    "stateful": Stateful,
    "weight_norm": normed(nn.utils.parametrizations.weight_norm),
    "spectral_norm": normed(nn.utils.parametrizations.spectral_norm),
    "old weight_norm": normed(torch.nn.utils.weight_norm),
    "old spectral_norm": normed(torch.nn.utils.spectral_norm),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated:FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("method", ["uer", "mir", "uer+ema"])
def test_modules_that_cannot_be_deep_copied(name, method, tmp_path):
    torch.manual_seed(0)
    model = MODULES[name]()
    learner = Learner(model, method, memory=8, replay=4, device="cpu")
    for _ in range(5):
        learner.observe(X, [0, 1, 2] * 2)
        scores = learner.scores(X)
    if method != "uer+ema":
        with torch.no_grad():
            model.eval()
            expected = learner.network(X)[0]
        assert torch.allclose(scores, expected, atol=1e-5)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", MODULES[name](), device="cpu")
    assert torch.allclose(back.scores(X), scores, atol=1e-6)


def test_predicting_leaves_what_a_module_stores():
    model = Stateful()
    learner = Learner(model, "er", memory=8, device="cpu")
    learner.observe(X, [0, 1, 2] * 2)
    seen, calls = model.seen, list(model.calls)
    learner.predict(X)
    assert model.seen is seen
    assert model.calls == calls


def test_a_clone_has_tensors_of_its_own_and_ties_them_as_the_module_does():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    module[1].weight = module[0].weight
    copied = cloned(module)
    assert copied[1].weight is copied[0].weight
    assert copied[0].weight is not module[0].weight
    with torch.no_grad():
        module[0].weight.add_(1)
    assert not torch.equal(copied[0].weight, module[0].weight)
    assert refresh(copied, module)
    assert torch.equal(copied[1].weight, module[1].weight)
    assert not refresh(copied, nn.Linear(4, 4))


class Sharing(nn.Module):
    """Two parts that pass something on through a dict which both hold."""

    class First(nn.Linear):
        def forward(self, x):
            self.shared["x"] = x
            return super().forward(x)

    class Second(nn.Linear):
        def forward(self, x):
            return super().forward(x + self.shared["x"])

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.Sequential(Sharing.First(4, 4), Sharing.Second(4, 8))
        self.last, shared = nn.Linear(8, 2), {}
        shared["itself"] = self.parts[0].shared = self.parts[1].shared = shared

    def forward(self, x):
        return self.last(self.parts(x))


def test_parts_that_share_a_dict_share_one_in_a_copy():
    learner = small(model=Sharing())
    learner.observe(X, Y)
    with torch.no_grad():
        [expected] = learner.network(X[:3])
    assert torch.equal(learner.scores(X[:3]), expected)
