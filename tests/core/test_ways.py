"""Ways to test: one training, tested as its method says and in further ways."""

import pytest
import torch

from core.made import X, Y, small
from evenhand import errors, resolve
from evenhand.core import registry
from evenhand.core.ways import Ways, pieces
from evenhand.errors import InputError

METHODS = [name for name, recipe in registry.recipes().items() if not recipe.way]
WAYS = ["dot", "cos", "ema", "ncm", "ema+ncm", "cos+ema(decay=0.5)"]


@pytest.mark.parametrize("method", METHODS)
def test_every_way_composes_with_every_method_and_trains_alike(method):
    for way in WAYS:
        if method == "er_wa" and "ncm" in way:
            continue
        tested = resolve(f"{method}+{way}")
        assert tested == registry.tested(resolve(method), way)
        assert tested.training == resolve(method).training


@pytest.mark.parametrize("method", METHODS)
def test_every_way_answers_with_uer(method, train, images):
    try:
        resolve(f"{method}+uer")
    except errors.InputError:
        return
    tests = [way for way in WAYS if method != "er_wa" or "ncm" not in way]
    made = train(f"{method}+uer", batches=2, tests=", ".join(tests))
    for test in ("", *tests):
        assert made.scores(images(1)[0][0], test=test).shape == (10, 4)


def test_ways_say_what_they_change():
    assert resolve("lucir+dot").scoring.test == "dot"
    assert resolve("er+cos").changes(resolve("er")).keys() == {"scoring"}
    assert resolve("uer+cos").scoring.replay == resolve("uer").scoring.replay
    assert resolve("scr").prediction == resolve("er+ncm").prediction
    assert resolve("scr+uer+ncm").prediction == resolve("scr").prediction != resolve("scr+uer").prediction


def test_what_trains_otherwise_is_no_way():
    with pytest.raises(
        errors.InputError, match="'er_wa\\+ncm' cannot be composed: ncm would change how the method trains"
    ):
        resolve("er_wa+ncm")
    with pytest.raises(errors.InputError, match="There is no test called 'mir'. Available: cos, dot, ema, ncm"):
        registry.tested(resolve("er"), "mir+ema")


def test_names_are_spelled_one_way():
    assert registry.canonical("ema(decay=0.998)+uer") == "uer+ema"
    assert registry.ways("ncm+ema, cos,, ema(decay=0.998), ema") == ["cos", "ema", "ema+ncm"]
    assert registry.ways("") == []


def test_a_way_like_the_methods_own_is_not_tested_twice():
    assert Ways(resolve("uer"), "dot, cos").others() == ["cos"]
    assert Ways(resolve("scr"), "ncm, ema").others() == ["ema"]


def test_tests_that_ask_the_same_weights_share_their_features(train, images, monkeypatch):
    made = train("uer", tests="cos, ncm, ema, cos+ema, ema+ncm")
    x = images(1)[0][0]
    made.scores(x, test="ncm"), made.scores(x, test="ema+ncm")  # compute the class means
    separate = [made.scores(x, test=name) for name in made.ways.methods]
    passes = []
    for name in ("", "ema"):
        view = made.ways.methods[name].weights
        network = made.snapshots.last.cache[view, "test"]
        features = network.features
        monkeypatch.setattr(network, "features", lambda x, f=features: passes.append(1) or f(x))
    together, _ = made.ways.scores(made, x, *made.ways.methods)
    assert len(passes) == 2
    assert all(torch.equal(a, b) for a, b in zip(separate, together, strict=True))


def test_an_unknown_test_names_those_there_are(train, images):
    made = train("uer", tests="cos, ema", batches=1)
    with pytest.raises(errors.InputError, match="There is no test of this learner called 'ncm'. Available: cos, ema"):
        made.predict(images(1)[0][0], test="ncm")


def test_a_bad_list_of_tests_is_refused_before_anything_is_built(learner):
    for text in ("emma", "uer", "ema(decay=2)", "ema+ema(decay=0.5)", "cos)"):
        with pytest.raises(errors.InputError):
            learner("uer", tests=text)
    with pytest.raises(errors.InputError, match="The 'tests' of a learner must be a string"):
        learner("uer", tests=["ema"])


@pytest.mark.parametrize(
    ("shape", "largest"), [((3, 84, 84), 18), ((3, 224, 224), 16), ((3, 32, 32), 128), ((7,), 128)]
)
def test_larger_images_are_tested_in_smaller_batches(shape, largest):
    samples = torch.arange(300).reshape(-1, *len(shape) * [1]).expand(300, *shape)
    parts = pieces(samples)
    assert {len(part) for part in parts[:-1]} == {largest}
    assert torch.equal(torch.cat([part.flatten(1)[:, 0] for part in parts]), torch.arange(300))


def test_tests_are_asked_for_in_any_spelling():
    learner = small(tests="ncm+ema(decay=0.998)")
    learner.observe(X, Y)
    expected = learner.scores(X, test="ema+ncm")
    for spelling in ("ncm+ema", "ema(decay=0.998, by_row=True)+ncm", "ncm + ema"):
        assert torch.equal(learner.scores(X, test=spelling), expected)
    for wrong in ("ema", "cos", "nothing", ["ema"]):
        with pytest.raises(InputError):
            learner.predict(X, test=wrong)
    with pytest.raises(InputError, match="This learner has no test 'ema'. Name it when making one"):
        small().scores(X, test="ema")
