"""Small modules, samples and learners that several tests need, and the state of a learner, to compare."""

import hashlib
import json

import torch
from torch import nn

from evenhand import Learner

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
Y = [0, 1] * 3


def mlp(*before):
    torch.manual_seed(0)
    return nn.Sequential(*before, nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def small(method="uer", model=None, **options):
    """Make a learner; without a model it learns samples like X."""
    return Learner(mlp() if model is None else model, method, **{"memory": 20, "replay": 4, "device": "cpu", **options})


def classifier(seed=0, **more):
    """A module for pictures, with normalisation (whose options are `more`) and Dropout."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, **more), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(216, 2)
    )


def pictures(count=4, channels=3, side=8, seed=0):
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(seed))


def state(learner):
    """All that a learner holds, to compare to the bit with ==; what differs is told by name."""
    tensors = {
        name: (tensor.dtype, tuple(tensor.shape), hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest())
        for name, tensor in learner.state_dict().items()
    }
    return tensors, json.dumps(learner.facts())
