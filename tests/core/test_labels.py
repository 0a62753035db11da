"""Labels: what may be one, which are the same one, and which are refused."""

import math
from enum import IntEnum, StrEnum

import numpy as np
import pytest
import torch

from core.made import X, mlp, small, state
from evenhand import Learner
from evenhand.errors import InputError


def test_labels_of_other_types_are_other_classes(learner):
    labels = [1, "1", (1,), ("1",), (1, 1), 0, "", (), ((1,),), 0.5, "True"]
    made = learner("er", "mlp")
    x = torch.rand(len(labels), 1, 8, 8)
    made.observe(x, labels)
    assert [(type(label), label) for label in made.labels] == [(type(label), label) for label in labels]
    assert made.memory.columns["y"][: len(labels)].tolist() == list(range(len(labels)))
    predicted = made.predict(x)
    assert {(type(label), label) for label in predicted} <= {(type(label), label) for label in labels}


def test_equal_numbers_are_one_label(learner):
    made = learner("er", "mlp")
    x = torch.rand(4, 1, 8, 8)
    made.observe(x, [0, 0.0, np.int64(0), np.float32(0)])
    made.observe(x, np.array([0.0, 1.0, 2.0, 2.5]))
    assert [(type(label), label) for label in made.labels] == [(int, 0), (int, 1), (int, 2), (float, 2.5)]


@pytest.mark.parametrize(("first", "then"), [([0, 1], [True, 0]), ([True, False], [0, 0]), (["a", "b"], [1, True])])
def test_booleans_and_numbers_are_not_confused(first, then, learner):
    made = learner("er", "mlp")
    x = torch.rand(2, 1, 8, 8)
    made.observe(x, first)
    with pytest.raises(InputError, match=r"The labels (0|1|True|False) and (0|1|True|False) are equal\. Use only one"):
        made.observe(x, then)
    assert made.labels == first


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([3, 5], [3, 5]),
        (torch.tensor([3, 5]), [3, 5]),
        (np.array([3, 5], dtype=np.uint8), [3, 5]),
        ([np.int64(3), torch.tensor(5)], [3, 5]),
        (np.array(["a", "b"]), ["a", "b"]),
        (torch.tensor([True, False]), [True, False]),
        ([[1, "a"], [2, ["b"]]], [(1, "a"), (2, ("b",))]),
    ],
)
def test_labels_become_plain_python(given, kept, learner):
    made = learner("er", "mlp")
    made.observe(torch.rand(2, 1, 8, 8), given)
    assert made.labels == kept
    assert [type(label) for label in made.labels] == [type(label) for label in kept]


def test_a_class_keeps_its_row_when_others_come(learner, images):
    made = learner("er")
    [(x, _)] = images(1, size=4)
    made.observe(x, ["a", "b", "a", "b"])
    made.observe(x, ["c", "b", "a", "d"])
    assert made.labels == ["a", "b", "c", "d"]
    assert made.network.rows == 4
    assert made.memory.columns["y"][:8].tolist() == [0, 1, 0, 1, 2, 1, 0, 3]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_as_labels_stay_what_they_are(kind):
    learner = small()
    learner.observe(X[:3], torch.tensor([0.0, 0.5, 3.0], dtype=kind))
    assert learner.labels == [0, 0.5, 3]


def test_labels_of_full_precision_neither_merge_nor_split():
    learner = small()
    learner.observe(X[:2], torch.tensor([16777216.0, 16777217.0], dtype=torch.float64))
    assert learner.labels == [16777216, 16777217]
    learner.observe(X[:3], [1 / 3, torch.tensor(1 / 3, dtype=torch.float64), np.float32(123456792)])
    assert learner.labels[2:] == [1 / 3, 123456792]


def test_a_fraction_is_one_label_in_any_precision():
    learner = small()
    learner.observe(X, [0.1, np.float32(0.1), torch.tensor(0.1), np.float64(0.1), np.float16(0.1), 0.5])
    learner.observe(X[:2], np.array([0.1, 0.5], dtype=np.float32))
    learner.observe(X[:2], torch.tensor([0.1, 0.5]))
    assert learner.labels == [0.1, 0.5]


def test_members_of_an_enum_are_their_values(tmp_path):
    class Colour(StrEnum):
        RED = "red"

    class Size(IntEnum):
        BIG = 7

    learner = small()
    learner.observe(X[:2], [Colour.RED, Size.BIG])
    assert [type(label) for label in learner.labels] == [str, int]
    learner.save(tmp_path / "state")
    assert Learner.load(tmp_path / "state", mlp(), device="cpu").labels == ["red", 7] == learner.labels
    for date in (np.array(["2024-01-01", "2024-01-02"], "M8[ns]"), [np.datetime64("2024-01-01", "ns"), 1]):
        with pytest.raises(InputError, match="A label must be a string, a number, a boolean"):
            learner.observe(X[:2], date)


LABELS = [
    ([0], r"The number of labels must be 2, one per sample\. Got 1 instead"),
    ([0, 1, 2], r"The number of labels must be 2, one per sample\. Got 3 instead"),
    ([], r"The number of labels must be 2, one per sample\. Got 0 instead"),
    ([7, None], r"A label must be a string, a number, a boolean or a tuple of these\. Got None instead"),
    ([7, b"cat"], r"A label must be .* Got b'cat' instead"),
    ([7, math.nan], r"A label must be .* Got nan instead"),
    ([7, math.inf], r"A label must be .* Got inf instead"),
    ([7, 1j], r"A label must be .* Got 1j instead"),
    ([7, {"a": 1}], r"A label must be .* Got \{'a': 1\} instead"),
    ([7, ("a", (None,))], r"A label must be .* Got None instead"),
]


@pytest.mark.parametrize(("y", "sentence"), LABELS)
def test_labels_that_cannot_be_learned_leave_no_trace(y, sentence, victim):
    before = state(victim)
    with pytest.raises(InputError, match=sentence):
        victim.observe(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), y)
    assert state(victim) == before


@pytest.mark.parametrize("y", [3, None, torch.tensor(3), "abcd", {0: 1}])
def test_labels_that_are_no_sequence_of_labels(y):
    learner = small("er")
    before = state(learner)
    with pytest.raises(InputError, match="label"):
        learner.observe(X[:4], y)
    assert state(learner) == before


@pytest.mark.parametrize(
    ("y", "fix"), [(torch.tensor([[0], [1]]), r"y\.ravel\(\)"), (np.eye(2), r"y\.argmax\(1\), if they are one-hot")]
)
def test_columns_of_labels_are_refused_with_the_fix(y, fix, learner):
    made = learner("er", "mlp")
    with pytest.raises(InputError, match=fix):
        made.observe(torch.rand(2, 1, 8, 8), y)
    assert made.labels == []


@pytest.mark.parametrize(
    "y",
    [
        [[0], [1]] * 3,
        [["a"], ["b"]] * 3,
        [[0, 1], [1, 0]] * 3,
        [torch.tensor([0])] * 6,
        torch.zeros(6, 1, 1),
        b"ababab",
    ],
)
def test_columns_of_labels_in_any_form(y):
    learner = small()
    with pytest.raises(InputError, match="label"):
        learner.observe(X, y)
    assert learner.labels == []
