"""Samples of any rank and type, several inputs, and the ways in which people hold them."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from evenhand import Learner
from evenhand.errors import InputError

DRAWN = torch.Generator().manual_seed(0)


class Tokens(nn.Module):
    """A small transformer over tokens, with or without a mask."""

    def __init__(self, result=lambda logits, h: logits):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.classify = nn.Linear(8, 2)
        self.result = result

    def forward(self, input_ids, attention_mask=None):
        h = self.embed(input_ids)
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        h = self.mix(h, src_key_padding_mask=attention_mask == 0)
        weight = attention_mask.unsqueeze(2).float()
        h = (h * weight).sum(1) / weight.sum(1)
        return self.result(self.classify(h), h)


def tokens(count=12):
    """Two classes: small tokens and large ones."""
    y = [i % 2 for i in range(count)]
    drawn = torch.randint(0, 10, (count, 7), generator=DRAWN)
    return drawn + 10 * torch.tensor(y).unsqueeze(1), y


def accuracy(learner, x, y):
    return sum(a == b for a, b in zip(learner.predict(x), y, strict=True)) / len(y)


def test_tokens_are_learned_as_they_are(tmp_path):
    torch.manual_seed(0)
    learner = Learner(Tokens(), memory=30, lr=0.2, device="cpu")
    for _ in range(40):
        learner.observe(*tokens())
    assert learner.memory.columns["x"].dtype == torch.int64
    assert accuracy(learner, *tokens(40)) > 0.9
    learner.save(tmp_path / "tokens")
    x, y = tokens()
    back = Learner.load(tmp_path / "tokens", Tokens(), device="cpu")
    for made in (learner, back):
        made.observe(x, y)
    assert torch.equal(back.scores(x), learner.scores(x))


@pytest.mark.parametrize("method", ["uer", "mir", "er_ace", "uer+ncm", "derpp", "aser", "agem"])
@pytest.mark.parametrize("named", [True, False])
def test_several_inputs_are_stored_and_replayed_together(method, named, tmp_path):
    torch.manual_seed(0)
    learner = Learner(
        Tokens(lambda logits, h: {"logits": logits, "hidden": h}), method, memory=30, lr=0.1, device="cpu"
    )

    def batch(count=12):
        x, y = tokens(count)
        mask = torch.ones_like(x)
        mask[:, 5:] = 0
        x[:, 5:] = torch.randint(0, 20, (count, 2), generator=DRAWN)  # noise that the mask hides
        return ({"input_ids": x, "attention_mask": mask} if named else (x, mask)), y

    for _ in range(25):
        learner.observe(*batch())
    x, y = batch(60)
    assert accuracy(learner, x, y) > 0.8
    learner.save(tmp_path / "several")
    back = Learner.load(tmp_path / "several", Tokens(lambda logits, h: {"logits": logits, "hidden": h}), device="cpu")
    assert torch.equal(back.scores(x), learner.scores(x))


def test_a_model_is_not_told_the_noise_that_a_mask_hides():
    torch.manual_seed(0)
    learner = Learner(Tokens(), memory=30, device="cpu")
    x, y = tokens()
    mask = torch.ones_like(x)
    mask[:, 3:] = 0
    learner.observe({"input_ids": x, "attention_mask": mask}, y)
    other = torch.where(mask == 1, x, 0)
    asked = [learner.scores({"input_ids": ids, "attention_mask": mask}) for ids in (x, other)]
    assert torch.allclose(*asked, atol=1e-6)


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


@pytest.mark.parametrize("first", [torch.rand(2, 3), torch.zeros(2, 3, dtype=torch.uint8)])
def test_predictions_ask_for_the_type_that_was_learned(first):
    learner = Learner(nn.Linear(3, 2), "er", memory=4, device="cpu")
    learner.observe(first, [0, 1])
    other = torch.rand(2, 3) if first.dtype == torch.uint8 else torch.zeros(2, 3, dtype=torch.uint8)
    with pytest.raises(InputError, match="Every sample must be of type"):
        learner.predict(other)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (
            {"input_ids": torch.zeros(2, 3).long(), "attention_mask": torch.zeros(3, 3)},
            "must all have the same number of samples",
        ),
        ({"ids": torch.zeros(2, 3).long()}, "cannot process samples of 1 tensors: .*unexpected keyword argument 'ids'"),
        ({"input_ids": np.array(["a", "b"])}, "Samples must be numbers"),
        ((torch.zeros(2, 3).long(), torch.full((2, 3), torch.nan)), "Samples must be finite"),
    ],
)
def test_several_inputs_that_do_not_fit(x, sentence):
    learner = Learner(Tokens(), memory=4, device="cpu")
    with pytest.raises(InputError, match=sentence):
        learner.observe(x, [0, 1])
    assert learner.labels == []
    learner.observe(torch.ones(2, 3).long(), [0, 1])
    with pytest.raises(InputError):
        learner.observe(x, [0, 1])
    assert learner.steps == 1


@pytest.mark.parametrize("method", ["gmed", "uer"])
def test_tokens_can_be_neither_edited_nor_augmented(method):
    learner = Learner(Tokens(), method, memory=4, device="cpu", augment="none" if method == "gmed" else "scr")
    with pytest.raises(InputError, match="Samples that this method edits|Samples with augmented views"):
        learner.observe(torch.ones(2, 3).long(), [0, 1])


@pytest.mark.parametrize("augment", ["none", lambda x: x])
def test_images_that_a_method_edits_are_bounded(augment, learner):
    made = learner("gmed", augment=augment)
    with pytest.raises(InputError, match=r"floats in \[0, 1\]"):
        made.observe(torch.full((2, 1, 8, 8), 3.0), [0, 1])
    assert made.labels == []


def test_numbers_of_numpy_as_settings(same):
    def made(whole, real):
        torch.manual_seed(0)
        return Learner(nn.Linear(3, 2), memory=whole(8), replay=whole(4), lr=real(0.25), seed=whole(3), device="cpu")

    one, other = made(np.int64, np.float32), made(int, float)
    for learner in (one, other):
        learner.observe(ROWS, [0, 1])
    assert same(one, other)
    assert one.facts() == other.facts()
