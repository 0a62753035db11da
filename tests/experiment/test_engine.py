import os

import pytest

from evenhand import errors
from evenhand.experiment import Result, Spec
from evenhand.experiment.engine import Failure, Share, run_all

SPECS = [Spec.make(method=m, backbone="mlp(hidden=8)", memory=20, seed=s) for m in ("er", "uer") for s in (0, 1)]
CORES = len(os.sched_getaffinity(0))


def test_processes_give_the_numbers_of_inline(tmp_path):
    inline = run_all(SPECS, tmp_path / "inline", workers=1, threads=1)
    events = []
    spread = run_all(SPECS, tmp_path / "spread", workers=min(2, CORES), threads=1, listen=events.append)
    assert [r.records for r in spread] == [r.records for r in inline]
    assert [r.spec for r in spread] == SPECS
    assert {e.key for e in events if isinstance(e, Result)} == {s.key for s in SPECS}


def test_a_failure_does_not_stop_the_others(tmp_path):
    broken = tmp_path / SPECS[1].key
    broken.mkdir()
    (broken / "spec.json").write_text("{}")
    outcomes = run_all(SPECS, tmp_path, workers=1, threads=1)
    assert [type(o) for o in outcomes] == [Result, Failure, Result, Result]
    assert outcomes[1].cause == "mistake"
    assert "belongs to another run" in outcomes[1].sentence


def test_a_fault_keeps_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.experiment.runs.evaluate", lambda *_: 1 / 0)
    [outcome] = run_all(SPECS[:1], tmp_path, workers=1, threads=1)
    assert outcome.cause == "fault"
    assert "ZeroDivisionError" in outcome.trace


def test_a_begun_run_keeps_its_threads(tmp_path, monkeypatch):
    from evenhand.experiment.runs import Interrupted, run

    monkeypatch.setattr("evenhand.experiment.process.torch.get_num_threads", lambda: 1)
    with pytest.raises(Interrupted):
        run(SPECS[0], tmp_path, stop=lambda: True)
    shares = []
    monkeypatch.setattr("evenhand.experiment.engine._inline", lambda _, threads: shares.append(threads))
    monkeypatch.setattr("evenhand.experiment.engine.os.sched_getaffinity", lambda _: range(4))
    with pytest.raises(KeyError):
        run_all(SPECS[:1], tmp_path, workers=1)
    assert shares == [1]


def test_shares_use_all_cores_and_no_more(monkeypatch):
    monkeypatch.setattr("evenhand.experiment.engine.os.sched_getaffinity", lambda _: range(8))
    assert Share.of(1) == Share(1, 8)
    assert Share.of(3) == Share(3, 2)
    assert Share.of(100) == Share(8, 1)
    assert Share.of(100, threads=2) == Share(4, 2)
    assert Share.of(100, workers=3) == Share(3, 2)
    with pytest.raises(errors.InputError, match="not exceed the 8 cores. Got '4 x 4'"):
        Share.of(4, 4, 4)
    with pytest.raises(errors.InputError, match="'workers' must be a whole number of at least 1. Got 0"):
        Share.of(4, workers=0)
