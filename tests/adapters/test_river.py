"""EvenhandClassifier is a river classifier by its own checks, and a learner to the bit."""

import doctest
import pickle

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("river")

import pandas as pd
from river import checks, compose, datasets, evaluate, metrics, preprocessing

from evenhand import Learner
from evenhand.adapters import river
from evenhand.adapters.river import EvenhandClassifier
from evenhand.backbones import MLP
from evenhand.core.draws import seeded

pytestmark = pytest.mark.slow

MODEL = EvenhandClassifier(device="cpu")
CHECKS = [check for check in checks.yield_checks(MODEL) if check.__name__ not in MODEL._unit_test_skips()]
NORTH, SOUTH = {"x": 0.5, "y": 1.0}, {"x": 0.5, "y": -1.0}


@pytest.fixture
def model():
    return EvenhandClassifier(memory=20, device="cpu")


@pytest.mark.filterwarnings("ignore:The feature .* was not in the first sample")
@pytest.mark.parametrize("check", CHECKS, ids=[f"{n}-{check.__name__}" for n, check in enumerate(CHECKS)])
def test_it_passes_the_checks_of_river(check):
    check(MODEL.clone())


def test_it_is_checked_as_a_classifier_of_many_classes_and_of_frames():
    names = {check.__name__ for check in CHECKS}
    assert {"check_learn_one", "check_pickling", "check_predict_proba_one", "check_emerging_features"} <= names
    assert "check_predict_proba_one_binary" not in names


def test_one_sample_is_one_step_of_the_learner(model):
    stream = [({"b": float(b), "a": float(a)}, a > b) for a, b in np.random.default_rng(0).normal(size=(30, 2))]
    for x, y in stream:
        model.learn_one(x, y)
    with seeded(0, "init"):
        learner = Learner(MLP((2,)), memory=20, device="cpu")
    for x, y in stream:
        learner.observe(torch.tensor([[x["a"], x["b"]]]), [bool(y)])
    x, _ = stream[0]
    sample = torch.tensor([[x["a"], x["b"]]])
    assert list(model.predict_proba_one(x)) == learner.labels
    expected = learner.predict_proba(sample)[0].tolist()
    assert list(model.predict_proba_one(x).values()) == pytest.approx(expected, abs=1e-6)
    assert model.predict_one(x) is learner.predict(sample)[0]


def test_it_learns_in_a_progressive_evaluation():
    stream = compose.Pipeline(preprocessing.StandardScaler(), EvenhandClassifier(device="cpu"))
    assert evaluate.progressive_val_score(datasets.ImageSegments().take(700), stream, metrics.Accuracy()).get() > 0.7


def test_before_the_first_sample_it_knows_nothing(model):
    frame = pd.DataFrame([NORTH, SOUTH])
    assert model.predict_one(NORTH) is None
    assert model.predict_proba_one(NORTH) == {}
    assert model.predict_many(frame).tolist() == [None, None]
    assert model.predict_proba_many(frame).shape == (2, 0)


def test_a_frame_is_learned_in_one_step_whatever_the_order_of_its_columns(model):
    frame = pd.DataFrame([NORTH, SOUTH] * 5, index=range(100, 110))
    for _ in range(20):
        model.learn_many(frame[["y", "x"]], pd.Series(["north", "south"] * 5))
    assert model.learner.steps == 20
    assert model.predict_many(frame).to_dict() == dict(zip(range(100, 110), ["north", "south"] * 5, strict=True))
    table = model.predict_proba_many(frame[["y"]].assign(x=0.5))
    assert table.columns.tolist() == ["north", "south"]
    assert table.index.tolist() == list(range(100, 110))
    assert table.loc[100].to_dict() == pytest.approx(model.predict_proba_one(NORTH))


def test_a_feature_that_is_missing_is_zero_and_a_new_one_is_left_out(model):
    model.learn_one(NORTH, "north")
    model.learn_one({"y": -1.0}, "south")
    assert model.learner.memory.columns["x"][:2].tolist() == [[0.5, 1.0], [0.0, -1.0]]
    with pytest.warns(UserWarning, match=r"The feature 'z' was not in the first sample and is left out\. Name all"):
        model.learn_one({**NORTH, "z": 9.0}, "north")
    assert model.learner.memory.columns["x"][2].tolist() == [0.5, 1.0]


def test_features_that_are_named_can_come_later(model):
    model = model.clone({"features": ("y", "x", "z")})
    model.learn_one(NORTH, "north")
    model.learn_one({**NORTH, "z": 9.0}, "north")
    assert model.learner.memory.columns["x"][:2].tolist() == [[1.0, 0.5, 0.0], [1.0, 0.5, 9.0]]


def test_a_feature_that_is_not_among_the_named_ones_is_left_out(model):
    model = model.clone({"features": ("y", "x")})
    with pytest.warns(UserWarning, match=r"^The feature 'z' is not among features=\.\.\. and is left out\.$"):
        model.learn_one({**NORTH, "z": 9.0}, "north")
    assert model.learner.memory.columns["x"][0].tolist() == [1.0, 0.5]


def test_a_sample_without_features_is_an_error_and_fixes_nothing(model):
    with pytest.raises(ValueError, match=r"^A sample must have at least one feature\.$"):
        model.learn_one({}, "north")
    model.learn_one(NORTH, "north")
    assert model.predict_one(NORTH) == "north"


def test_a_network_is_copied():
    network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    before = [weight.clone() for weight in network.parameters()]
    model = EvenhandClassifier(network, device="cpu")
    model.learn_one(NORTH, "north")
    model.learn_one(SOUTH, "south")
    assert model.learner.network.head.dim == 8
    assert all(torch.equal(weight, old) for weight, old in zip(network.parameters(), before, strict=True))


def test_a_pickle_goes_on_learning_to_the_same_bits(model):
    for x, y in ((NORTH, "north"), (SOUTH, "south")) * 3:
        model.learn_one(x, y)
    twin = pickle.loads(pickle.dumps(model))
    for each in (model, twin):
        for x, y in ((NORTH, "north"), (SOUTH, "south")) * 3:
            each.learn_one(x, y)
    assert model.predict_proba_one(NORTH) == twin.predict_proba_one(NORTH)


@pytest.mark.parametrize("value", ["1.5", None, [1.0]])
def test_features_must_be_numbers_and_a_bad_first_sample_fixes_nothing(model, value):
    sentence = r"^The feature 'other' must be a number\. Encode others, e\.g\. with river's OneHotEncoder\.$"
    with pytest.raises(ValueError, match=sentence):
        model.learn_one({"x": 1.0, "other": value}, "north")
    with pytest.raises(ValueError, match=sentence):
        model.learn_many(pd.DataFrame([{"x": 1.0, "other": value}]), pd.Series(["north"]))
    assert model.predict_one(NORTH) is None
    model.learn_one(NORTH, "north")
    assert model.predict_one(NORTH) == "north"


def test_numbers_that_diverge_are_a_value_error(model):
    model.learn_one({"x": 1.0}, "right")
    model.learn_one({"x": -1.0}, "left")
    with pytest.raises(ValueError, match="So may a StandardScaler before the classifier"):
        model.learn_one({"x": 3e38}, "left")


def test_the_example_of_the_docstring():
    outcome = doctest.testmod(river)
    assert outcome.attempted
    assert not outcome.failed
