"""A stream that does not wait: what costs more than ER misses batches, evenly spread."""

import pytest

from evenhand.core import registry
from evenhand.experiment import run as runs
from evenhand.experiment.run import Interrupted, keeps_up, run
from evenhand.experiment.spec import Spec


def spec_of(method, **fields):
    sizes = {"memory": 20, "stages": 2, "batch": 50, "replay": 50}
    return Spec.make(method=method, **{"backbone": "mlp(hidden=8)", **sizes, **fields})


@pytest.mark.parametrize(
    ("cost", "pattern"), [(0.5, "1111"), (1, "1111"), (1.5, "101101101"), (2, "101010"), (3, "100100")]
)
def test_missed_batches_are_spread_evenly(cost, pattern):
    assert "".join("01"[keeps_up(step, cost)] for step in range(len(pattern))) == pattern


@pytest.mark.parametrize("cost", [1.17, 70 / 60, 280 / 60, 6.5])
def test_all_methods_spend_the_same(cost):
    learned = sum(keeps_up(step, cost) for step in range(5000))
    assert learned * cost == pytest.approx(5000, abs=cost + 1)


def test_the_cost_of_a_composed_method():
    assert registry.cost("mir+uer+ema") == registry.cost("mir")
    assert registry.cost("derpp+uer") == 1.5
    assert registry.cost("gss+mir") == pytest.approx(registry.cost("gss") + registry.cost("mir") - 1)
    assert registry.cost("finetune") == 0.5


def test_a_cost_is_that_of_the_views_and_sizes_of_the_run():
    assert spec_of("scr", pace="realtime", augment="crop").cost == 2
    assert spec_of("scr", pace="realtime", augment="crop", views="concat").cost == 1
    assert spec_of("derpp", pace="realtime", replay=25).cost == pytest.approx(4 / 3)
    assert spec_of("derpp(shared=True)").cost == 1
    assert spec_of("derpp").lag == 1 < spec_of("derpp", pace="realtime").lag == spec_of("derpp").cost


def test_what_misses_other_batches_does_not_train_alike(tmp_path, monkeypatch):
    (tmp_path / "without_cost.py").write_text(
        "from evenhand import resolve\n\ndef mine():\n    return resolve('derpp')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for pace, alike in (("wait", True), ("realtime", False)):
        named, mine = (spec_of(method, pace=pace) for method in ("derpp", "without_cost:mine"))
        assert named.resolved == mine.resolved
        assert named.answers(mine) is alike


@pytest.fixture
def observed(monkeypatch):
    """The numbers of the batches that learners observe."""
    seen, build = [], runs.build

    def watched(*arguments, **named):
        stream, learner = build(*arguments, **named)
        observe, place = learner.observe, {x.numpy().tobytes(): i for i, (x, *_) in enumerate(parts(stream))}
        learner.observe = lambda x, y, **more: (seen.append(place[x.numpy().tobytes()]), observe(x, y, **more))
        return stream, learner

    def parts(stream):
        return [(step.x, step.y) for step in stream.steps()]

    monkeypatch.setattr(runs, "build", watched)
    return seen


def test_a_run_in_real_time_learns_only_what_it_keeps_up_with(tmp_path, observed):
    spec = spec_of("derpp", pace="realtime")
    result = run(spec, tmp_path)
    assert observed == [step for step in range(100) if keeps_up(step, 1.5)]
    assert [record["step"] for record in result.records] == [50, 100]
    assert spec.key != spec_of("derpp").key


def test_it_resumes_with_the_batch_it_would_have_learned(tmp_path, observed):
    spec = spec_of("derpp", pace="realtime")
    whole = run(spec, tmp_path / "whole").records
    calls = iter(range(10**6))
    with pytest.raises(Interrupted):
        run(spec, tmp_path / "stopped", stop=lambda: next(calls) >= 30)
    assert run(spec, tmp_path / "stopped").records == whole


def test_what_costs_no_more_than_er_misses_nothing(tmp_path):
    waiting, hurried = (run(spec_of("uer", pace=pace), tmp_path) for pace in ("wait", "realtime"))
    assert waiting.records == hurried.records
