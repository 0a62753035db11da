import json
import math

import numpy as np
import pytest
import torch

from evenhand import Learner, Network, resolve
from evenhand.backbones import MLP, SmallCNN
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


def frozen_state(learner):
    tensors = {name: tensor.detach().clone() for name, tensor in learner.state_dict().items()}
    return tensors, json.dumps(learner.facts())


def unchanged(learner, before):
    tensors, facts = frozen_state(learner)
    return (
        facts == before[1]
        and tensors.keys() == before[0].keys()
        and all(torch.equal(tensors[name], before[0][name]) for name in tensors)
    )


@pytest.fixture(params=["fresh", "trained"])
def victim(request, learner, train):
    return learner("uer", augment="crop") if request.param == "fresh" else train("uer", augment="crop", batches=2)


@pytest.mark.parametrize(("x", "sentence"), SAMPLES)
def test_samples_that_cannot_be_learned_leave_no_trace(x, sentence, victim):
    before = frozen_state(victim)
    with pytest.raises(InputError, match=sentence):
        victim.observe(x, [0, "new"])
    assert unchanged(victim, before)


@pytest.mark.parametrize(("y", "sentence"), LABELS)
def test_labels_that_cannot_be_learned_leave_no_trace(y, sentence, victim):
    before = frozen_state(victim)
    with pytest.raises(InputError, match=sentence):
        victim.observe((GOOD * 255).byte(), y)
    assert unchanged(victim, before)


@pytest.mark.parametrize(("x", "sentence"), SAMPLES)
def test_samples_that_cannot_be_predicted_leave_no_trace(x, sentence, train):
    trained = train("uer", batches=2)
    before = frozen_state(trained)
    with pytest.raises(InputError, match=sentence):
        trained.predict(x)
    assert unchanged(trained, before)


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
    before = frozen_state(fresh)
    for ask in (fresh.predict, fresh.scores):
        with pytest.raises(InputError, match=r"has seen no class yet, so it cannot predict\. Call observe first\."):
            ask(GOOD)
    assert unchanged(fresh, before)


def test_vectors_of_another_length():
    learner = Learner(MLP((4,)), device="cpu")
    before = frozen_state(learner)
    with pytest.raises(InputError, match=r"Samples for this mlp must have the shape \(4,\)\. Got \(5,\) instead"):
        learner.observe(torch.zeros(2, 5), [0, 1])
    assert unchanged(learner, before)


def test_vectors_that_are_to_be_augmented():
    learner = Learner(MLP((4,)), augment="scr", device="cpu")
    before = frozen_state(learner)
    with pytest.raises(
        InputError, match=r"Samples with augmented views must be images \(n, c, h, w\)\. Got \(2, 4\) instead"
    ):
        learner.observe(torch.zeros(2, 4), [0, 1])
    assert unchanged(learner, before)


@pytest.mark.parametrize("made", [("uer", "scr"), ("gmed", "none"), ("gmed+uer", "none")])
@pytest.mark.parametrize("x", [GOOD - 0.1, GOOD + 1.5])
def test_images_that_are_to_be_augmented_or_edited_lie_between_0_and_1(x, made, learner):
    made = learner(made[0], augment=made[1])
    before = frozen_state(made)
    with pytest.raises(
        InputError, match=r"to augment or change must be uint8 or floats in \[0, 1\]\. Got .* instead\."
    ):
        made.observe(x, [0, 1])
    assert unchanged(made, before)
    learner("uer").observe(x, [0, 1])  # without augmentation they may be anything


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "uer(alpha=1.5)"}, r"The 'alpha' parameter of uer must be a number in \[0, 1\]\. Got 1\.5 instead"),
        ({"method": "uer(alpha=-0.1)"}, r"The 'alpha' parameter of uer must be .* Got -0\.1 instead"),
        ({"method": "uer(alpha='x')"}, r"The 'alpha' parameter of uer must be .* Got 'x' instead"),
        ({"method": "eur"}, r"There is no method called 'eur'\. Did you mean .*uer"),
        ({"method": "uer(couple='neck')"}, r"couples 'neck', but the network has no neck\. .*neck=True"),
        ({"method": "uer(couple='foot')"}, r"'couple' field of a scoring must be one of head, neck, both\. Got 'foot'"),
        ({"memory": -1}, r"The 'memory' of a learner must be a whole number of at least 0\. Got -1 instead"),
        ({"memory": 0.5}, r"The 'memory' of a learner must be a whole number"),
        ({"replay": 0}, r"The 'replay' of a learner must be a whole number of at least 1\. Got 0 instead"),
        ({"lr": -0.1}, r"The 'lr' of a learner must be a number above 0\. Got -0\.1 instead"),
        ({"lr": math.nan}, r"The 'lr' of a learner must be .* Got nan instead"),
        ({"lr": "fast"}, r"The 'lr' of a learner must be .* Got 'fast' instead"),
        ({"iterations": 0}, r"The 'iterations' of a learner must be a whole number of at least 1\. Got 0 instead"),
        ({"augment": "blur"}, r"'augment' of a learner must be one of none, crop, scr\. Got 'blur' instead"),
        (
            {"augment": "crop", "views": "both"},
            r"'views' of a learner must be one of none, replace, concat\. Got 'both' instead",
        ),
        (
            {"augment": "none", "views": "concat"},
            r"The 'views' of a learner must be none without an augmentation\. Got 'concat' instead",
        ),
        (
            {"augment": "scr", "views": "none"},
            r"The 'views' of a learner must be replace or concat with an augmentation\. Got 'none' instead",
        ),
        ({"passes": "twice"}, r"'passes' of a learner must be one of joint, separate\. Got 'twice' instead"),
        ({"seed": 1.0}, r"The 'seed' of a learner must be a whole number of at least 0\. Got 1\.0 instead"),
        ({"seed": True}, r"The 'seed' of a learner must be a whole number of at least 0\. Got True instead"),
    ],
)
def test_settings_that_cannot_be(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Learner(Network.of(SmallCNN((1, 8, 8))), **options)


@pytest.mark.parametrize("alpha", [0, 1, 0.0, 1.0, 0.25])
def test_alpha_may_touch_its_bounds(alpha):
    assert resolve(f"uer(alpha={alpha})").scoring.replay.dot == alpha


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
