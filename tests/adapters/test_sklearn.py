"""EvenhandClassifier is a scikit-learn classifier by its own checks, and a learner to the bit."""

import doctest
import pickle

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenhand import Learner
from evenhand.adapters import sklearn
from evenhand.adapters.sklearn import EvenhandClassifier
from evenhand.backbones import MLP, SmallCNN
from evenhand.core.draws import seeded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clouds():
    """Samples of three classes, one after the other, far apart."""
    draws = np.random.default_rng(0)
    y = np.repeat(["east", "north", "west"], 40)
    centres = {"east": (3, 0), "north": (0, 3), "west": (-3, 0)}
    return np.array([centres[name] for name in y]) + 0.5 * draws.standard_normal((120, 2)), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([EvenhandClassifier(device="cpu")])
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_partial_fit_is_the_learner_to_the_bit(clouds):
    x, y = clouds
    model = EvenhandClassifier(memory=20, batch=7, random_state=3, device="cpu")
    for start in range(0, 120, 30):
        model.partial_fit(x[start : start + 30], y[start : start + 30])
    with seeded(3, "init"):
        learner = Learner(MLP((2,)), memory=20, seed=3, device="cpu")
    for start in range(0, 120, 30):
        for first in range(start, start + 30, 7):
            here = slice(first, min(first + 7, start + 30))
            learner.observe(x[here].astype(np.float32), y[here].tolist())
    assert torch.equal(model.learner_.scores(torch.tensor(x)), learner.scores(torch.tensor(x)))
    assert model.predict(x).tolist() == learner.predict(x)


def test_new_classes_arrive_and_old_ones_stay(clouds):
    x, y = clouds
    model = EvenhandClassifier(device="cpu")
    for start, known in ((0, ["east"]), (40, ["east", "north"]), (80, ["east", "north", "west"])):
        model.partial_fit(x[start : start + 40], y[start : start + 40])
        assert model.classes_.tolist() == known
        assert model.score(x[: start + 40], y[: start + 40]) > 0.95
    assert model.learner_.labels == ["east", "north", "west"]


def test_columns_are_the_sorted_classes_and_those_to_come_are_zero(clouds):
    x, y = clouds
    model = EvenhandClassifier(device="cpu").partial_fit(x[80:], y[80:], classes=["west", "south", "east"])
    model.partial_fit(x[:40], y[:40])
    assert model.learner_.labels == ["west", "east"]
    table = model.predict_proba(x)
    assert model.classes_.tolist() == ["east", "south", "west"]
    assert table[:, 1].tolist() == [0] * 120
    assert table.sum(1) == pytest.approx(1)
    assert (table[:40, 0] > 0.9).all()
    assert (table[80:, 2] > 0.9).all()


def test_fit_begins_anew_in_random_order(clouds):
    x, y = clouds
    model = EvenhandClassifier(method="finetune", device="cpu").fit(x, y)
    assert model.score(x, y) > 0.95  # without a memory, classes in their order would be forgotten
    once = model.predict_proba(x)
    assert np.array_equal(model.fit(x, y).predict_proba(x), once)
    assert model.fit(x[:40], y[:40]).classes_.tolist() == ["east"]


def test_seeds(clouds):
    x, y = clouds

    def fitted(random_state):
        return EvenhandClassifier(random_state=random_state, device="cpu").fit(x, y).predict_proba(x).tolist()

    assert fitted(1) == fitted(np.int64(1)) != fitted(2)
    assert fitted(np.random.RandomState(5)) == fitted(np.random.RandomState(5)) != fitted(None) != fitted(None)


def test_clones_share_nothing(clouds):
    network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    before = [weight.clone() for weight in network.parameters()]
    model = EvenhandClassifier(network, lr=0.05, device="cpu").fit(*clouds)
    assert all(torch.equal(weight, old) for weight, old in zip(network.parameters(), before, strict=True))
    twin = clone(model)
    assert twin.lr == 0.05
    with pytest.raises(NotFittedError):
        twin.predict(clouds[0])
    assert np.array_equal(twin.fit(*clouds).predict_proba(clouds[0]), model.predict_proba(clouds[0]))


def test_a_pickle_goes_on_learning_to_the_same_bits(clouds):
    x, y = clouds
    model = EvenhandClassifier(memory=20, device="cpu").partial_fit(x[:60], y[:60])
    twin = pickle.loads(pickle.dumps(model))
    for each in (model, twin):
        each.partial_fit(x[60:], y[60:])
    assert np.array_equal(model.predict_proba(x), twin.predict_proba(x))


def test_pipelines_and_searches():
    x, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), EvenhandClassifier(device="cpu"))
    assert cross_val_score(model, x, y, cv=3).min() > 0.85
    search = GridSearchCV(model, {"evenhandclassifier__lr": [1e-6, 0.1]}, cv=2).fit(x, y)
    assert search.best_params_ == {"evenhandclassifier__lr": 0.1}
    assert search.predict(x[:5]).dtype == y.dtype


def test_images_stay_bytes_and_numbers_become_floats():
    x, y = load_digits(return_X_y=True)
    images = (16 * x.clip(0, 15)).astype(np.uint8).reshape(-1, 1, 8, 8)
    model = EvenhandClassifier(SmallCNN, memory=50, device="cpu").fit(images[:300], y[:300])
    assert str(model.learner_.kind) == "uint8 (1, 8, 8)"
    assert model.score(images[300:600], y[300:600]) > 0.6
    table = EvenhandClassifier(device="cpu").fit(x[:50].astype(np.uint8), y[:50])
    assert str(table.learner_.kind) == "float32 (64,)"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"network": 3}, "The 'network' of a classifier must be a torch module, a function or None. Got 3 instead."),
        ({"batch": 0}, "The 'batch' of a classifier must be a whole number of at least 1. Got 0 instead."),
        ({"memory": -1}, "must be a whole number of at least 0. Got -1 instead."),
        ({"method": "eur"}, "There is no method called 'eur'. Did you mean"),
        ({"lr": 1e30}, "A smaller learning rate may help. So may a StandardScaler before the classifier."),
    ],
)
def test_a_wrong_parameter_is_a_value_error(clouds, options, sentence):
    with pytest.raises(ValueError, match="^") as caught:
        EvenhandClassifier(**options, device="cpu").fit(*clouds)
    assert sentence in str(caught.value)


def test_what_could_not_be_fitted_is_not_fitted(clouds):
    x, y = clouds
    model = EvenhandClassifier(batch=0, device="cpu")
    for wrong in (lambda: model.fit(x, y), lambda: model.partial_fit(x, np.linspace(0, 1, 120))):
        with pytest.raises(ValueError, match="The 'batch' of a classifier|Unknown label type"):
            wrong()
        with pytest.raises(NotFittedError):
            model.predict_proba(x)


def test_what_was_learned_before_a_failure_is_known():
    x = np.random.default_rng(0).normal(size=(30, 4))
    model = EvenhandClassifier(random_state=0).fit(x, ["a", "b", "d"] * 10)
    x[10:20] = 1e25
    with pytest.raises(ValueError, match="smaller learning rate"):
        model.partial_fit(x[:20], ["cc"] * 20)
    assert model.classes_.tolist() == ["a", "b", "cc", "d"] == sorted(model.learner_.labels)
    table = model.predict_proba(x[:5])
    assert model.classes_[table.argmax(1)].tolist() == model.predict(x[:5]).tolist() == model.learner_.predict(x[:5])


def test_labels_of_two_kinds_are_a_value_error(clouds):
    x, y = clouds
    model = EvenhandClassifier(device="cpu").partial_fit(x, y)
    before = model.predict_proba(x)
    with pytest.raises(ValueError, match="Mix of label input types"):
        model.partial_fit(x, np.arange(120))
    assert np.array_equal(model.predict_proba(x), before)


def test_the_example_of_the_docstring():
    outcome = doctest.testmod(sklearn)
    assert outcome.attempted
    assert not outcome.failed
