import copy
import math

import numpy as np
import pytest
import torch

from evenhand import part, resolve
from evenhand.methods.er import CrossEntropy


@pytest.mark.parametrize("method", ["er", "uer", "lucir", "finetune"])
def test_predicting_changes_nothing(method, learner, images, same):
    asked, silent = learner(method, augment="scr"), learner(method, augment="scr")
    for x, y in images(5):
        for made in (asked, silent):
            made.observe(x, y)
        given, state, shown = x.clone(), torch.get_rng_state(), copy.deepcopy(asked.facts())
        asked.predict(x)
        asked.scores(x)
        assert torch.equal(given, x)
        assert torch.equal(state, torch.get_rng_state())
        assert asked.facts() == shown
        assert asked.network.training
    assert same(asked, silent)
    assert torch.equal(asked.scores(x), silent.scores(x))


def test_observing_draws_nothing_from_the_global_generators(learner, images):
    made = learner("uer", augment="scr", views="concat")
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].tolist()
    for x, y in images(3):
        made.observe(x, y)
    assert torch.equal(state, torch.get_rng_state())
    assert np.random.get_state()[1].tolist() == numbers


@pytest.mark.parametrize("views", ["replace", "concat"])
def test_observing_leaves_its_input_alone(views, learner, images):
    made = learner("uer", augment="scr", views=views)
    for x, y in images(3):
        floats = x / 255
        given, labels = floats.clone(), list(y)
        made.observe(floats, y)
        assert torch.equal(floats, given)
        assert y == labels


@pytest.mark.parametrize("method", ["er", "lucir", "uer"])
@pytest.mark.parametrize("augment", ["none", "scr"])
def test_a_seed_fixes_every_bit(method, augment, train, same):
    assert same(train(method, augment=augment), train(method, augment=augment))
    assert not same(train(method, augment=augment), train(method, augment=augment, seed=1))


def test_methods_with_one_seed_stay_paired(train):
    """ER draws for its replay, FINE-TUNE does not; the views of the stream and the first rows of W are the same."""
    er, finetune = train("er", augment="scr"), train("finetune", augment="scr")
    for purpose in ("head", "augment/stream"):
        assert torch.equal(er.generators[purpose].get_state(), finetune.generators[purpose].get_state())
    for purpose in ("retrieval", "storage", "augment/replay"):
        assert not torch.equal(er.generators[purpose].get_state(), finetune.generators[purpose].get_state())


def test_new_rows_do_not_depend_on_when_the_classes_came(learner, images):
    [(x, _)] = images(1, size=4)
    early, late = learner("lucir"), learner("lucir")
    for made in (early, late):
        made.optimizer.param_groups[0]["lr"] = 0.0
    early.observe(x, [0, 1, 2, 3])
    for label in range(4):
        late.observe(x, [label] * 4)
    assert torch.equal(early.network.head.weight, late.network.head.weight)
    assert torch.equal(early.network.head.bias, late.network.head.bias)
    assert early.network.head.weight.abs().max() <= 1 / math.sqrt(early.network.head.dim)


def test_not_even_a_part_that_edits_its_batch_reaches_what_was_passed(learner, images):
    @part("tests.Edits")
    class Edits(CrossEntropy):
        def __call__(self, learner, batch, replay):
            batch.x.add_(1)
            return CrossEntropy.__call__(self, learner, batch, replay)

    made = learner(resolve("er").but(objective=Edits()))
    for x, y in images(2):
        for samples in (x, x / 255):
            given = samples.clone()
            learner(resolve("er").but(objective=Edits())).observe(samples, y)
            assert torch.equal(samples, given)
        made.observe(x, y)
