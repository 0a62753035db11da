"""To which learner a module belongs, and when it is whole and free again."""

import pytest
import torch
from torch import nn

from core.made import X, Y, mlp, small
from evenhand import Learner, Network
from evenhand.backbones import MLP
from evenhand.errors import InputError, RunError


def test_a_module_that_belongs_to_a_learner_is_named_as_such():
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    Learner(model, device="cpu")
    with pytest.raises(InputError, match="This Sequential already belongs to a learner"):
        Learner(model, device="cpu")


def test_a_backbone_belongs_to_one_learner():
    trunk = MLP((4,))
    first = small(model=trunk)
    with pytest.raises(InputError, match="This MLP already belongs to a learner"):
        small(model=trunk)
    first.observe(X, Y)


def test_a_second_learner_of_a_network_leaves_the_first_alone():
    network = Network.of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)))
    learner = Learner(network, device="cpu")
    learner.observe(X, Y)
    before = learner.scores(X)
    for _ in range(2):
        with pytest.raises(InputError, match="already belongs to a learner"):
            Learner(network, device="cpu")
    assert torch.equal(learner.scores(X), before)


def test_a_network_of_a_saved_learner_in_use_is_left_alone(tmp_path):
    learner = small()
    learner.observe(X, Y)
    learner.save(tmp_path / "saved")
    before = learner.scores(X)
    with pytest.raises(InputError, match="already belongs to a learner"):
        Learner.load(tmp_path / "saved", learner.network, device="cpu")
    assert torch.equal(learner.scores(X), before)


def test_a_network_that_has_classes_already():
    network = Network.of(MLP((4,), hidden=8))
    Learner(network, device="cpu").observe(X[:4], [0, 1, 2, 3])
    with pytest.raises(InputError, match="must start without rows. This one has 4"):
        Learner(network, device="cpu").observe(X, Y)


def test_a_refused_setting_leaves_the_module_whole():
    module = mlp()
    with pytest.raises(InputError, match="memory"):
        Learner(module, memory=-1, device="cpu")
    Learner(module, device="cpu").observe(X, Y)


@pytest.mark.parametrize("options", [{"keep": ["a"]}, {"clip": -1}, {"optimizer": lambda parameters: 1 / 0}])
def test_a_constructor_that_fails_leaves_the_module_whole(options):
    model = mlp()
    with pytest.raises((InputError, ZeroDivisionError)):
        small(model=model, **options)
    small(model=model, keep=["a", "b"]).observe(X, ["a", "c"] * 3)


def test_a_network_can_be_used_after_a_mistake():
    network = Network.of(mlp())
    with pytest.raises(InputError, match="the network has no neck"):
        Learner(network, "uer(couple='both')", device="cpu")
    Learner(network, device="cpu").observe(X, Y)


def test_a_module_is_free_again_after_a_failed_load(tmp_path):
    small().save(tmp_path / "empty")
    wide = small(model=nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3)))
    wide.observe(X, Y)
    wide.save(tmp_path / "wide")
    model = mlp()
    with pytest.raises((InputError, RunError), match="do not fit this network"):
        Learner.load(tmp_path / "wide", model, device="cpu")
    assert isinstance(model[2], nn.Linear)
    Learner.load(tmp_path / "empty", model, device="cpu").observe(X, Y)
