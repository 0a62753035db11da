import pytest

from evenhand.bench import suite, timing, workloads
from evenhand.cli.bench import print_measured
from evenhand.core.flops import count_flops


def test_ratios_are_taken_within_a_round():
    """A machine that slows down in half of the rounds changes no ratio."""
    theirs = [1.0, 1.0, 4.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0]
    ratio = timing.paired_ratio([0.5 * t for t in theirs], theirs)
    assert ratio == {"median": 0.5, "low": 0.5, "high": 0.5}


def test_the_interval_covers_the_median_and_not_everything():
    ours = [1 + i / 100 for i in range(100)]
    ratio = timing.paired_ratio(ours, [1.0] * 100)
    assert 1 < ratio["low"] < ratio["median"] < ratio["high"] < 1.99
    assert ratio["median"] == pytest.approx(1.495)


def test_every_workload_gets_its_own_time_whoever_starts_a_round(monkeypatch):
    clock = 0.0

    def take(seconds):
        nonlocal clock
        clock += seconds

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock)
    times = timing.time_in_turns({"fast": lambda: take(1.0), "slow": lambda: take(4.0)}, 6)
    assert times == {"fast": [1.0] * 6, "slow": [4.0] * 6}


def test_the_plain_loop_does_the_same_work():
    er = count_flops(workloads.step_of(workloads.full_learner("er")))
    assert er == pytest.approx(count_flops(workloads.plain_loop()), rel=0.001)


@pytest.mark.parametrize("name", ["er", "uer", "derpp"])
def test_a_learner_to_be_timed_knows_all_classes_and_is_full(name):
    learner = workloads.full_learner(name, memory=300, classes=40)
    assert len(learner.labels) == 40
    assert len(learner.memory) == 300
    assert 0 < timing.share_outside(learner, workloads.step_of(learner), steps=2) < 0.5
    assert "descend" not in vars(learner)


@pytest.mark.slow
def test_every_part_of_the_benchmark_gives_numbers(monkeypatch):
    monkeypatch.setattr(timing, "WARM_UP", 1)
    monkeypatch.setattr(timing, "STEPS", 1)
    plain = workloads.full_learner
    monkeypatch.setattr(suite, "full_learner", lambda *a, **k: plain(*a, **{**k, "compile": False}))
    measured = suite.measure(["steps", "evaluation"], 3, 1)
    rows = measured["steps"]["rows"]
    assert len(rows) == 9
    assert all(0 < row["of_peak"] < 1.2 for row in rows.values())
    assert all(0 < row["outside"] < 0.5 for row in rows.values() if row["outside"] is not None)
    paper, raw = rows["er, paper's views"]["to_plain"]["median"], rows["er"]["to_plain"]["median"]
    assert 1.3 < paper / raw < 2.6  # twice the images
    assert measured["evaluation"]["ours"]["to_eager"]["median"] < 1.5
    print_measured(measured)
