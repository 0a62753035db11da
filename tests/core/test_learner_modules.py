"""Modules that people bring: frozen layers, Dropout, layers in any order, a dim of their own, modes and odd folds."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from evenhand import Learner, Network
from evenhand.backbones import MLP
from evenhand.core.batch import Batch
from evenhand.core.gradients import batch_gradient, sample_gradients
from evenhand.core.scoring import Mix
from evenhand.errors import InputError
from evenhand.files import read_state

METHODS = ["er", "uer", "agem", "mir", "gss", "gmed", "obc", "er_dvc"]


def images(count=4, channels=3, side=8, seed=0):
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(seed))


def classifier(seed=0, **more):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, **more), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(216, 2)
    )


class Patches(nn.Module):
    """Images cut into patches, each embedded by a Linear: its values are not those of an image."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(48, 8)
        self.dim = 99  # of something else
        self.classify = nn.Linear(8, 2)

    def forward(self, x):
        patches = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(len(x), -1, 48)
        return self.classify(self.embed(patches).mean(1))


class LateFirst(nn.Module):
    """The layer that is registered first is not the first to be passed."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Linear(16, 8)
        self.first = nn.Linear(6, 16)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


@pytest.mark.parametrize("method", METHODS)
def test_a_frozen_layer_stays_as_it_is_and_the_others_learn(method):
    model = classifier()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    learner = Learner(model, method, memory=8, replay=4, device="cpu")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for seed in range(6):
        learner.observe(images(seed=seed), [0, 1, 2, 3])
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert not {name for name in moved if name.startswith("0.")}
    assert {"1.weight", "1.running_mean"} <= moved
    assert learner.network.head.weight.shape == (4, 216)


@pytest.mark.parametrize(("module", "x"), [(Patches(), images(side=16)), (LateFirst(), torch.rand(4, 6))])
def test_what_goes_through_is_admitted_however_it_is_built(module, x):
    learner = Learner(module, "er", memory=8, device="cpu")
    learner.observe(x, [0, 1, 2, 3])
    assert len(learner.predict(x)) == 4


@pytest.mark.parametrize(
    ("module", "x", "sentence"),
    [
        (LateFirst(), torch.rand(4, 7), r"cannot process samples of the shape \(7,\): mat1 and mat2"),
        (classifier(), images(channels=1), r"cannot process samples of the shape \(1, 8, 8\): .*chan"),
        (
            classifier(),
            images(side=9),
            r"\(3, 9, 9\) into features of the shape \(294,\), but its head takes \(216,\)\.",
        ),
        (classifier(), torch.rand(4, 192), r"cannot process samples of the shape \(192,\): Expected"),
        (
            Network.of(nn.Sequential(nn.Linear(6, 16)), dim=8),
            torch.rand(4, 6),
            r"samples of the shape \(6,\) into features of the shape \(16,\), but its head takes \(8,\)\.",
        ),
        (
            nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)),
            images(),
            r"into features of the shape \(3, 8, 8\), but its head takes \(8,\)",
        ),
    ],
)
def test_what_does_not_go_through_is_refused_and_leaves_no_trace(module, x, sentence):
    learner = Learner(module, "er", memory=8, device="cpu")
    before = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    with pytest.raises(InputError, match=sentence):
        learner.observe(x, [0, 1, 2, 3])
    assert learner.labels == []
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.state_dict().items())


def test_a_model_in_evaluation_mode_is_trained_all_the_same():
    learner = Learner(classifier().eval(), "er", memory=8, device="cpu")
    before = learner.network.trunk[1].running_mean.clone()
    learner.observe(images(), [0, 1, 2, 3])
    assert all(module.training for module in learner.network.modules())
    assert not torch.equal(learner.network.trunk[1].running_mean, before)


def test_dropout_draws_from_a_generator_of_the_learner(tmp_path, same):
    ends = []
    for outside in (1, 2):
        learner = Learner(classifier(), "er", memory=8, device="cpu")
        torch.manual_seed(outside)
        state = torch.get_rng_state()
        for seed in range(4):
            learner.observe(images(seed=seed), [0, 1, 2, 3])
        assert torch.equal(torch.get_rng_state(), state)
        ends.append(learner)
    assert same(*ends)
    other = Learner(classifier(), "er", memory=8, seed=1, device="cpu")
    assert not torch.equal(other.generators["network"].get_state(), ends[0].generators["network"].get_state())

    ends[0].save(tmp_path / "learner")
    loaded = Learner.load(tmp_path / "learner", classifier(seed=5), device="cpu")
    for learner in (ends[1], loaded):
        learner.observe(images(seed=9), [0, 1, 2, 3])
    assert same(ends[1], loaded)


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
        learner.observe(images(seed=seed), [0, 1, 2, 3])
    still = copy.deepcopy(learner.network).eval()
    with torch.no_grad():
        [expected] = still(images(seed=9))
    assert torch.allclose(learner.scores(images(seed=9)), expected, atol=1e-5)


LOADING = """
import sys, torch
from evenhand import Learner
torch.set_num_threads(1)
learner = Learner.load(sys.argv[1], device="cpu")
learner.observe(torch.eye(4), ["a", "b", "c", "d"])
learner.save(sys.argv[2])
"""


@pytest.mark.parametrize("method", ["mir+uer", "ss_il"])
def test_a_learner_is_loaded_by_a_process_that_knows_nothing_of_it(method, tmp_path):
    learner = Learner(MLP((4,), hidden=8), method, memory=20, device="cpu")
    learner.observe(torch.eye(4), ["a", "b", "c", "d"])
    learner.save(tmp_path / "saved")
    subprocess.run([sys.executable, "-c", LOADING, tmp_path / "saved", tmp_path / "on"], check=True)
    learner.observe(torch.eye(4), ["a", "b", "c", "d"])
    tensors, facts = read_state(tmp_path / "on")
    assert facts == json.loads(json.dumps(learner.facts()))
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in learner.state_dict().items())


NARROW = """
import torch
from torch import nn
from evenhand import Learner

torch.set_num_threads(1)
for side in (8, 16, 32):
    for channels in (1, 2, 3, 5, 7):
        for after in (2, 6, 8, 16):
            first, narrow = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, after, 1, 2, bias=False)
            model = nn.Sequential(first, nn.ReLU(), narrow, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(after, 2))
            learner = Learner(model, memory=20, device="cpu")
            for step in range(3):
                learner.observe(torch.rand(10, 3, side, side), [step % 2] * 10)
            learner.predict(torch.rand(10, 3, side, side))
"""


def test_narrow_strided_convolutions_do_not_corrupt_memory():
    """With the channels last, oneDNN for AVX2 writes beyond its buffers."""
    subprocess.run([sys.executable, "-c", NARROW], check=True)


X, Y = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)), [0, 1, 2, 1]


def mlp(first=None):
    torch.manual_seed(0)
    layers = [nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)]
    return nn.Sequential(*([first] if first else []), *layers)


def small(model, method, **more):
    return Learner(model, method, memory=8, replay=2, device="cpu", lr=0.01, **more)


def test_a_trunk_thawed_after_creation_keeps_its_mode_when_loaded(tmp_path):
    def build():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)), nn.Linear(8, 2))
        model[0].requires_grad_(False).eval()
        return model

    learner = small(build(), "er")
    learner.observe(X, Y)
    learner.network.trunk.requires_grad_(True)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", network=build())
    assert loaded.network.still == learner.network.still == ["trunk.0", "trunk.0.0"]
    assert loaded.observe(X, Y).learning == learner.observe(X, Y).learning


class Scale(nn.Module):
    """Multiplies by the number of steps, which is extra state."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def get_extra_state(self):
        return self.steps

    def set_extra_state(self, steps):
        self.steps = steps

    def forward(self, x):
        self.steps += self.training
        return x * (1 + self.steps)


@pytest.mark.parametrize("method", ["er+ema", "ss_il"])
def test_averages_and_teachers_keep_their_extra_state(method, tmp_path):
    learner = small(mlp(Scale()), method)
    learner.observe(X, Y)
    learner.boundary()
    for _ in range(3):
        learner.observe(X, [3, 4, 3, 4])
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", network=mlp(Scale()))
    assert torch.equal(loaded.scores(X), learner.scores(X))
    assert loaded.observe(X, [3, 4, 3, 4]).replaying == learner.observe(X, [3, 4, 3, 4]).replaying


class Recurrent(nn.Module):
    """A GRU, which vmap cannot batch."""

    def __init__(self):
        super().__init__()
        self.gru, self.classify = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.classify(self.gru(x)[0][:, -1])


def test_gss_takes_the_gradients_of_a_gru_one_by_one():
    learner = small(Recurrent(), "gss")
    x = torch.rand(4, 5, 3, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        learner.observe(x, Y)
    batch, mix = Batch(x, torch.tensor(Y)), Mix(dot=0.5, cos=0.5)
    found = sample_gradients(learner, batch, mix)
    assert torch.equal(found[2], batch_gradient(learner, batch[[2]], mix))
    plain = small(mlp(), "gss")
    plain.observe(X, Y)
    batch = Batch(X, torch.tensor(Y))
    slow = torch.stack([batch_gradient(plain, batch[[row]], mix) for row in range(4)])
    assert torch.allclose(sample_gradients(plain, batch, mix), slow, atol=1e-6)


def test_a_hook_added_later_leaves_the_normalisation_in_place():
    model = classifier()
    learner = Learner(model, "aser", memory=6, replay=2, device="cpu", lr=0.01)
    for _ in range(3):
        learner.observe(5 * images(6), [0, 1, 2] * 2)
    model[0].register_forward_hook(lambda *_: None)
    learner.observe(5 * images(6), [0, 1, 2] * 2)
    expected = learner.eval_copy().features(images(6))
    assert torch.allclose(learner.folded_copy().features(images(6)), expected, atol=1e-5)


class Two(nn.Module):
    """Takes two inputs."""

    def __init__(self):
        super().__init__()
        self.embed, self.classify = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, a, b):
        return self.classify(self.embed(a).relu() + b.unsqueeze(1))


def test_a_boundary_may_come_before_the_first_batch():
    learner = small(Two(), "er_wa(distil=True)")
    learner.boundary()
    for labels in (Y, [3, 4, 3, 4]):
        learner.observe({"a": X, "b": torch.ones(4)}, labels)
        learner.boundary()


@pytest.mark.parametrize("method", ["er_wa(distil=True)", "ss_il"])
def test_a_teacher_of_pretrained_classes_learns_how_to_read_samples(method):
    learner = small(Two(), method, keep=["p", "q"])
    learner.boundary()
    learner.remember({"a": X, "b": torch.ones(4)}, ["p", "q", "p", "q"])
    learner.observe({"a": X, "b": torch.ones(4)}, Y)
    [teacher] = [value for value in learner.kept.values() if isinstance(value, nn.Module)]
    assert teacher.columns == learner.network.columns


@pytest.mark.parametrize("method", ["scr", "er_dvc", "er+ncm"])
def test_what_methods_add_is_float32_whatever_the_default(method):
    learner = None
    torch.set_default_dtype(torch.float64)
    try:
        learner = Learner(classifier().float(), method, memory=8, replay=2, device="cpu")
        for _ in range(2):
            learner.observe(images(6).float(), [0, 1, 2] * 2)
        assert len(learner.predict(images(2).float())) == 2
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_unsigned_integers_are_widened(dtype):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.classify = nn.Linear(3, 2)

        def forward(self, x):
            return self.classify(x / 65535)

    learner = small(Scaled(), "er")
    for _ in range(2):
        learner.observe(np.full((4, 3), 65535, dtype), Y)
    assert len(learner.predict(np.full((1, 3), 65535, dtype))) == 1
