"""Predicting changes nothing, learning leaves alone what was passed, and the autograd mode of the caller is ignored."""

import copy

import pytest
import torch
from torch import nn

from core.made import X, Y, mlp, small
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


@pytest.mark.parametrize("views", ["replace", "concat"])
def test_observing_leaves_its_input_alone(views, learner, images):
    made = learner("uer", augment="scr", views=views)
    for x, y in images(3):
        floats = x / 255
        given, labels = floats.clone(), list(y)
        made.observe(floats, y)
        assert torch.equal(floats, given)
        assert y == labels


def test_not_even_a_part_that_edits_its_batch_reaches_what_was_passed(learner, images):
    @part("tests.Edits")
    class Edits(CrossEntropy):
        def __call__(self, learner, batch, replay):
            batch.x.add_(1)
            return CrossEntropy.__call__(self, learner, batch, replay)

    [(x, y)] = images(1)
    for samples in (x, x / 255):
        given = samples.clone()
        made = learner(resolve("er").but(objective=Edits()))
        for _ in range(2):  # the second time with a replay
            made.observe(samples, y)
        assert torch.equal(samples, given)


class Writes(nn.Module):
    """Writes to its input."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x.mul_(2))


def test_a_forward_that_writes_to_its_input_writes_to_a_copy():
    learner, x = small(model=Writes()), X.clone()
    learner.observe(x, Y, predict=True)
    learner.predict(x)
    assert torch.equal(x, X)
    assert torch.equal(learner.memory.samples()[0], X)


@pytest.mark.parametrize("passes", ["joint", "separate"])
def test_a_module_that_writes_to_its_input(passes):
    learner = small(model=Writes(), passes=passes)
    for _ in range(2):
        learner.observe(X, Y)
    assert torch.equal(learner.memory.samples()[0][:6], X)


def test_a_step_within_no_grad_or_inference_mode(same):
    one, two, three = small(), small(), small()
    one.observe(X, Y)
    with torch.no_grad():
        two.observe(X, Y)
    with torch.inference_mode():
        three.observe(X.clone(), Y)
    for learner in (one, two, three):
        learner.observe(X, [1, 2] * 3)
    assert same(one, two)
    assert same(one, three)


def test_predictions_within_inference_mode(same):
    asked, calm = small(), small()
    for _ in range(3):
        with torch.inference_mode():
            asked.predict(X) if asked.labels else None
        for learner in (asked, calm):
            learner.observe(X, Y)
            learner.predict(X)
    assert same(asked, calm)


def test_everything_can_be_called_within_inference_mode(same):
    def served(model):
        learner = small(model=model)
        learner.observe(X.clone(), Y)
        learner.boundary()
        learner.remember(X.clone(), Y)
        learner.forget(label=0)
        return learner

    model = mlp()
    with torch.inference_mode():
        inside = served(model)
    outside = served(mlp())
    for learner in (inside, outside):
        learner.observe(X, Y)
    assert same(inside, outside)
