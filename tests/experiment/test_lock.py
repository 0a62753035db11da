import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from evenhand import errors
from evenhand.experiment import lock

HOLD = """
import sys, time
from pathlib import Path
from evenhand.experiment import lock
with lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / lock.NAME


@pytest.fixture
def other(path):
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def rewrite(path, **changes):
    """Let the lock say something else about its holder."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_lock_is_there_while_it_is_held(path):
    assert lock.holder(path) is None
    with lock.held(path) as held:
        assert held.is_ours()
        assert lock.holder(path) == f"process {os.getpid()}"
        with pytest.raises(errors.BusyError, match=f"locked by process {os.getpid()}"), lock.held(path):
            pass
        assert held.is_ours()
    assert list(path.parent.iterdir()) == []


def test_a_killed_holder_is_dead_at_once(path, other):
    with pytest.raises(errors.BusyError, match=str(other.pid)), lock.held(path):
        pass
    other.kill()
    other.wait()
    assert lock.holder(path) is None
    with lock.held(path):
        assert lock.holder(path) == f"process {os.getpid()}"


def test_a_holder_whose_number_was_given_to_another_process_is_dead(path):
    with lock.held(path):
        rewrite(path, began="1")
        assert lock.holder(path) is None


@pytest.mark.parametrize("change", [{"machine": "elsewhere"}, {"boot": "another"}, {"space": "pid:[1]"}])
def test_a_holder_elsewhere_lives_as_long_as_its_heart_beats(path, change):
    """Its number means nothing here: that it is ours, or nobody's, is no sign."""
    with lock.held(path):
        rewrite(path, **change, process=2**22 + 1)
        assert "process 4194305 on " in lock.holder(path)
        age(path, lock.PATIENCE - 10)
        assert lock.holder(path) is not None
        age(path, lock.PATIENCE + 10)
        assert lock.holder(path) is None


def test_a_silent_holder_here_is_dead_though_its_process_lives(path, other):
    age(path, lock.PATIENCE + 10)
    assert lock.holder(path) is None


def test_who_was_taken_over_finds_out_and_leaves_the_lock_alone(path):
    with lock.held(path) as first:
        age(path, lock.PATIENCE + 10)
        with lock.held(path) as second:
            assert second.is_ours()
            assert not first.is_ours()
            first.release()
            assert second.is_ours()
    assert list(path.parent.iterdir()) == []


def test_a_lock_that_cannot_be_written_is_not_left_behind(path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock.json, "dumps", full)
    with pytest.raises(errors.RunError, match=r"cannot be written: No space left on device\."), lock.held(path):
        pass
    assert list(path.parent.iterdir()) == []


def test_the_heart_beats(path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.05)
    with lock.held(path):
        age(path, 1000)
        deadline = time.monotonic() + 20
        while time.time() - path.stat().st_mtime > 500:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_heart_goes_on_after_a_disk_was_away(path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.05)
    away = threading.Event()
    read = type(path).read_text

    def failing(self, *given, **more):
        if away.is_set() and self == path:
            raise OSError(5, "Input/output error")
        return read(self, *given, **more)

    monkeypatch.setattr(type(path), "read_text", failing)
    with lock.held(path) as held:
        away.set()
        time.sleep(0.3)
        assert held.is_ours()
        assert lock.holder(path) is not None
        away.clear()
        age(path, 1000)
        deadline = time.monotonic() + 20
        while time.time() - path.stat().st_mtime > 500:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"process": "x"}', '{"process": null, "began": null}'])
def test_a_lock_that_says_nothing_lives_by_its_age(path, content):
    path.write_text(content)
    assert lock.holder(path) == "a process that has not named itself"  # perhaps it is about to
    age(path, lock.PATIENCE + 10)
    with lock.held(path):
        pass


def test_a_lock_that_somebody_took_meanwhile_is_never_moved(path, monkeypatch):
    with lock.held(path):
        monkeypatch.setattr(type(path), "rename", lambda *_: pytest.fail("For a moment nobody seemed to hold it."))
        lock._remove_stale(path)
        assert lock.holder(path) is not None


def test_only_one_of_many_takes_over_a_dead_lock(path):
    path.write_text("{}")
    age(path, lock.PATIENCE + 10)
    holding, most, failed = 0, 0, 0
    guard = threading.Lock()

    def work():
        nonlocal holding, most, failed
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(errors.BusyError), lock.held(path):
                with guard:
                    holding += 1
                    most = max(most, holding)
                time.sleep(0.01)
                with guard:
                    holding -= 1
                return
            time.sleep(0.01)
        failed += 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, failed) == (1, 0)
