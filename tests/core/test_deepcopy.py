"""A learner through copy.deepcopy and pickle."""

import copy
import pickle
import queue
import threading

import pytest
import torch
from torch import nn

from core.made import X, Y, mlp, small
from evenhand import Learner
from evenhand.backbones import MLP


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
def test_a_copy_of_a_learner_goes_its_own_way(copied, train, images, same):
    original, twin = (
        train("uer+ema", optimizer="sgd(momentum=0.9)", lr=0.01),
        train("uer+ema", optimizer="sgd(momentum=0.9)", lr=0.01),
    )
    original.predict(images(1)[0][0])
    other = copied(original)
    assert same(other, original)
    assert other.labels is other.memory.labels
    for x, y in images(3, seed=7):
        other.observe(x, y)
        twin.observe(x, y)
    assert same(other, twin)
    assert other.memory.label_counts() == twin.memory.label_counts()
    assert not same(other, original, but=["steps"])


def test_a_copy_of_a_learner_shares_who_is_told_of_steps():
    told = queue.Queue()
    learner = Learner(MLP((4,)), memory=20, device="cpu", on_step=told.put)
    learner.observe(torch.rand(4, 4), [0, 1, 0, 1])
    copy.deepcopy(learner).observe(torch.rand(4, 4), [0, 1, 0, 1])
    assert [told.get_nowait().steps, told.get_nowait().steps] == [1, 2]


def test_a_named_schedule_can_be_pickled(same):
    learner = small(schedule="warmup(steps=3)+cosine(steps=9)")
    learner.observe(X, Y)
    others = pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)
    for each in (learner, *others):
        each.observe(X, Y)
    assert learner.optimizer.param_groups[0]["lr"] != 0.1
    assert all(same(learner, other) for other in others)


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm, nn.utils.parametrizations.weight_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_copy_of_a_learner_with_normalised_weights(norm, same):
    torch.manual_seed(0)
    learner = small(model=nn.Sequential(norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 3)))
    learner.observe(X, Y)
    other = copy.deepcopy(learner)
    for each in (learner, other):
        each.observe(X, Y)
    assert same(learner, other)


@pytest.mark.parametrize("method", ["uer", "uer+ema", "er_wa(distil=True)"])
def test_a_copy_of_a_model_that_holds_a_lock(method, same):
    model = mlp()
    model.lock = threading.Lock()
    learner = small(method, model)
    learner.observe(X, Y)
    learner.boundary()
    copied = copy.deepcopy(learner)
    for each in (learner, copied):
        each.observe(X, Y)
    assert same(learner, copied)
