"""Runs that are killed for real, in processes of their own."""

import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from evenhand import files
from evenhand.experiment import Spec, run
from evenhand.experiment.folder import Folder

pytestmark = pytest.mark.slow

FIELDS = {"method": "uer", "backbone": "mlp(hidden=64)", "memory": 100, "augment": "scr", "views": "concat"}
CODE = f"""
import sys, torch
torch.set_num_threads(1)
from evenhand.experiment import Spec, run
print("ready", flush=True)
run(Spec.make(**{FIELDS!r}), sys.argv[1], checkpoint_seconds=0.01)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("whole")
    run(Spec.make(**FIELDS), root)
    return Folder(root, Spec.make(**FIELDS))


@pytest.mark.parametrize("seed", range(6))
def test_sigkill_at_random_moments(tmp_path, whole, seed):
    """Kill the run again and again until it gets through; the end is that of a run never killed."""
    moments = random.Random(seed)
    kills = 0
    while True:
        process = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(moments.uniform(0, 0.7 + 0.5 * kills))
        process.kill()
        process.stdout.close()
        if process.wait() == 0:
            break
        kills += 1
    assert kills
    killed = Folder(tmp_path, Spec.make(**FIELDS))
    assert (killed.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()
    (tensors, facts), (expected, expected_facts) = files.read_state(killed.state), files.read_state(whole.state)
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    assert facts["learner"] == expected_facts["learner"]
    assert killed.result().records == whole.result().records


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_a_request_to_stop_saves_and_says_so(tmp_path, number, workers):
    command = [sys.executable, "-m", "evenhand", "run", "er", "uer", "--seeds", "2", "--root", str(tmp_path)]
    command += ["--workers", str(workers), "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first = process.stderr.readline()
    assert "stage 1/5" in first
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the state is saved" in err
    assert "Not begun" in err
    assert "Traceback" not in err
    assert out == ""
    saved = list(tmp_path.glob("*/state.safetensors"))
    assert len(saved) == workers
    assert all(files.read_state(path)[1]["position"] > 0 for path in saved)
