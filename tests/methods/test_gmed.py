import numpy as np
import pytest
import torch

from evenhand import Batch, Learner
from evenhand.backbones import MLP
from evenhand.core import memory
from evenhand.core.draws import seeded
from evenhand.core.registry import resolve
from evenhand.errors import InputError
from evenhand.methods.gmed import UniformEdited
from reference import gmed, mir

DOT, COS = [("dot", 1.0)], [("cos", 1.0)]
MIXED = [("dot", 0.3), ("cos", 0.7)]
OPTIONS = "stride=1.0, decay=0.2, beta=0.3"
RIGHT = {"lr": 0.4, "stride": 1.0, "decay": 0.2, "beta": 0.3, "learn": DOT, "replay": DOT}
UER = {**RIGHT, "learn": COS, "replay": MIXED}
CASES = {
    "gmed": {**RIGHT, "stride": 0.1, "decay": 0.0, "beta": 0.01},
    f"gmed({OPTIONS})": RIGHT,
    f"gmed({OPTIONS}, sign='code')": {**RIGHT, "beta": -0.3},
    f"gmed({OPTIONS})+uer(alpha=0.3)": UER,
}


def trained(method, hidden=5, seed=0, steps=6):
    """A learner of 2x2 images whose memory is full and has been edited, and a new batch."""
    drawn = torch.Generator().manual_seed(seed)
    with seeded(seed, "init"):
        learner = Learner(MLP((1, 2, 2), hidden), method, memory=12, replay=5, lr=0.4, seed=seed, device="cpu")
    images = torch.randint(60, 200, (steps + 1, 6, 1, 2, 2), generator=drawn, dtype=torch.uint8)
    labels = torch.randint(3, (steps + 1, 6), generator=drawn)
    for x, y in zip(images[:-1], labels[:-1], strict=True):
        learner.observe(x, y)
    return learner, Batch(images[-1], labels[-1] % len(learner.labels))


def edit(method, hidden=5, seed=0):
    """What the toolkit makes of the drawn memories, and what the reference needs to do the same."""
    learner, batch = trained(method, hidden, seed)
    x, ages = learner.memory.columns["x"].clone(), learner.memory.columns["age"].clone()
    theta = mir.layers(learner.network.state_dict())
    replay = learner.method.retrieval(learner, batch)
    drawn = list(
        zip(x[replay.slots].double().flatten(1).tolist(), replay.y.tolist(), ages[replay.slots].tolist(), strict=True)
    )
    current = list(zip((batch.x.double() / 255).flatten(1).tolist(), batch.y.tolist(), strict=True))
    return replay.x.flatten(1).tolist(), (theta, current, drawn)


def agree(found, expected):
    return np.allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("method", CASES)
def test_memories_are_edited_as_by_the_reference(method, hidden):
    moved, ages = 0.0, set()
    for seed in range(3):
        found, given = edit(method, hidden, seed)
        expected = gmed.edit(*given, **CASES[method])
        assert agree(found, expected)
        moved = max(moved, np.abs(np.array(expected) - [x for x, _, _ in given[2]]).max())
        ages |= {age for _, _, age in given[2]}
    assert moved > (0.05 if method != "gmed" else 1e-4)
    assert len(ages) > 2


@pytest.mark.parametrize(
    "mutation",
    [
        {"beta": -0.3},
        {"beta": 0.0},
        {"stride": -1.0},
        {"decay": 0.0},
        {"lr": -0.4},
        {"lr": 0.0},
        {"lr": 2.4},
        {"learn": MIXED},
        {"replay": COS},
        {"learn": MIXED, "replay": COS},
    ],
    ids=str,
)
def test_a_wrong_edit_is_noticed(mutation):
    found, given = edit(f"gmed({OPTIONS})+uer(alpha=0.3)", seed=1)
    assert agree(found, gmed.edit(*given, **UER))
    assert not agree(found, gmed.edit(*given, **(UER | mutation)))


def test_an_edit_by_hand():
    """0.5 + 0.1 (3 - 1 - 0.01) = 0.699 at age 0, half the way at age 1; what leaves [0, 1] is cut off."""
    x = torch.tensor([0.5, 0.5, 0.99]).view(3, 1, 1, 1)
    before, after = torch.ones(3, 1, 1, 1), torch.full((3, 1, 1, 1), 3.0)
    ages = torch.tensor([0, 1, 0])
    assert UniformEdited(decay=0.5).edit(x, ages, before, after).flatten().tolist() == pytest.approx(
        [0.699, 0.5995, 1.0]
    )
    by_code = UniformEdited(sign="code").edit(x, ages, before, after).flatten().tolist()
    assert by_code == pytest.approx([0.701, 0.701, 1.0])
    down = UniformEdited(stride=1).edit(x, ages, after, before).flatten().tolist()
    assert down == [0.0, 0.0, 0.0]
    vectors = UniformEdited(stride=1, beta=0).edit(x.view(3, 1), ages, after.view(3, 1), before.view(3, 1))
    assert vectors.flatten().tolist() == pytest.approx([-1.5, -1.5, -1.01])


def test_a_decay_of_one_edits_once():
    x, before, after = torch.full((2, 1), 0.5), torch.zeros(2, 1), torch.ones(2, 1)
    assert UniformEdited(decay=1).edit(x, torch.tensor([0, 1]), before, after).flatten().tolist() == pytest.approx(
        [0.6, 0.5]
    )


def test_edits_are_written_back_and_counted():
    learner, batch = trained(f"gmed({OPTIONS})")
    columns = learner.memory.columns
    x, ages = columns["x"].clone(), columns["age"].clone()
    replay = learner.method.retrieval(learner, batch)
    drawn = torch.zeros(12, dtype=torch.bool)
    drawn[replay.slots] = True
    assert drawn.sum() == 5
    assert torch.equal(columns["age"], ages + drawn)
    assert torch.equal(columns["x"][~drawn], x[~drawn])
    assert torch.equal(columns["x"][replay.slots], replay.x)
    assert (columns["x"] != x).flatten(1).any(1)[drawn].all()


def test_new_memories_start_unedited():
    learner, batch = trained("gmed", steps=1)
    assert learner.memory.columns["age"].tolist() == [0] * 12
    learner.method.retrieval(learner, batch)
    assert sum(learner.memory.columns["age"].tolist()) == 5
    learner.memory.offered = 0  # the next six samples take the first slots again
    learner.method.storage(learner, batch)
    assert learner.memory.columns["age"].tolist()[:6] == [0] * 6
    assert torch.equal(learner.memory.columns["x"][:6], batch.x.float() / 255)


@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_images_stay_floats_between_0_and_1(learner, images, kind):
    made = learner("gmed(stride=50.0)", lr=0.5)
    for x, y in images(6):
        made.observe(x if kind == "bytes" else x / 255, y)
        held = made.memory.columns["x"][: len(made.memory)]
        assert held.dtype == torch.float32
        assert held.min() >= 0
        assert held.max() <= 1
    assert (held == 0).any()  # so the clamp had something to do
    assert (held == 1).any()


def test_samples_come_back_in_the_type_that_was_observed(learner, images):
    made = learner("gmed")
    [(x, y)] = images(1)
    x[:3, 0, 0, 0], x[3:, 0, 0, 0] = 255, 0
    made.observe(x, y)
    assert torch.equal(made.memory.samples()[0], x)
    assert made.forget(where=lambda x: x[:, 0, 0, 0] > 128) == 3
    made.observe(x, y)
    assert made.memory.columns["age"].any()
    assert made.memory.samples()[0].dtype == torch.uint8


def test_edited_bytes_take_the_room_of_floats(learner, images, monkeypatch):
    monkeypatch.setattr(memory, "_free", lambda device: 100 * 64)
    [(x, y)] = images(1)
    learner("er", memory=100).observe(x, y)
    with pytest.raises(InputError, match="A memory of 100 samples of 256 bytes needs"):
        learner("gmed", memory=100).observe(x, y)


def test_the_edited_images_are_learned():
    """The step after a retrieval sees what the memory holds, not what was drawn."""
    learner, batch = trained(f"gmed({OPTIONS})")
    replay = learner.method.retrieval(learner, batch)
    assert torch.equal(replay.inputs, learner.memory.columns["x"][replay.slots])


def test_edited_images_survive_a_file_to_the_bit(learner, images, same, tmp_path):
    made = learner("gmed(stride=1.0, decay=0.1)")
    for x, y in images(6):
        made.observe(x, y)
    held, ages = made.memory.columns["x"].clone(), made.memory.columns["age"]
    assert ages.max() > 1
    assert not torch.equal((held * 255).round() / 255, held)  # bytes could not hold them
    made.save(tmp_path / "gmed.safetensors")
    loaded = Learner.load(tmp_path / "gmed.safetensors", device="cpu")
    assert torch.equal(loaded.memory.columns["x"], held)
    assert torch.equal(loaded.memory.columns["age"], ages)
    for x, y in images(3, seed=1):
        made.observe(x, y)
        loaded.observe(x, y)
    assert same(made, loaded)
    assert not torch.equal(loaded.memory.columns["x"], held)


def test_a_stride_of_zero_is_er(train):
    still, er = train("gmed(stride=0)"), train("er")
    assert all(
        torch.equal(a, b)
        for a, b in zip(still.network.state_dict().values(), er.network.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize(
    ("field", "value", "must"),
    [
        ("stride", -0.1, "a number of at least 0"),
        ("stride", float("nan"), "a number of at least 0"),
        ("decay", 1.5, r"a number in \[0, 1\]"),
        ("decay", -0.5, r"a number in \[0, 1\]"),
        ("beta", -0.01, "a number of at least 0"),
        ("beta", "small", "a number of at least 0"),
        ("sign", "minus", "one of paper, code"),
    ],
)
def test_options_are_checked(field, value, must):
    with pytest.raises(InputError, match=f"'{field}' parameter of gmed must be {must}"):
        UniformEdited(**{field: value})


def test_options_come_from_the_name():
    assert resolve("gmed(stride=2, sign='code')").retrieval == UniformEdited(stride=2.0, sign="code")
