"""The copies that predict and try things out: they compute what the network itself would, whatever it is made of."""

import copy
import queue

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from evenhand import Learner, Network
from evenhand.backbones import MLP
from evenhand.errors import InputError

X = torch.rand(12, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = [0, 1, 2] * 4


class Shifted(nn.Conv2d):
    """A convolution with another forward."""

    def forward(self, x):
        return super().forward(x) + 1


def plain():
    return nn.Conv2d(4, 4, 3, padding=1)


def halving(module):
    module.register_forward_hook(lambda module, x, y: y / 2)
    return module


def used_twice():
    pair = nn.Sequential(plain(), nn.BatchNorm2d(4))
    return [pair, nn.ReLU(), pair]


def shared_activation():
    act = nn.ReLU()
    return [plain(), act, nn.BatchNorm2d(4), plain(), act, nn.BatchNorm2d(4)]


LAYERS = {
    "plain": lambda: [plain(), nn.BatchNorm2d(4), nn.ReLU()],
    "a shared activation": shared_activation,
    "layers used twice": used_twice,
    "a convolution of one's own": lambda: [Shifted(4, 4, 3, padding=1), nn.BatchNorm2d(4)],
    "a hook on the normalisation": lambda: [plain(), halving(nn.BatchNorm2d(4))],
    "a hook on the convolution": lambda: [halving(plain()), nn.BatchNorm2d(4)],
    "weight normalisation": lambda: [nn.utils.weight_norm(plain()), nn.BatchNorm2d(4)],
    "parametrized": lambda: [parametrizations.weight_norm(plain()), nn.BatchNorm2d(4)],
    "spectral": lambda: [nn.utils.spectral_norm(plain()), nn.BatchNorm2d(4)],
    "pruned": lambda: [prune.l1_unstructured(plain(), "weight", 0.5), nn.BatchNorm2d(4)],
}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_predictions_are_those_of_the_plain_module(layers):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), *LAYERS[layers](), nn.Flatten(), nn.Linear(144, 3))
    learner = Learner(model, "er", memory=20, replay=4, device="cpu")
    for _ in range(3):  # a copy is made once, then brought up to date
        learner.observe(X, Y)
        with torch.no_grad():
            assert torch.allclose(learner.scores(X), learner.module()(X), atol=1e-5)


class Viewed(nn.Module):
    """Flattens in a way that forbids channels to come last."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3), nn.Linear(144, 3)

    def forward(self, x):
        return self.last(torch.relu(self.conv(x)).view(len(x), -1))


@pytest.mark.parametrize("options", [{"rows": 4}, {"keep": [0, 1, 2]}])
def test_a_copy_from_before_the_first_batch_gets_the_layout_found_then(options):
    learner = Learner(Viewed(), "er", memory=20, device="cpu", **options)
    learner.boundary()
    learner.observe(X, Y)
    assert len(learner.predict(X)) == 12


class Scaled(nn.Module):
    """Keeps its scale as extra state."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.scale = nn.Linear(4, 8), nn.Linear(8, 2), 1.0

    def forward(self, x):
        if self.training:
            self.scale = 0.5 * self.scale + 0.5 * float(x.abs().max())
        return self.last(torch.relu(self.first(x / self.scale)))

    def get_extra_state(self):
        return {"scale": self.scale}

    def set_extra_state(self, state):
        self.scale = state["scale"]


def test_predictions_follow_extra_state_and_a_failed_step_restores_it(tmp_path, monkeypatch):
    learner = Learner(Scaled(), "er", memory=20, replay=4, device="cpu", lr=0.01)
    x = 50 * torch.rand(6, 4)
    for _ in range(5):
        learner.observe(x, [0, 1] * 3)
        learner.predict(x)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", Scaled(), device="cpu")
    assert torch.equal(loaded.scores(x), learner.scores(x))
    scale = learner.network.trunk.scale

    def failing(loss):
        assert learner.network.trunk.scale != scale
        raise RuntimeError("after the forward pass")

    monkeypatch.setattr(learner, "descend", failing)
    with pytest.raises(RuntimeError, match="after the forward pass"):
        learner.observe(2 * x, [0, 1] * 3)
    assert learner.network.trunk.scale == scale


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


@pytest.mark.parametrize("method", ["obc", "scr", "er_dvc"])
def test_the_modules_of_a_method_are_on_the_device_of_the_network(method):
    network = Learner(MLP((4,)), method, device="meta").network
    assert {parameter.device.type for parameter in network.parameters()} == {"meta"}


def test_a_file_is_not_loaded_into_a_network_with_another_scale(tmp_path):
    learner = Learner(Network.of(MLP((4,)), gamma=30.0), memory=20, device="cpu")
    learner.observe(torch.rand(4, 4), [0, 1, 0, 1])
    learner.save(tmp_path / "state")
    with pytest.raises(InputError, match="Build it as it was when it was saved"):
        Learner.load(tmp_path / "state", Network.of(MLP((4,))), device="cpu")
    loaded = Learner.load(tmp_path / "state", Network.of(MLP((4,)), gamma=30.0), device="cpu")
    assert loaded.network.head.gamma == 30


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


def test_a_copy_of_a_learner_shares_who_is_told_of_steps():
    told = queue.Queue()
    learner = Learner(MLP((4,)), memory=20, device="cpu", on_step=told.put)
    learner.observe(torch.rand(4, 4), [0, 1, 0, 1])
    copy.deepcopy(learner).observe(torch.rand(4, 4), [0, 1, 0, 1])
    assert [told.get_nowait().steps, told.get_nowait().steps] == [1, 2]


def test_an_attribute_called_recipe_means_nothing():
    class Own(nn.Sequential):
        recipe = "v1"

    learner = Learner(Own(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), memory=20, device="cpu")
    learner.observe(torch.rand(4, 4), [0, 1, 0, 1])
    assert len(learner.predict(torch.rand(3, 4))) == 3
