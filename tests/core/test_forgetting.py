"""The memory as a thing of its own: what is in it, erasing from it, filling it before the stream begins."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from evenhand import Learner, resolve
from evenhand.backbones import MLP
from evenhand.core import forgetting
from evenhand.core.batch import Batch
from evenhand.core.memory import Memory
from evenhand.core.parts import part
from evenhand.datasets import load
from evenhand.errors import InputError
from evenhand.files import read_state
from evenhand.methods.er import replacing, reservoir

X = torch.arange(240, dtype=torch.float32).view(60, 4) / 240
Y = [("cat", "dog", "emu")[i % 3] for i in range(60)]


def made(method="uer", memory=12, **options):
    torch.manual_seed(0)
    learner = Learner(MLP((4,), hidden=8), method, memory=memory, replay=4, device="cpu", **options)
    for start in range(0, 60, 6):
        learner.observe(X[start : start + 6], Y[start : start + 6])
    return learner


def test_what_the_memory_holds():
    learner = made()
    x, labels = learner.memory.samples()
    assert len(x) == len(labels) == 12
    assert all(Y[int((row == X).all(1).nonzero())] == label for row, label in zip(x, labels, strict=True))
    dogs, names = learner.memory.samples(label="dog")
    assert set(names) == {"dog"}
    assert learner.memory.label_counts()["dog"] == len(dogs) == labels.count("dog")
    assert learner.memory.samples(label="cow") == (None, [])


def test_what_was_exported_is_what_numpy_and_a_run_read(tmp_path):
    learner = made(memory=60)
    learner.memory.export(tmp_path / "memory.npz")
    with np.load(tmp_path / "memory.npz") as file:
        assert sorted(file) == ["classes", "x", "y"]
        x, labels = learner.memory.samples()
        assert np.array_equal(file["x"], x)
        assert [file["classes"][row] for row in file["y"]] == labels


@pytest.mark.parametrize("shape", [(12, 5, 1), (5, 4, 3), (1, 6, 6)])
def test_exported_images_keep_their_shape(tmp_path, shape):
    x = torch.rand(4, *shape)
    learner = Learner(nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 2)), memory=4, device="cpu")
    learner.observe(x, [0, 1, 0, 1])
    learner.memory.export(tmp_path / "memory.npz")
    assert load(f"npz:{tmp_path / 'memory.npz'}").train_x.shape[1:] == shape


def test_a_run_reads_what_was_exported_after_a_class_was_forgotten(tmp_path):
    learner = made(memory=60)
    learner.forget(label="cat")
    learner.memory.export(tmp_path / "memory.npz")
    data = load(f"npz:{tmp_path / 'memory.npz'}")
    assert data.classes == ("dog", "emu")
    found = {tuple(x.tolist()): data.classes[y] for x, y in zip(data.train_x, data.train_y.tolist(), strict=True)}
    assert found.items() <= {tuple(x.tolist()): y for x, y in zip(X, Y, strict=True)}.items()


@part("tests.core.test_forgetting.Counting")
class Counting:
    """Scores each label by how often the memory holds it."""

    def __call__(self, learner, x):
        labels = learner.memory.samples()[1]
        return torch.tensor([[float(labels.count(label)) for label in learner.labels]]).expand(len(x), -1)


def test_a_prediction_may_look_into_the_memory():
    learner = made(resolve("er").but(prediction=Counting()))
    counts = learner.memory.label_counts()
    assert learner.scores(X[:2]).tolist() == [[float(counts[label]) for label in learner.labels]] * 2


@pytest.mark.parametrize("method", ["uer", "derpp", "gmed", "aser", "gss", "uer+ncm"])
def test_what_is_forgotten_never_comes_back(method, tmp_path, same):
    learner = made(method)
    count = learner.memory.label_counts()["dog"]
    learner.predict(X[:2])
    assert learner.forget(label="dog") == count > 0
    assert "dog" not in learner.memory.label_counts()
    assert len(learner.memory) == 12 - count
    dogs = {tuple(row.tolist()) for row, label in zip(X, Y, strict=True) if label == "dog"}
    learner.save(tmp_path / "state")
    for tensors in (read_state(tmp_path / "state")[0], learner.memory.columns):
        stored = next(tensor for name, tensor in tensors.items() if name in ("memory/x", "x"))
        assert not dogs & {tuple(row.tolist()) for row in stored}
    back = Learner.load(tmp_path / "state", device="cpu")
    for made_ in (learner, back):
        for start in range(0, 60, 6):
            made_.observe(X[start : start + 6], ["cat"] * 6)
            assert "dog" not in made_.memory.label_counts()
    assert same(learner, back)
    assert len(learner.memory) == 12
    assert learner.labels == ["cat", "dog", "emu"]  # the head still has its row


def test_samples_are_forgotten_by_what_they_are():
    learner = made()
    low = int((learner.memory.samples()[0][:, 0] < 0.5).sum())
    assert learner.forget(where=lambda x: x[:, 0] < 0.5) == low > 0
    assert (learner.memory.samples()[0][:, 0] >= 0.5).all()
    assert learner.forget(where=lambda x: x[:, 0] < 0.5) == 0


@pytest.mark.parametrize(
    "options", [{}, {"label": "cat", "where": lambda x: x}, {"where": lambda x: x[:, 0]}, {"where": lambda x: [True]}]
)
def test_what_cannot_be_forgotten_leaves_no_trace(options, same):
    learner, calm = made(), made()
    with pytest.raises(InputError):
        learner.forget(**options)
    assert same(learner, calm)


def test_samples_are_not_forgotten_by_a_mask():
    sentence = "'where' must be a function that takes the samples. Got 'Tensor' instead"
    with pytest.raises(InputError, match=sentence):
        made().forget(where=torch.ones(12, dtype=torch.bool))


def test_every_sample_is_as_likely_to_stay_after_some_were_erased():
    """200 samples are shown to a memory of 20, those of an even number below 100 erased, then 300 more are shown."""
    held = torch.zeros(500)
    trials = 800
    for trial in range(trials):
        memory, drawn = Memory(20), torch.Generator().manual_seed(trial)

        def show(numbers, memory=memory, drawn=drawn):
            for number in numbers:
                u = torch.rand(1, generator=drawn, dtype=torch.float64).item()
                slot = replacing(memory, u) if memory.holes + memory.missed else reservoir(memory, u)
                if slot < memory.size:
                    memory.write(torch.tensor([slot]), Batch(torch.tensor([[float(number)]]), torch.tensor([0])))

        show(range(200))
        values = memory.columns["x"][: len(memory), 0]
        memory.erase(((values < 100) & (values % 2 == 0)).nonzero().flatten())
        show(range(200, 500))
        held[memory.columns["x"][: len(memory), 0].long()] += 1
    held /= trials
    erased = torch.zeros(500, dtype=torch.bool)
    erased[0:100:2] = True
    assert not held[erased].any()
    old, new = held[:200][~erased[:200]].mean(), held[200:].mean()
    assert abs(old / new - 1) < 0.05


def test_a_memory_that_was_emptied_fills_again():
    learner = Learner(MLP((4,)), "er", memory=20, device="cpu")
    for _ in range(5):
        learner.observe(X, ["old"] * len(X))
    learner.forget(label="old")
    learner.observe(X[:20], ["new"] * 20)
    assert len(learner.memory) == 20


def test_a_memory_is_filled_before_the_stream_begins(same):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    learner = Learner(model, "derpp", keep=["cat", "dog"], memory=20, device="cpu")
    before = [parameter.clone() for parameter in learner.network.parameters()]
    learner.remember(X[:10], ["cat", "dog"] * 5)
    assert len(learner.memory) == 10
    assert learner.steps == 0
    assert all(torch.equal(a, b) for a, b in zip(before, learner.network.parameters(), strict=True))
    record = learner.observe(X[10:14], ["emu"] * 4)
    assert record.replaying is not None


def test_many_samples_are_remembered_in_pieces():
    class Counted(nn.Sequential):
        def forward(self, x):
            sizes.append(len(x))
            return super().forward(x)

    sizes = []
    learner = Learner(Counted(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), "derpp", memory=500, device="cpu")
    x, y = torch.rand(700, 4), [0, 1] * 350
    learner.remember(x, y)
    assert max(sizes) <= forgetting.PIECE < 700
    assert sorted(learner.memory.label_counts()) == [0, 1]
    assert len(learner.memory) == 500


@pytest.mark.parametrize("method", ["gss", "obc", "derpp", "aser", "scr", "gmed"])
def test_remembering_needs_no_mode_and_no_method(method, same):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    disturbed, calm = (Learner(copy.deepcopy(model), method, memory=20, replay=4, device="cpu") for _ in range(2))
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    disturbed.network.eval()
    for learner in (disturbed, calm):
        learner.remember(x, [0, 1] * 3)
        learner.remember(x, [0, 1] * 3)
        learner.observe(x, [0, 1] * 3)
    assert same(disturbed, calm)
