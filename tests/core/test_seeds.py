"""A seed fixes every bit, and no draw comes from a global generator."""

import math

import numpy as np
import pytest
import torch

from core.made import X, Y, classifier, pictures, small
from evenhand import Learner
from evenhand.backbones import MLP


@pytest.mark.parametrize("method", ["er", "lucir", "uer"])
@pytest.mark.parametrize("augment", ["none", "scr"])
def test_a_seed_fixes_every_bit(method, augment, train, same):
    assert same(train(method, augment=augment), train(method, augment=augment))
    assert not same(train(method, augment=augment), train(method, augment=augment, seed=1), but=["settings"])


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


def test_observing_draws_nothing_from_the_global_generators(learner, images):
    made = learner("uer", augment="scr", views="concat")
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].tolist()
    for x, y in images(3):
        made.observe(x, y)
    assert torch.equal(state, torch.get_rng_state())
    assert np.random.get_state()[1].tolist() == numbers


def test_loading_leaves_the_global_generator(tmp_path):
    learner = small("er", MLP((4,), hidden=8))
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    state = torch.get_rng_state()
    Learner.load(tmp_path / "state", device="cpu")
    assert torch.equal(state, torch.get_rng_state())


def test_dropout_draws_from_a_generator_of_the_learner(tmp_path, same):
    ends = []
    for outside in (1, 2):
        learner = Learner(classifier(), "er", memory=8, device="cpu")
        torch.manual_seed(outside)
        state = torch.get_rng_state()
        for seed in range(4):
            learner.observe(pictures(seed=seed), [0, 1, 2, 3])
        assert torch.equal(torch.get_rng_state(), state)
        ends.append(learner)
    assert same(*ends)
    other = Learner(classifier(), "er", memory=8, seed=1, device="cpu")
    assert not torch.equal(other.generators["network"].get_state(), ends[0].generators["network"].get_state())

    ends[0].save(tmp_path / "learner")
    loaded = Learner.load(tmp_path / "learner", classifier(seed=5), device="cpu")
    for learner in (ends[1], loaded):
        learner.observe(pictures(seed=9), [0, 1, 2, 3])
    assert same(ends[1], loaded)
