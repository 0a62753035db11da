import json
import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is imported: test processes share the cores

import pytest
import torch
from hypothesis import settings

from evenhand import Learner, Network
from evenhand.backbones import MLP, SmallCNN
from evenhand.core.draws import seeded

torch.set_num_threads(1)  # for fixtures of whole modules, which are made before any test begins
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def one_thread():
    """Begin every test with one thread, whatever the one before it has set."""
    torch.set_num_threads(1)


@pytest.fixture
def images():
    """Make batches of small images of `classes` classes, each class bright in another corner."""

    def make(batches, *, classes=4, size=10, channels=1, seed=0):
        drawn = torch.Generator().manual_seed(seed)
        made = []
        for _ in range(batches):
            y = torch.randint(classes, (size,), generator=drawn)
            x = torch.randint(0, 128, (size, channels, 8, 8), generator=drawn, dtype=torch.uint8)
            for image, label in zip(x, y.tolist(), strict=True):
                image[:, 4 * (label % 2) :, 4 * (label // 2 % 2) :][..., :4, :4] += 100
            made.append((x, y.tolist()))
        return made

    return make


@pytest.fixture
def learner():
    """Make a small learner; two made alike start with the same bits."""

    def make(method="uer", backbone="cnn", *, neck=False, **options):
        with seeded(0, "init"):
            trunk = SmallCNN((1, 8, 8), width=4) if backbone == "cnn" else MLP((1, 8, 8), hidden=16)
            network = Network.of(trunk, neck=neck)
        return Learner(network, method, **{"memory": 30, "device": "cpu", **options})

    return make


@pytest.fixture
def train(learner, images):
    """Train a small learner on classes that come two at a time, with `batches` batches of each pair."""

    def run(method, backbone="cnn", *, batches=8, **options):
        made = learner(method, backbone, **options)
        for pair in (0, 2):
            for x, y in images(batches, classes=2, seed=pair):
                made.observe(x, [label + pair for label in y])
        return made

    return run


@pytest.fixture
def same():
    """Compare every tensor (NaN equals NaN), and every fact but the method and those named, of two learners."""

    def compare(one, other, but=()):
        a, b = one.state_dict(), other.state_dict()
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a) and facts(one, but) == facts(other, but)

    def facts(learner, but):
        left_out = {"method", "modules", *but}
        return {name: json.dumps(value) for name, value in learner.facts().items() if name not in left_out}

    def equal(a, b):
        return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())

    return compare
