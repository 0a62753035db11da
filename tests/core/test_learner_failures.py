"""Steps, settings and files that fail, and what is left then."""

import math

import pytest
import torch
from torch import nn

from evenhand import Learner, Network
from evenhand.backbones import MLP, SmallCNN
from evenhand.errors import DivergedError, EvenhandError, InputError

X, Y = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)), [0, 1, 2, 3]


def small(method="er", **options):
    return Learner(MLP((4,), hidden=8), method, **{"memory": 20, "device": "cpu", **options})


def diverged(learner):
    """Make the loss of the next step infinite or NaN."""
    with torch.no_grad():
        learner.network.head.weight.mul_(1e30)
        learner.network.trunk.layer.weight.mul_(1e30)
    return learner


@pytest.mark.parametrize("method", ["uer", "lucir"])
def test_weights_never_become_nan_in_silence(method):
    learner = small(method)
    for scale in (1.0, 1e15, 1e20, 1e25, 1e30):
        try:
            learner.observe(X * scale, Y)
        except EvenhandError:
            continue
    assert all(parameter.isfinite().all() for parameter in learner.network.parameters())


def test_a_diverged_learner_can_still_predict():
    learner = Learner(SmallCNN((1, 8, 8), width=4), "er", device="cpu")
    x = torch.rand(4, 1, 8, 8)
    learner.observe(x, Y)
    with pytest.raises(DivergedError):
        learner.observe(x * 3e38, Y)
    assert learner.scores(x).isfinite().all()


def test_scores_have_a_column_for_every_label_after_a_failed_step():
    learner = small()
    learner.observe(X, Y)
    learner.predict(X)
    with pytest.raises(DivergedError):
        diverged(learner).observe(X, [0, 1, 2, "new"])
    assert learner.scores(X).shape[1] == len(learner.labels)


def test_the_head_grows_while_someone_holds_a_graph():
    learner = small()
    learner.observe(X, Y)
    held = learner.network.logits(learner.network.features(X))
    learner.observe(X, [0, 1, 2, "new"])
    assert held.shape == (4, 4)
    assert learner.scores(X).shape == (4, 5)


def test_the_scale_of_the_cosine_is_saved(tmp_path):
    learner = Learner(Network(MLP((4,), hidden=8), 8, gamma=3.0), "lucir", device="cpu")
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    assert torch.equal(Learner.load(tmp_path / "state", device="cpu").scores(X), learner.scores(X))


def test_loading_leaves_the_global_generator(tmp_path):
    learner = small()
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    state = torch.get_rng_state()
    Learner.load(tmp_path / "state", device="cpu")
    assert torch.equal(state, torch.get_rng_state())


def test_a_refused_setting_leaves_the_module_whole():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(InputError, match="memory"):
        Learner(module, memory=-1, device="cpu")
    Learner(module, device="cpu").observe(X, Y)


def test_a_network_that_has_classes_already():
    network = Network.of(MLP((4,), hidden=8))
    Learner(network, device="cpu").observe(X, Y)
    try:
        learner = Learner(network, device="cpu")
        learner.observe(X, ["a", "a", "b", "b"])
    except InputError:
        return
    assert learner.scores(X).shape == (4, 2)


def test_an_infinite_learning_rate():
    with pytest.raises(InputError, match="'lr'"):
        small(lr=math.inf)


@pytest.mark.parametrize("options", [{"method": 5}, {"method": None}, {"device": "abacus"}])
def test_methods_and_devices_that_are_none(options):
    with pytest.raises(InputError):
        small(**options)


def test_tied_weights_are_saved(tmp_path):
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    module[1].weight = module[0].weight
    learner = Learner(module, device="cpu")
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
