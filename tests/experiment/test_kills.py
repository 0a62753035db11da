"""Runs that are killed for real, in processes of their own, and go on to the same bits."""

import random
import signal
import subprocess
import sys

import pytest

from evenhand import files
from evenhand.core import registry
from experiment.victims import CONTEXT, REFUSED, Fault, end, finish, kill_at

pytestmark = pytest.mark.slow

FIELDS = {"method": "uer", "backbone": "mlp(hidden=64)", "memory": 100, "augment": "scr", "views": "concat"}
BRIEF = {"method": "uer", "backbone": "mlp(hidden=16)", "memory": 50, "batch": 100}


STEPS = 500


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """How a run ends that was never killed."""
    root = tmp_path_factory.mktemp("whole")
    assert finish(FIELDS, root) == 0
    return end(FIELDS, root)


@pytest.mark.parametrize("part", range(5))
def test_fifty_kills_at_random_moments(tmp_path, whole, part):
    draws = random.Random(part)
    killed = 0
    for number in range(10):
        killed += kill_at(draws.randrange(STEPS), FIELDS, tmp_path / str(number), checkpoint_seconds=0)
        assert finish(FIELDS, tmp_path / str(number)) == 0
        assert end(FIELDS, tmp_path / str(number)) == whole
    assert killed >= 9


def test_a_run_that_is_killed_again_and_again(tmp_path, whole):
    draws, kills = random.Random(0), 0
    while kill_at(draws.randrange(STEPS // 3), FIELDS, tmp_path, checkpoint_seconds=0):
        kills += 1
    assert kills >= 3
    assert finish(FIELDS, tmp_path) == 0
    assert end(FIELDS, tmp_path) == whole


@pytest.mark.parametrize("kind", ["before", "torn", "after", "refuses"])
def test_a_fault_at_every_write_sync_and_rename(tmp_path, kind):
    count = CONTEXT.Value("i")
    assert finish(BRIEF, tmp_path / "whole", count=count) == 0
    expected = end(BRIEF, tmp_path / "whole")
    assert count.value > 70
    for number in range(1, count.value + 1):
        root = tmp_path / str(number)
        code = finish(BRIEF, root, fault=Fault(number, kind))
        # A folder that cannot be synced after a rename is no reason to stop.
        assert code in (REFUSED, 0) if kind == "refuses" else code == -signal.SIGKILL
        assert finish(BRIEF, root) == 0
        assert end(BRIEF, root) == expected


@pytest.mark.parametrize("method", sorted(registry.recipes()))
def test_every_method_goes_on_after_a_kill(tmp_path, method):
    fields = {**BRIEF, "method": method, "batch": 20}
    assert finish(fields, tmp_path / "whole") == 0
    step = random.Random(method).randrange(100, 240)
    assert kill_at(step, fields, tmp_path / "killed", checkpoint_seconds=0)
    assert finish(fields, tmp_path / "killed") == 0
    assert end(fields, tmp_path / "killed") == end(fields, tmp_path / "whole")


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_a_request_to_stop_saves_and_says_so(tmp_path, number, workers):
    command = [sys.executable, "-m", "evenhand", "run", "er", "uer", "--seeds", "2", "--root", str(tmp_path)]
    command += ["--workers", str(workers), "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert f"Running 4 runs: {workers} at a time, 1 thread each, in fp32." in process.stderr.readline()
    assert "stage 1/5" in process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the state is saved" in err
    assert "Not started" in err
    assert "Traceback" not in err
    assert out == ""
    saved = list(tmp_path.glob("*/state.safetensors"))
    assert len(saved) == workers
    assert all(files.read_state(path)[1]["position"] > 0 for path in saved)
