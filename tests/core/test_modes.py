"""Training and evaluation mode, and layers that are frozen or thawed."""

import copy

import pytest
import torch
from torch import nn

from core.made import X, Y, classifier, mlp, pictures, small
from evenhand import Learner


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


def test_a_model_in_evaluation_mode_is_trained_all_the_same():
    learner = Learner(classifier().eval(), "er", memory=8, device="cpu")
    before = learner.network.trunk[1].running_mean.clone()
    learner.observe(pictures(), [0, 1, 2, 3])
    assert all(module.training for module in learner.network.modules())
    assert not torch.equal(learner.network.trunk[1].running_mean, before)


METHODS = ["er", "uer", "agem", "mir", "gss", "gmed", "obc", "er_dvc"]


@pytest.mark.parametrize("method", METHODS)
def test_a_frozen_layer_stays_as_it_is_and_the_others_learn(method):
    model = classifier()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    learner = Learner(model, method, memory=8, replay=4, device="cpu")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for seed in range(6):
        learner.observe(pictures(seed=seed), [0, 1, 2, 3])
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert not {name for name in moved if name.startswith("0.")}
    assert {"1.weight", "1.running_mean"} <= moved
    assert learner.network.head.weight.shape == (4, 216)


def test_a_trunk_thawed_after_creation_keeps_its_mode_when_loaded(tmp_path):
    def build():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5)), nn.Linear(8, 2))
        model[0].requires_grad_(False).eval()
        return model

    learner = small("er", build(), lr=0.01)
    learner.observe(X, Y)
    learner.network.trunk.requires_grad_(True)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", network=build())
    assert loaded.network.still == learner.network.still == ["trunk.0", "trunk.0.0"]
    assert loaded.observe(X, Y).learning == learner.observe(X, Y).learning


def test_layers_that_were_thawed_stay_thawed(tmp_path):
    def frozen():
        model = mlp()
        model[0].requires_grad_(False)
        return model

    learner = small(model=frozen())
    learner.observe(X, Y)
    learner.network.trunk[0].requires_grad_(True)
    learner.save(tmp_path / "thawed")
    back = Learner.load(tmp_path / "thawed", frozen(), device="cpu")
    assert back.network.trunk[0].weight.requires_grad


@pytest.mark.parametrize("method", ["er", "mir(candidates=20)", "gmed", "gss"])
def test_thawed_layers_take_part_in_what_is_tried_out(method, tmp_path, same):
    def model():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        layers[0].requires_grad_(False)
        return layers

    drawn = torch.Generator().manual_seed(0)
    batches = [(torch.rand(6, 4, generator=drawn), [0, 1, 2] * 2) for _ in range(20)]
    learner = Learner(model(), method, memory=30, replay=3, device="cpu")
    for x, y in batches[:8]:
        learner.observe(x, y)
    learner.network.trunk.requires_grad_(True)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", model(), device="cpu")
    for x, y in batches[8:]:
        learner.observe(x, y)
        loaded.observe(x, y)
    assert same(learner, loaded)


def test_a_file_decides_which_modules_learn(tmp_path, same):
    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8).requires_grad_(False), nn.BatchNorm1d(8), nn.Linear(8, 2))

    x, y = torch.rand(6, 4), [0, 1] * 3
    learner = Learner(model(), memory=20, replay=4, device="cpu")
    learner.observe(x, y)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", model().eval(), device="cpu")
    for one in (learner, loaded):
        one.observe(x, y)
    assert same(learner, loaded)
    assert loaded.network.still == []
