"""Samples of any rank and type, and the ways in which people hold them."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from core.made import X, Y, small
from evenhand import Learner
from evenhand.errors import InputError

DRAWN = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("trunk", "shape"),
    [
        (nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6, 2)), (3, 8)),
        (nn.Sequential(nn.Conv3d(1, 2, 2), nn.Flatten(), nn.Linear(2 * 27, 2)), (1, 4, 4, 4)),
        (nn.Sequential(nn.Flatten(), nn.Linear(5 * 6, 2)), (5, 6)),
        (nn.Sequential(nn.Flatten(), nn.Linear(1, 2)), (1,)),
    ],
)
def test_series_volumes_and_sequences(trunk, shape):
    learner = Learner(trunk, memory=10, device="cpu")
    x = torch.rand(6, *shape, generator=DRAWN)
    for _ in range(3):
        learner.observe(x, list("abcabc"))
    assert learner.memory.columns["x"].shape == (10, *shape)
    assert len(learner.predict(x)) == 6


class Frame:
    """What is needed of a DataFrame."""

    iloc, ndim = None, 2

    def __init__(self, values):
        self.values = np.asarray(values)

    def to_numpy(self):
        return self.values


class Series(list):
    """What is needed of a Series: its values, and no more of a sequence than pandas has."""

    def tolist(self):
        return list(self)


ROWS = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize(
    "x",
    [
        ROWS,
        np.array(ROWS),
        np.array(ROWS, dtype=np.float16),
        np.array(ROWS, dtype=">f8"),
        [torch.tensor(row) for row in ROWS],
        [np.array(row) for row in ROWS],
        torch.tensor(ROWS, dtype=torch.float64),
        torch.tensor(ROWS, dtype=torch.bfloat16),
        Frame(ROWS),
    ],
)
def test_however_samples_are_held(x):
    learner = Learner(nn.Linear(3, 2), "er", memory=4, device="cpu")
    learner.observe(x, Series(["a", "b"]))
    assert learner.memory.columns["x"][:2].tolist() == ROWS
    assert learner.labels == ["a", "b"]


def test_images_of_pillow():
    pixels = [np.full((5, 4, 3), value, dtype=np.uint8) for value in (10, 200)]
    learner = Learner(nn.Sequential(nn.Flatten(), nn.Linear(60, 2)), "er", memory=4, device="cpu")
    learner.observe([Image.fromarray(each) for each in pixels], ["dark", "light"])
    assert learner.memory.columns["x"].shape == (4, 3, 5, 4)
    assert learner.memory.columns["x"].dtype == torch.uint8
    assert learner.memory.columns["x"][:2].float().mean((1, 2, 3)).tolist() == [10, 200]


@pytest.mark.parametrize(("mode", "channels"), [("P", 3), ("1", 1), ("L", 1), ("RGBA", 4)])
def test_images_of_every_mode(mode, channels):
    images = [Image.new("RGB", (3, 2), colour).convert(mode) for colour in ("red", "white")]
    learner = small(model=nn.Sequential(nn.Flatten(), nn.Linear(6 * channels, 2)))
    learner.observe(images, Y[:2])
    x, _ = learner.memory.samples()
    assert x.dtype == torch.uint8
    assert x.shape == (2, channels, 2, 3)
    assert x[1].float().mean() == 255


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_numpy_arrays_are_learned_as_tensors_are(dtype, learner, images, same):
    ours, theirs = learner(), learner()
    for x, y in images(2):
        array = x.numpy() if dtype is np.uint8 else (x.numpy() / 255).astype(dtype)
        ours.observe(array, np.array(y))
        theirs.observe(torch.from_numpy(array), y)
    assert same(ours, theirs)


def test_views_of_numpy_arrays_with_negative_strides(learner, images):
    made = learner()
    [(x, y)] = images(1)
    made.observe(x.numpy()[:, :, ::-1], y)
    assert torch.equal(made.memory.columns["x"][:10], x.flip(2))


def test_arrays_that_cannot_be_written():
    x = X.numpy().copy()
    x.setflags(write=False)
    learner = small("er")
    learner.observe(x, Y)
    assert learner.steps == 1


@pytest.mark.parametrize("x", [np.full((6, 4), "a"), np.full((6, 4), None)])
def test_arrays_that_torch_cannot_hold(x):
    with pytest.raises(InputError, match="Samples must be numbers"):
        small("er").observe(x, Y)


def test_numbers_in_the_byte_order_of_another_machine():
    learner = small("er")
    learner.observe(X.numpy().astype(">f4"), Y)
    assert learner.memory.columns["x"][:6].tolist() == X.tolist()


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_unsigned_integers_are_widened(dtype):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.classify = nn.Linear(3, 2)

        def forward(self, x):
            return self.classify(x / 65535)

    learner = small("er", Scaled(), lr=0.01)
    for _ in range(2):
        learner.observe(np.full((6, 3), 65535, dtype), Y)
    assert len(learner.predict(np.full((1, 3), 65535, dtype))) == 1


def test_samples_that_carry_a_gradient():
    learner = small("er")
    embedding = nn.Linear(4, 4)
    for _ in range(3):
        learner.observe(embedding(X), Y)
    assert not learner.memory.columns["x"].requires_grad
    assert embedding.weight.grad is None


def test_a_subclass_of_tensor_is_learned_as_a_tensor():
    class Picture(torch.Tensor):
        pass

    learner = small("er")
    learner.observe(X.as_subclass(Picture), Y)
    assert type(learner.memory.columns["x"]) is torch.Tensor
    assert type(learner.scores(X.as_subclass(Picture))) is torch.Tensor
    assert copy.deepcopy(learner).steps == 1


def test_integers_that_torch_cannot_index():
    with pytest.raises(InputError, match="such as int64. Got 'uint64' instead"):
        small("er").observe(np.ones((6, 3), np.uint64), Y)
