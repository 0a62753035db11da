"""Losses and weights that stop being finite: the step is undone, and the learner can be used."""

import pytest
import torch

from core.made import X, Y, small, state
from evenhand import Learner, Network
from evenhand.backbones import MLP, SmallCNN
from evenhand.errors import DivergedError, EvenhandError


def test_a_loss_that_is_not_finite_leaves_the_weights(images):
    learner = Learner(Network.of(MLP((1, 8, 8))), "er", lr=1e38, device="cpu")
    (x, y), (x2, y2) = images(2, size=20)
    learner.observe(x, y)
    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    with pytest.raises(DivergedError, match=r"At step 2 the loss was (nan|inf).*so this step was undone.*smaller"):
        learner.observe(x2, y2)
    for parameter, old in zip(learner.network.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    assert learner.steps == 1
    assert len(learner.memory) == 20


def test_divergence_leaves_labels_and_rows():
    learner = small("er")
    learner.observe(X, Y)
    before = state(learner)
    with pytest.raises(DivergedError):
        learner.observe(X * 1e38, ["new"] * 6)
    assert state(learner) == before


@pytest.mark.parametrize("method", ["uer", "lucir"])
def test_weights_never_become_nan_in_silence(method):
    learner = small(method)
    for scale in (1.0, 1e15, 1e20, 1e25, 1e30):
        try:
            learner.observe(X * scale, Y)
        except EvenhandError:
            continue
    assert all(parameter.isfinite().all() for parameter in learner.network.parameters())


def test_a_diverged_learner_can_still_predict():
    learner = Learner(SmallCNN((1, 8, 8), width=4), "er", device="cpu")
    x = torch.rand(4, 1, 8, 8)
    learner.observe(x, [0, 1, 2, 3])
    with pytest.raises(DivergedError):
        learner.observe(x * 3e38, [0, 1, 2, 3])
    assert learner.scores(x).isfinite().all()


def diverged(learner):
    """Make the loss of the next step infinite or NaN."""
    with torch.no_grad():
        learner.network.head.weight.mul_(1e30)
        learner.network.trunk[0].weight.mul_(1e30)
    return learner


def test_scores_have_a_column_for_every_label_after_a_failed_step():
    learner = small("er")
    learner.observe(X, Y)
    learner.predict(X)
    with pytest.raises(DivergedError):
        diverged(learner).observe(X, [*Y[:5], "new"])
    assert learner.scores(X).shape[1] == len(learner.labels)
