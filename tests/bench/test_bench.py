import math

import pytest

from evenhand.bench import suite, timing, workloads
from evenhand.cli.bench import print_measured
from evenhand.core import registry
from evenhand.core.flops import count_flops
from evenhand.errors import InputError


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


@pytest.mark.parametrize("count", range(suite.FEWEST, 60))
def test_the_interval_covers_the_median_at_least_95_times_in_100(count):
    ratio = timing.paired_ratio(list(range(1, count + 1)), [1] * count)
    below, above = int(ratio["low"]), count + 1 - int(ratio["high"])  # the ranks of its ends, from either side
    assert below == above
    beyond = [sum(math.comb(count, n) for n in range(rank)) / 2**count for rank in (below, below + 1)]
    assert beyond[0] <= 0.025 < beyond[1]


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


def test_methods_with_several_parameters_are_timed_and_composed_ones_documented(monkeypatch):
    plain = workloads.full_learner
    monkeypatch.setattr(suite, "full_learner", lambda name: plain(name, memory=20, classes=10))
    monkeypatch.setattr(suite, "time_in_turns", lambda steps, rounds: {name: [1.0] * rounds for name in steps})
    names = ["scored(learn='cos', test='cos')", "er_ace+mir"]
    measured = suite.measure(["methods"], 6, 1, ", ".join(names))["methods"]
    assert list(measured) == ["er", *names]
    assert measured["er_ace+mir"]["documented"] == registry.cost("mir") > registry.cost("er_ace") == 1
    assert measured["er_ace+mir"]["c_d"] > 1.1


def test_an_unknown_method_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setitem(suite.PARTS, "steps", lambda rounds: pytest.fail("measured"))
    with pytest.raises(InputError, match="There is no method called 'mirr'"):
        suite.measure(["steps", "methods"], 6, 1, "er,mirr")


@pytest.mark.slow
def test_every_part_of_the_benchmark_gives_numbers(monkeypatch):
    monkeypatch.setattr(timing, "WARM_UP", 1)
    monkeypatch.setattr(timing, "STEPS", 1)
    plain = workloads.full_learner
    monkeypatch.setattr(suite, "full_learner", lambda *a, **k: plain(*a, **{**k, "compile": False}))
    measured = suite.measure(["steps", "evaluation"], 6, 1)
    rows = measured["steps"]["rows"]
    assert len(rows) == 9
    assert all(0 < row["of_peak"] < 1.2 for row in rows.values())
    assert all(0 < row["outside"] < 0.5 for row in rows.values() if row["outside"] is not None)
    paper, raw = rows["er, paper's views"]["to_plain"]["median"], rows["er"]["to_plain"]["median"]
    assert 1.3 < paper / raw < 2.6  # twice the images
    assert measured["evaluation"]["ours"]["to_eager"]["median"] < 1.5
    print_measured(measured)


def test_precisions_are_compared_with_the_same_number_of_images(monkeypatch):
    plain, asked = workloads.full_learner, []

    def small(*arguments, **named):
        asked.append(named["precision"])
        return plain(*arguments, **{**named, "compile": False, "precision": "fp32", "memory": 20, "classes": 10})

    def timed(steps, rounds):
        return {name: [0.25 if "bf16" in name else 0.5 if "images" in name else 2.0] * rounds for name in steps}

    for name, stand_in in (
        ("full_learner", small),
        ("time_in_turns", timed),
        ("share_outside", lambda *_: 0.03),
        ("native", lambda device: True),
        ("gemm_peak", lambda *dtype: 100.0 if dtype else 50.0),
    ):
        monkeypatch.setattr(suite, name, stand_in)
    measured = suite.measure(["precision"], 6, 1)
    for threads, part in measured["precision"].items():
        rows = part["rows"]
        assert len(rows) == (10 if threads == "1 thread" else 18)
        assert part["ratios"]["er, 40 images, bf16 / er, 40 images, fp32"]["median"] == 0.5
        assert part["ratios"]["uer, 20 images, bf16 / er, 20 images, bf16"]["median"] == 1
        fp32, bf16 = (rows[f"uer, 40 images, {name}"] for name in ("fp32", "bf16"))
        assert (fp32["to_plain"]["median"], bf16["to_plain"]["median"]) == (1, 0.5)
        assert (
            fp32["of_peak"]
            == pytest.approx(bf16["of_peak"])
            == pytest.approx(2 * rows["er, 20 images, fp32"]["of_peak"], rel=0.01)
        )
        assert fp32["run_seconds"] - bf16["run_seconds"] == 5000 * 0.25
        assert fp32["run_seconds"] == 5000 * 0.5 + 110 * 2.0  # 55,000 images, 500 at a time
    assert set(asked) == {"fp32", "bf16"}
    print_measured(measured)
