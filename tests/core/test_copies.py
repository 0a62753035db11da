"""The copies that predict and try things out: they compute what the network itself would, whatever it is made of."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from core.made import classifier, pictures
from evenhand import Learner
from evenhand.core.cloning import cloned

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


class Between(nn.Module):
    """Uses what comes between the layers of a Sequential."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

    def forward(self, x):
        h = self.layers[0](x)
        return h + self.layers[1](h)


@pytest.mark.parametrize("own", [{}, {"track_running_stats": False}])
def test_predictions_are_those_of_the_network_in_evaluation_mode(own):
    class Backwards(nn.Sequential):
        """One with a way of its own: neighbours do not follow each other."""

        def forward(self, x):
            return self[1](self[0](self[2](x)))

    torch.manual_seed(0)
    trunk = nn.Sequential(Backwards(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.BatchNorm2d(3)), classifier(**own))
    odd = nn.Sequential(Backwards(nn.ReLU(), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)), Between(), trunk)
    learner = Learner(odd, "er", memory=8, device="cpu")
    for seed in range(4):
        learner.observe(pictures(seed=seed), [0, 1, 2, 3])
    still = copy.deepcopy(learner.network).eval()
    with torch.no_grad():
        [expected] = still(pictures(seed=9))
    assert torch.allclose(learner.scores(pictures(seed=9)), expected, atol=1e-5)


def test_a_hook_added_later_leaves_the_normalisation_in_place():
    model = classifier()
    learner = Learner(model, "aser", memory=6, replay=2, device="cpu", lr=0.01)
    for _ in range(3):
        learner.observe(5 * pictures(6), [0, 1, 2] * 2)
    model[0].register_forward_hook(lambda *_: None)
    learner.observe(5 * pictures(6), [0, 1, 2] * 2)
    expected = learner.eval_copy().features(pictures(6))
    assert torch.allclose(learner.folded_copy().features(pictures(6)), expected, atol=1e-5)


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
