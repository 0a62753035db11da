import math

import pytest

from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

SETTINGS = {
    "data": "fashion-cut",
    "order": "classes",
    "memory": 200,
    "batch": 10,
    "replay": 10,
    "iterations": 1,
    "lr": 0.1,
    "backbone": "small_cnn",
    "neck": False,
    "augment": "none",
    "views": "none",
    "passes": "joint",
}


def spec(method, seed, stages, **settings):
    """A spec that nobody has checked: a report must cope with any name."""
    return Spec.model_construct(method=method, seed=seed, stages=stages, **{**SETTINGS, **settings})


def records(accuracy, per_stage, tilt):
    """The records of a run; tilt > 0 prefers the classes of the last stage in norm, bias, probability and confusion."""
    made = []
    for i, row in enumerate(accuracy):
        count = (i + 1) * per_stage
        new = [float(c >= count - per_stage) for c in range(count)]
        weights = [1 + tilt * n for n in new]
        head = {"norm": weights, "bias": [tilt * n for n in new]}
        head |= {name: [0.0] * count for name in ("mean", "std", "weight_change", "bias_change")}
        made.append(
            {
                "stage": i + 1,
                "step": 10 * (i + 1),
                "arrival": list(range(count)),
                "accuracy": row,
                "head": head,
                "probability": [w / math.fsum(weights) for w in weights],
            }
        )
    wrong = round(40 * tilt)
    last = count - 1
    made[-1]["confusion"] = [
        [(100 - wrong) * (c == r) + wrong * (c == last) for c in range(count)] for r in range(count)
    ]
    return made


@pytest.fixture
def run():
    """Make the result of a run from its accuracy matrix."""

    def make(
        method, accuracy, *, seed=0, per_stage=2, tilt=0.0, seconds=2.0, environment=None, classes=None, **settings
    ):
        count = per_stage * len(accuracy)
        return Result(
            spec=spec(method, seed, len(accuracy), **settings),
            key=f"key-{method}-{seed}-{settings}",
            records=records(accuracy, per_stage, tilt),
            classes=classes or tuple(f"class-{(c + seed) % count}" for c in range(count)),
            seconds=seconds,
            environment=environment or {"torch": "2.9", "threads": 1, "processor": "A chip"},
        )

    return make


@pytest.fixture
def matrix():
    """An accuracy matrix with `previous` in all earlier columns and `current` on the diagonal."""

    def make(previous, current, stages=3):
        return [[previous] * i + [current] for i in range(stages)]

    return make
