"""Samples that cannot be learned or predicted: each is refused in a sentence, and leaves no trace."""

import math

import pytest
import torch
from torch import nn

from core.made import X, Y, small, state
from evenhand import Learner
from evenhand.backbones import MLP, ReducedResNet18
from evenhand.errors import InputError

GOOD = torch.zeros(2, 1, 8, 8)
BIG = torch.full((2, 1, 8, 8), 1e300, dtype=torch.float64)
SAMPLES = [
    (
        torch.zeros(2, 3, 8, 8),
        r"have the shape \(1, 8, 8\)\. Got \(3, 8, 8\)|cannot process samples of the shape \(3, 8, 8\)",
    ),
    (torch.zeros(2, 64), r"have the shape \(1, 8, 8\)\. Got \(64,\)|cannot process samples of the shape \(64,\)"),
    (torch.zeros(1, 8, 8), r"have the shape \(1, 8, 8\)\. Got \(8, 8\)|cannot process samples of the shape \(8, 8\)"),
    (torch.zeros(8), r"at least one sample: \(n, d\), \(n, c, h, w\), \(n, \.\.\.\)\. Got \(8,\) instead"),
    (torch.zeros(0, 1, 8, 8), r"at least one sample: .* Got \(0, 1, 8, 8\) instead"),
    (torch.zeros(2, 1, 0, 8), r"at least one sample: .* Got \(2, 1, 0, 8\) instead"),
    (
        GOOD.index_fill(3, torch.tensor([2]), math.nan),
        r"Samples must be finite\. This batch has NaN or infinite values",
    ),
    (GOOD.index_fill(3, torch.tensor([2]), -math.inf), r"Samples must be finite"),
    (BIG, r"Samples must be finite"),
    (GOOD.long(), r"be of type uint8 \(1, 8, 8\), like the first\. Got 'int64 .* instead|cannot process samples"),
    (GOOD.bool(), r"be of type uint8 .* Got 'bool .* instead|cannot process samples"),
    (GOOD.to(torch.complex64), r"be of type uint8 .* Got 'complex64 .* instead|cannot process samples"),
    ([[1.0, 2.0], [3.0]], r"The samples of a list must all have the same shape"),
    ([["a", "b"], ["c", "d"]], r"Samples must be numbers\. Got '<U1' instead"),
    (None, r"Samples must be a torch tensor, a numpy array, a pandas DataFrame, or a list .* Got 'NoneType' instead"),
]


@pytest.mark.parametrize(("x", "sentence"), SAMPLES)
def test_samples_that_cannot_be_learned_leave_no_trace(x, sentence, victim):
    before = state(victim)
    with pytest.raises(InputError, match=sentence):
        victim.observe(x, [0, "new"])
    assert state(victim) == before


@pytest.mark.parametrize(("x", "sentence"), SAMPLES)
def test_samples_that_cannot_be_predicted_leave_no_trace(x, sentence, train):
    trained = train("uer", batches=2)
    before = state(trained)
    with pytest.raises(InputError, match=sentence):
        trained.predict(x)
    assert state(trained) == before


def test_a_refused_batch_changes_nothing_that_comes_later(learner, images, same):
    disturbed, calm = learner("uer", augment="scr"), learner("uer", augment="scr")
    for x, y in images(4):
        with pytest.raises(InputError):
            disturbed.observe(x, [*y[:-1], None])
        for made in (disturbed, calm):
            made.observe(x, y)
    assert same(disturbed, calm)


def test_predicting_before_observing(learner):
    fresh = learner()
    before = state(fresh)
    for ask in (fresh.predict, fresh.scores):
        with pytest.raises(InputError, match=r"has seen no class yet, so it cannot predict\. Call observe first\."):
            ask(GOOD)
    assert state(fresh) == before


def test_vectors_of_another_length():
    learner = Learner(MLP((4,)), device="cpu")
    before = state(learner)
    with pytest.raises(InputError, match=r"Samples for this mlp must have the shape \(4,\)\. Got \(5,\) instead"):
        learner.observe(torch.zeros(2, 5), [0, 1])
    assert state(learner) == before


@pytest.mark.parametrize(
    ("make", "wrong", "right"),
    [
        (lambda: MLP((4,), hidden=0), (4, 5), (4, 4)),
        (lambda: ReducedResNet18((3, 8, 8), width=2), (4, 3, 64, 64), (4, 3, 8, 8)),
    ],
)
def test_samples_of_another_shape_than_the_backbones(make, wrong, right):
    learner = Learner(make(), device="cpu")
    with pytest.raises(InputError):
        learner.observe(torch.rand(wrong), Y[:4])
    assert learner.labels == []
    learner.observe(torch.rand(right), Y[:4])


def test_vectors_that_are_to_be_augmented():
    learner = Learner(MLP((4,)), augment="scr", device="cpu")
    before = state(learner)
    with pytest.raises(
        InputError, match=r"Samples with augmented views must be images \(n, c, h, w\)\. Got \(2, 4\) instead"
    ):
        learner.observe(torch.zeros(2, 4), [0, 1])
    assert state(learner) == before


@pytest.mark.parametrize("made", [("uer", "scr"), ("gmed", "none"), ("gmed+uer", "none")])
@pytest.mark.parametrize("x", [GOOD - 0.1, GOOD + 1.5])
def test_images_that_are_to_be_augmented_or_edited_lie_between_0_and_1(x, made, learner):
    made = learner(made[0], augment=made[1])
    before = state(made)
    with pytest.raises(
        InputError, match=r"to augment or change must be uint8 or floats in \[0, 1\]\. Got .* instead\."
    ):
        made.observe(x, [0, 1])
    assert state(made) == before
    learner("uer").observe(x, [0, 1])  # without augmentation they may be anything


@pytest.mark.parametrize("augment", ["none", lambda x: x])
def test_images_that_a_method_edits_are_bounded(augment, learner):
    made = learner("gmed", augment=augment)
    with pytest.raises(InputError, match=r"floats in \[0, 1\]"):
        made.observe(torch.full((2, 1, 8, 8), 3.0), [0, 1])
    assert made.labels == []


@pytest.mark.parametrize("first", [torch.rand(2, 3), torch.zeros(2, 3, dtype=torch.uint8)])
def test_predictions_ask_for_the_type_that_was_learned(first):
    learner = Learner(nn.Linear(3, 2), "er", memory=4, device="cpu")
    learner.observe(first, [0, 1])
    other = torch.rand(2, 3) if first.dtype == torch.uint8 else torch.zeros(2, 3, dtype=torch.uint8)
    with pytest.raises(InputError, match="Every sample must be of type"):
        learner.predict(other)


@pytest.mark.parametrize("bytes_first", [True, False])
def test_samples_of_another_type_than_the_first(bytes_first):
    learner = small("er")
    as_bytes = torch.randint(256, X.shape, dtype=torch.uint8)
    learner.observe(as_bytes if bytes_first else X, Y)
    before = state(learner)
    with pytest.raises(InputError):
        learner.observe(X if bytes_first else as_bytes, Y)
    assert state(learner) == before


def test_a_second_batch_must_be_of_the_same_kind():
    learner = small("er")
    before = state(learner)
    with pytest.raises(InputError, match="'second' batch must have samples of the same type and shape as the first"):
        learner.observe(X, Y, second=(torch.randint(256, X.shape, dtype=torch.uint8), Y))
    assert state(learner) == before


def test_a_tuple_of_one_tensor_is_not_the_tensor():
    for first, then in ((X, (X,)), ((X,), X)):
        learner = small("er")
        learner.observe(first, Y)
        for call in (learner.predict, lambda x, to=learner: to.observe(x, Y)):
            with pytest.raises(InputError, match=r"Every sample must be of type .*a tuple of float32 \(4,\)"):
                call(then)
        assert len(learner.predict(first)) == 6


def test_a_bad_second_batch_leaves_no_trace():
    learner = small("er")
    before = state(learner)
    with pytest.raises(InputError):
        learner.observe(X, Y, second=(torch.rand(6, 5), Y))
    assert state(learner) == before
