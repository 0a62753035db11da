"""Training and evaluation mode, frozen trunks, and modules that cannot be deep-copied."""

import copy
import threading

import pytest
import torch
from torch import nn

from evenhand import Learner
from evenhand.core.cloning import cloned, refresh

X = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))


def pretrained():
    torch.manual_seed(0)
    trunk = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    trunk.requires_grad_(False)
    return nn.Sequential(trunk.eval(), nn.Linear(8, 3))


def test_a_frozen_trunk_in_evaluation_mode_stays_in_it(tmp_path):
    learner = Learner(pretrained(), "er", memory=8, device="cpu")
    trunk = learner.network.trunk[0]
    before = copy.deepcopy(trunk.state_dict())
    for _ in range(4):
        learner.observe(X, [0, 1, 2] * 2)
    assert not trunk.training
    assert not trunk[2].training
    assert all(torch.equal(before[name], tensor) for name, tensor in trunk.state_dict().items())
    learner.save(tmp_path / "frozen")
    thawed = pretrained().train()
    thawed.requires_grad_(True)  # built as it was, but neither frozen nor put into evaluation mode
    back = Learner.load(tmp_path / "frozen", thawed, device="cpu")
    for made in (learner, back):
        made.observe(X, [0, 1, 2] * 2)
    assert not back.network.trunk[0].training
    assert torch.equal(back.scores(X), learner.scores(X))
    assert all(torch.equal(before[name], tensor) for name, tensor in back.network.trunk[0].state_dict().items())


def test_modes_set_outside_do_not_change_how_it_learns(same):
    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

    models = model(), model()
    disturbed, calm = (Learner(each, "uer", memory=8, device="cpu") for each in models)
    for _ in range(3):
        models[0].eval()
        for learner in (disturbed, calm):
            learner.observe(X, [0, 1, 2] * 2)
            learner.predict(X)
    assert same(disturbed, calm)


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


def test_predicting_between_steps_copies_no_module(monkeypatch):
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    learner = Learner(conv, "uer", memory=8, device="cpu", tests="ema")
    x = torch.rand(6, 1, 4, 4)
    for _ in range(3):
        learner.predict(x) if learner.labels else None
        learner.predict(x, test="ema") if learner.labels else None
        learner.observe(x, [0, 1, 2] * 2)
    made = []
    monkeypatch.setattr("evenhand.core.copies.cloned", lambda *a: made.append(1) or cloned(*a))
    monkeypatch.setattr("evenhand.core.kept.cloned", lambda *a: made.append(1) or cloned(*a))
    for _ in range(3):
        learner.predict(x)
        learner.predict(x, test="ema")
        learner.observe(x, [0, 1, 2] * 2)
    assert made == []


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
