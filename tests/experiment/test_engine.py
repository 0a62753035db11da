import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from evenhand import errors
from evenhand.core.settings import Conditions
from evenhand.experiment import lock
from evenhand.experiment.engine import queue
from evenhand.experiment.engine.dispatch import run_all
from evenhand.experiment.engine.queue import Allocation, Failure, Reused, RunOptions, RunQueue
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.run import Note
from evenhand.experiment.spec import Spec
from experiment import victims

SPECS = [
    Spec.make(method=m, backbone="mlp(hidden=8)", memory=20, batch=50, seed=s) for m in ("er", "uer") for s in (0, 1)
]
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
    assert "belongs to another run" in outcomes[1].message


def test_a_fault_keeps_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.experiment.run.evaluate", lambda *_: 1 / 0)
    [outcome] = run_all(SPECS[:1], tmp_path, workers=1, threads=1)
    assert outcome.cause == "fault"
    assert "ZeroDivisionError" in outcome.trace


def test_a_fault_is_tried_again_and_then_recorded_with_its_traceback(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0)
    monkeypatch.setattr("evenhand.experiment.run.evaluate", lambda *_: calls.append(1) or 1 / 0)
    said = []
    outcomes = run_all(SPECS[:2], tmp_path, RunOptions(retries=2), engine="inline", threads=1, listen=said.append)
    assert [o.cause for o in outcomes] == ["fault", "fault"]
    assert len(calls) == 6
    assert len([event for event in said if isinstance(event, Note) and "Trying again" in event.message]) == 4
    status = Folder(tmp_path, SPECS[0]).status()
    assert status["state"] == "failed"
    assert "ZeroDivisionError" in status["trace"]


def test_a_mistake_is_not_tried_again(tmp_path, monkeypatch):
    calls = []

    def diverge(*_):
        calls.append(1)
        raise errors.DivergedError("The loss became nan.")

    monkeypatch.setattr("evenhand.experiment.run.evaluate", diverge)
    [outcome] = run_all(SPECS[:1], tmp_path, RunOptions(retries=2), engine="inline", threads=1)
    assert (outcome.cause, len(calls)) == ("diverged", 1)


def test_what_is_there_is_told_once(tmp_path):
    run_all(SPECS[:1], tmp_path, engine="inline", threads=1)
    said = []
    assert len(run_all(SPECS[:2], tmp_path, engine="inline", threads=1, listen=said.append)) == 2
    assert [event for event in said if isinstance(event, Reused)] == [Reused(1, 2)]
    assert [event.spec for event in said if isinstance(event, Result)] == [SPECS[1]]


def test_what_was_made_under_other_threads_is_taken_with_a_word(tmp_path):
    run_all(SPECS[:1], tmp_path, engine="inline", threads=1)
    for threads, compile, told in (
        (1, "auto", []),
        (None, "auto", []),
        (2, "auto", ["threads"]),
        (2, "off", ["threads"]),
        (2, "on", ["compile", "threads"]),
    ):
        said = []
        [outcome] = run_all(
            SPECS[:1],
            tmp_path,
            RunOptions(Conditions(compile)),
            engine="inline",
            threads=threads,
            listen=said.append,
        )
        assert isinstance(outcome, Result)
        sentences = [event.message for event in said if isinstance(event, Note)]
        assert sentences == [
            f"Reusing 1 run made with a different --{name}. To run again, use another --root." for name in told
        ]


@pytest.fixture
def dying(tmp_path, monkeypatch):
    """Let workers be killed at the end of a stage, so many times in all."""

    def times(count):
        (tmp_path / "deaths").write_text(str(count))
        monkeypatch.setenv("DEATHS", str(tmp_path / "deaths"))
        monkeypatch.setattr("evenhand.experiment.engine.processes.serve", victims.serve)

    return times


@pytest.mark.slow
@pytest.mark.skipif(CORES < 2, reason="processes want two cores")
def test_a_worker_that_dies_is_replaced_and_its_run_goes_on(tmp_path, dying, monkeypatch):
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0)
    dying(2)
    inline = run_all(SPECS, tmp_path / "inline", engine="inline", threads=1)
    said = []
    outcomes = run_all(
        SPECS, tmp_path / "spread", RunOptions(retries=2), engine="processes", workers=2, threads=1, listen=said.append
    )
    assert [o.records for o in outcomes] == [o.records for o in inline]
    assert len([e for e in said if isinstance(e, Note) and "process died (signal SIGKILL)" in e.message]) == 2


@pytest.mark.slow
@pytest.mark.skipif(CORES < 2, reason="processes want two cores")
def test_a_run_whose_workers_die_is_recorded_as_failed_and_the_others_are_made(tmp_path, dying):
    dying(1)
    outcomes = run_all(SPECS, tmp_path, engine="processes", workers=2, threads=1)
    assert sorted(type(o).__name__ for o in outcomes) == ["Failure", "Result", "Result", "Result"]
    [lost] = [o for o in outcomes if isinstance(o, Failure)]
    assert lost.cause == "lost"
    status = Folder(tmp_path, lost.spec).status()
    assert status["state"] == "failed"
    assert "signal SIGKILL" in status["error"]
    assert all(isinstance(o, Result) for o in run_all(SPECS, tmp_path, engine="inline", threads=1))


@pytest.mark.skipif(CORES < 2, reason="processes want two cores")
def test_processes_that_cannot_start_are_one_sentence(tmp_path):
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "from evenhand.experiment.engine.dispatch import run_all\n"
        "from evenhand.experiment.spec import Spec\n"
        "specs = [Spec.make(method='er', seed=seed) for seed in range(9)]\n"
        "run_all(specs, Path('runs'), engine='processes', threads=1)"
    )
    ended = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "RunError: Worker processes die as they start (exit code 1)" in ended.stderr
    assert ended.stderr.count("bootstrapping phase") == 2


def test_a_run_that_another_process_makes_is_busy_or_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0.1)
    folder = Folder(tmp_path, SPECS[0])
    folder.path.mkdir(parents=True)
    with lock.held(folder.path / lock.NAME):
        busy, made = run_all(SPECS[:2], tmp_path, engine="inline", threads=1)
        assert busy.cause == "busy"
        assert f"locked by process {os.getpid()}" in busy.message
        assert isinstance(made, Result)
    held, released = threading.Event(), []

    def hold():
        with lock.held(folder.path / lock.NAME):
            held.set()
            time.sleep(1)
            released.append(time.monotonic())

    threading.Thread(target=hold).start()
    held.wait()
    said = []
    [result] = run_all(SPECS[:1], tmp_path, RunOptions(patient=True), engine="inline", threads=1, listen=said.append)
    assert isinstance(result, Result)
    assert time.monotonic() > released[0]
    waiting = [event.message for event in said if isinstance(event, Note) and event.key]
    assert waiting == [f"The run {SPECS[0].key} is locked by process {os.getpid()}. Waiting for it to end."]


def test_a_run_whose_folder_is_pruned_as_it_begins_begins_again(tmp_path, monkeypatch):
    acquire = lock.Lock.acquire

    def pruned(self):
        monkeypatch.setattr(lock.Lock, "acquire", acquire)
        self.path.parent.rmdir()
        return acquire(self)

    monkeypatch.setattr(lock.Lock, "acquire", pruned)
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0.0)
    [outcome] = run_all(SPECS[:1], tmp_path, RunOptions(patient=True), engine="inline", threads=1)
    assert isinstance(outcome, Result)


def test_two_grids_at_once_make_every_run_once(tmp_path):
    code = (
        "import sys, json; from pathlib import Path; from evenhand.experiment.spec import Spec\n"
        "from evenhand.experiment.engine.dispatch import run_all\n"
        "from evenhand.experiment.engine.queue import RunOptions\n"
        f"specs = [Spec.read(fields) for fields in {[s.model_dump() for s in SPECS]!r}]\n"
        "from evenhand.experiment import run\n"
        "made, build = [], run.build\n"
        "run.build = lambda spec, *a, **k: made.append(spec.key) or build(spec, *a, **k)\n"
        "run_all(specs, Path(sys.argv[1]), RunOptions(patient=True), engine='inline', threads=1)\n"
        "print(json.dumps(made))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(made[0] + made[1]) == sorted(spec.key for spec in SPECS)
    assert [r.records for r in run_all(SPECS, tmp_path)] == [
        r.records for r in run_all(SPECS, tmp_path / "alone", engine="inline", threads=1)
    ]


def test_an_engine_that_does_not_exist(tmp_path):
    with pytest.raises(errors.InputError, match="'engine' must be one of auto, inline, processes, ray. Got 'x'"):
        run_all(SPECS, tmp_path, engine="x")


def begin_with(root, *threads):
    """Begin the first runs, each with so many threads."""
    from evenhand.experiment.run import Interrupted, run

    for spec, count in zip(SPECS, threads, strict=False):
        torch.set_num_threads(count)
        with pytest.raises(Interrupted):
            run(spec, root, stop=lambda: True)


@pytest.mark.parametrize("workers", [None, 1])
def test_runs_that_were_begun_with_other_threads_keep_them(workers, tmp_path, monkeypatch):
    begin_with(tmp_path, 1, 2, 2)
    monkeypatch.setattr("evenhand.experiment.engine.queue.os.sched_getaffinity", lambda _: range(4))
    outcomes = run_all(SPECS, tmp_path, engine="inline", workers=workers)
    assert [outcome.environment["threads"] for outcome in outcomes] == [1, 2, 2, 4]


def test_threads_that_were_given_are_taken_and_a_begun_run_says_what_it_had(tmp_path):
    begin_with(tmp_path, 1)
    [outcome] = run_all(SPECS[:1], tmp_path, engine="inline", threads=2)
    assert "threads was 1 and is 2" in outcome.message


def test_runs_that_were_begun_alike_set_the_threads_of_all(tmp_path, monkeypatch):
    begin_with(tmp_path, 1)
    shares = []
    monkeypatch.setattr("evenhand.experiment.engine.dispatch.run_in_processes", lambda _, *share: shares.append(share))
    monkeypatch.setattr("evenhand.experiment.engine.queue.os.sched_getaffinity", lambda _: range(4))
    with pytest.raises(KeyError):
        run_all(SPECS[:2], tmp_path)
    assert shares == [(2, 1)]


@pytest.mark.parametrize("workers", [None, 2])
def test_runs_that_keep_their_threads_take_no_more_than_the_cores(workers, tmp_path, monkeypatch):
    begin_with(tmp_path, 2, 2, 1)
    shares = []
    monkeypatch.setattr(
        "evenhand.experiment.engine.dispatch.run_inline", lambda _, threads: shares.append((1, threads))
    )
    monkeypatch.setattr("evenhand.experiment.engine.dispatch.run_in_processes", lambda _, *share: shares.append(share))
    monkeypatch.setattr("evenhand.experiment.engine.queue.os.sched_getaffinity", lambda _: range(2))
    with pytest.raises(KeyError):
        run_all(SPECS, tmp_path, workers=workers)
    assert shares == [(1, 2)]


@pytest.mark.parametrize("anyway", [False, True])
def test_a_run_begun_with_more_threads_than_there_are_cores_does_not_stop_the_others(anyway, tmp_path, monkeypatch):
    begin_with(tmp_path, 2)
    monkeypatch.setattr("evenhand.experiment.engine.queue.os.sched_getaffinity", lambda _: range(1))
    begun, other = run_all(SPECS[:2], tmp_path, RunOptions(anyway=anyway))
    assert other.environment["threads"] == 1
    if anyway:
        assert begun.environment["threads"] == 1
    else:
        assert "threads was 2 and is 1" in begun.message


def test_a_run_that_went_on_anyway_needs_no_second_leave(tmp_path):
    from evenhand.experiment.run import Interrupted, run

    begin_with(tmp_path, 2)
    torch.set_num_threads(1)
    with pytest.raises(Interrupted):
        run(SPECS[0], tmp_path, anyway=True, stop=lambda: True)
    state = Folder(tmp_path, SPECS[0]).state
    state.write_bytes(Folder(tmp_path, SPECS[0]).previous.read_bytes())  # as if killed before it stopped
    assert isinstance(run_all(SPECS[:1], tmp_path, engine="inline")[0], Result)


def test_a_worker_that_is_lost_with_its_run_done_has_not_failed(tmp_path):
    [made] = run_all(SPECS[:1], tmp_path, engine="inline", threads=1)
    queue = RunQueue(SPECS[:1], tmp_path, RunOptions(), lambda _: None)
    queue.record(Failure(SPECS[0], "lost", "Its process died."))
    assert queue.outcomes[SPECS[0].key] == made
    assert Folder(tmp_path, SPECS[0]).status()["state"] == "done"


@pytest.mark.parametrize("threads", [0, 1.5, "1", True, None])
def test_threads_that_no_run_could_have_are_not_kept(threads, tmp_path):
    begin_with(tmp_path, 1)
    status = tmp_path / SPECS[0].key / "status.json"
    content = json.loads(status.read_text())
    content["environment"]["threads"] = threads
    status.write_text(json.dumps(content))
    begun, other = run_all(SPECS[:2], tmp_path, RunOptions(anyway=True), engine="inline")
    assert isinstance(begun, Result)
    assert isinstance(other, Result)


def test_ctrl_c_before_a_run_learns_stops_it_and_the_others(tmp_path, monkeypatch):
    from evenhand.experiment import run

    build = run.build

    def interrupted(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return build(*arguments, **options)

    monkeypatch.setattr(run, "build", interrupted)
    outcomes = run_all(SPECS[:2], tmp_path, engine="inline", threads=1)
    assert [(outcome.cause, outcome.message) for outcome in outcomes] == [
        ("stopped", "Stopped at step 1 of 100; the state is saved."),
        ("stopped", "Not started."),
    ]


def test_ctrl_c_while_another_process_has_the_last_run_ends_the_waiting(tmp_path):
    with Folder(tmp_path, SPECS[0]).locked():
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        [outcome] = run_all(SPECS[:1], tmp_path, RunOptions(patient=True), engine="inline", threads=1)
    assert (outcome.cause, outcome.message) == ("stopped", "Not started.")


CTRL_C = """
import os, signal, sys, threading, time
from evenhand.cli import app
from evenhand.experiment.engine import processes

start = processes.Worker.__init__

def started(*given):
    start(*given)
    threading.Timer(float(sys.argv[1]), os.killpg, (os.getpgid(0), signal.SIGINT)).start()

processes.Worker.__init__ = started
if __name__ == "__main__":
    app.main(["run", "er", "uer", "--seeds", "2", "--backbone", "mlp(hidden=8)", "--engine", "processes"])
"""


@pytest.mark.slow
@pytest.mark.skipif(CORES < 2, reason="processes want two cores")
@pytest.mark.parametrize("after", [0.0, 0.3, 1.0])
def test_ctrl_c_while_processes_start_ends_quietly(after, tmp_path):
    (tmp_path / "script.py").write_text(CTRL_C)
    ended = subprocess.run(
        [sys.executable, "script.py", str(after)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr
    assert "die as they start" not in ended.stderr


def test_shares_use_all_cores_and_no_more(monkeypatch):
    monkeypatch.setattr("evenhand.experiment.engine.queue.os.sched_getaffinity", lambda _: range(8))
    assert Allocation.of(1) == Allocation(1, 8)
    assert Allocation.of(3) == Allocation(3, 2)
    assert Allocation.of(100) == Allocation(8, 1)
    assert Allocation.of(100, threads=2) == Allocation(4, 2)
    assert Allocation.of(100, workers=3) == Allocation(3, 2)
    with pytest.raises(errors.InputError, match=r"^4 workers with 4 threads each need 16 cores, but there are 8\.$"):
        Allocation.of(4, 4, 4)
    with pytest.raises(errors.InputError, match="'workers' must be a whole number of at least 1. Got 0"):
        Allocation.of(4, workers=0)
