import time

import pytest

from evenhand.bench import contenders, timing


def test_ratios_are_taken_within_a_round():
    """A machine that slows down in half of the rounds changes no ratio."""
    theirs = [1.0, 1.0, 4.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0]
    found = timing.ratio([0.5 * t for t in theirs], theirs)
    assert found == {"median": 0.5, "low": 0.5, "high": 0.5}


def test_the_interval_covers_the_median_and_not_everything():
    ours = [1 + i / 100 for i in range(100)]
    found = timing.ratio(ours, [1.0] * 100)
    assert 1 < found["low"] < found["median"] < found["high"] < 1.99
    assert found["median"] == pytest.approx(1.495)


def test_a_slower_contender_is_measured_slower():
    times = timing.rotate({"fast": lambda: time.sleep(0.001), "slow": lambda: time.sleep(0.004)}, 6)
    assert timing.ratio(times["slow"], times["fast"])["low"] > 1.5


def test_the_plain_loop_does_the_same_work():
    flops = {
        "eager": timing.flops(contenders.eager()),
        "er": timing.flops(contenders.stepper(contenders.learner("er"))),
    }
    assert flops["er"] == pytest.approx(flops["eager"], rel=0.001)


@pytest.mark.parametrize("name", ["er", "uer"])
def test_a_learner_to_be_timed_knows_all_classes_and_is_full(name):
    learner = contenders.learner(name, memory=300, classes=40)
    assert len(learner.labels) == 40
    assert len(learner.memory) == 300
    assert 0 < timing.outside(learner, contenders.stepper(learner), steps=2) < 0.5
    assert "descend" not in vars(learner)
