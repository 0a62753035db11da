"""Models of tokens and of several inputs, by name or by position: stored, replayed and refused together."""

import numpy as np
import pytest
import torch
from torch import nn

from core.made import X, Y, small
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


class Pair(nn.Module):
    """Takes ids and a mask of another type."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, ids, mask=None):
        h = self.embed(ids)
        return self.last(h.mean(1) if mask is None else (h * mask.unsqueeze(2)).mean(1))


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.uint8, torch.int64])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_columns_of_any_width_and_order(kind, length):
    ids, mask = torch.randint(10, (4, length)), torch.ones(4, length, dtype=kind)
    for x in ({"ids": ids, "mask": mask}, {"mask": mask, "ids": ids}):
        learner = small(model=Pair())
        learner.observe(x, list("abab"))
        learner.observe({"ids": ids, "mask": mask}, list("abab"))  # names are keywords, in any order
        stored = learner.memory.samples()[0]
        assert torch.equal(stored["ids"][:4], ids)
        assert stored["mask"].dtype == kind


def test_an_augmentation_of_packed_samples_is_refused():
    learner = small(model=Pair(), augment=lambda x: x + 1)
    with pytest.raises(InputError, match="Only samples of a single tensor can be augmented"):
        learner.observe({"ids": torch.ones(4, 3).long()}, Y[:4])


def test_a_first_batch_that_fails_decides_nothing():
    learner = small(model=Pair())
    ids = torch.randint(10, (4, 3))
    with pytest.raises(InputError):
        learner.observe((ids, torch.ones(4, 3)), [1])
    learner.observe(ids, Y[:4])
    assert len(learner.predict(ids)) == 4


def test_what_is_asked_first_decides_nothing():
    learner = small(model=Pair(), keep=["a", "b"])
    ids, mask = torch.randint(10, (4, 3)), torch.ones(4, 3)
    learner.predict(ids)
    learner.observe({"ids": ids, "mask": mask}, list("abab"))
    assert len(learner.predict({"ids": ids, "mask": mask})) == 4


def test_lengths_beside_sequences():
    class Summed(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)

        def forward(self, x, lengths):
            return self.last(x / lengths.unsqueeze(1))

    learner = small(model=Summed())
    learner.observe({"x": X, "lengths": torch.arange(1, 7)}, Y)
    assert learner.memory.samples()[0]["lengths"].tolist() == [1, 2, 3, 4, 5, 6]


class Two(nn.Module):
    """Takes two inputs."""

    def __init__(self):
        super().__init__()
        self.embed, self.classify = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, a, b):
        return self.classify(self.embed(a).relu() + b.unsqueeze(1))


def test_a_boundary_may_come_before_the_first_batch():
    learner = small("er_wa(distil=True)", Two(), lr=0.01)
    learner.boundary()
    for labels in (Y, [3, 4] * 3):
        learner.observe({"a": X, "b": torch.ones(6)}, labels)
        learner.boundary()


@pytest.mark.parametrize("method", ["er_wa(distil=True)", "ss_il"])
def test_a_teacher_of_pretrained_classes_learns_how_to_read_samples(method):
    learner = small(method, Two(), keep=["p", "q"], lr=0.01)
    learner.boundary()
    learner.remember({"a": X, "b": torch.ones(6)}, ["p", "q"] * 3)
    learner.observe({"a": X, "b": torch.ones(6)}, Y)
    [teacher] = [value for value in learner.kept.values() if isinstance(value, nn.Module)]
    assert teacher.columns == learner.network.columns
