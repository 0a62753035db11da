"""Grids on a real Ray cluster of several nodes on this machine; nodes are killed in the middle of them."""

import json
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from evenhand import __version__, errors
from evenhand.experiment.engine import cluster, queue
from evenhand.experiment.engine.dispatch import run_all
from evenhand.experiment.engine.queue import RunOptions
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.run import Note, Progress
from evenhand.experiment.spec import Spec

SPECS = [
    Spec.make(method=method, backbone="mlp(hidden=256)", memory=50, batch=2, seed=seed)
    for method in ("er", "uer")
    for seed in (0, 1)
]


def test_without_ray_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(errors.InputError, match="needs Ray, which .* pip install 'evenhand.cluster.'"):
        run_all(SPECS, tmp_path, engine="ray")


def test_a_node_with_another_version_says_so():
    outcome, contents = cluster.run_on_node("0.0", SPECS[0], None, {}, 1, RunOptions(), {}, None)
    assert contents == {}
    assert f"A node has evenhand {__version__}, the caller 0.0" in outcome.message


class Lossy:
    """A cluster that loses a task when it is cancelled; the first one to begin is a Ctrl-C."""

    exceptions = SimpleNamespace(RayError=EOFError, RayTaskError=ZeroDivisionError, TaskCancelledError=KeyError)

    def __init__(self):
        self.begun, self.cancelled = [], []

    def remote(self, *given, **_):
        if not given:
            return lambda _: self
        self.begun.append(f"task {len(self.begun) + 1}")
        signal.raise_signal(signal.SIGINT)
        return self.begun[-1]

    def options(self, **_):
        return self

    def put(self, data):
        return data

    def cancel(self, task):
        self.cancelled.append(task)

    def wait(self, tasks, timeout):
        return [task for task in tasks if task in self.cancelled], []

    def get(self, task):
        raise EOFError


def test_what_is_lost_after_ctrl_c_is_not_begun_again(tmp_path, monkeypatch):
    ray = Lossy()
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0)
    monkeypatch.setattr(cluster, "_connect", lambda _: ray)
    for name in ("_mailbox", "_warn"):
        monkeypatch.setattr(cluster, name, lambda *_: None)
    monkeypatch.setattr(cluster, "_events", lambda *_: [])
    outcomes = run_all(SPECS[:2], tmp_path, RunOptions(retries=2, shared=True), engine="ray", workers=1, threads=1)
    assert [outcome.cause for outcome in outcomes] == ["stopped", "stopped"]
    assert ray.begun == ray.cancelled == ["task 1"]


@pytest.fixture(scope="module")
def inline(tmp_path_factory):
    """The numbers that must come back from wherever."""
    return [r.records for r in run_all(SPECS, tmp_path_factory.mktemp("inline"), engine="inline", threads=1)]


@pytest.fixture(scope="module")
def head():
    """A cluster whose first node has nothing but the caller."""
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def nodes(head):
    """Two nodes with a CPU each."""
    made = [head.add_node(num_cpus=1) for _ in range(2)]
    head.wait_for_nodes()
    yield made
    for node in made:
        if node in head.worker_nodes:
            head.remove_node(node)


def how(head, **options):
    return RunOptions(address=head.address, retries=2, patient=True, **options)


def once(said):
    """Whether every run ended, once."""
    return sorted(e.key for e in said if isinstance(e, Result)) == sorted(spec.key for spec in SPECS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shared", [False, True])
def test_a_grid_on_a_cluster_has_the_numbers_of_inline(tmp_path, head, nodes, inline, shared):
    said = []
    outcomes = run_all(SPECS, tmp_path, how(head, shared=shared), engine="ray", threads=1, listen=said.append)
    assert [o.records for o in outcomes] == inline
    assert once(said)
    assert any(isinstance(event, Progress) for event in said)
    for spec in SPECS:
        folder = Folder(tmp_path, spec)
        assert folder.result().environment["threads"] == 1
        names = {"metrics.jsonl", "spec.json", "state.safetensors", "status.json", "timing.jsonl"}
        assert {path.name for path in folder.path.iterdir()} == names


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shared", [False, True])
def test_a_node_is_killed_in_the_middle_of_a_grid(tmp_path, head, nodes, inline, shared, monkeypatch):
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0.2)
    said, before = [], {}
    killed = threading.Event()

    def listen(event):
        said.append(event)
        stages = {e.key: e.stage for e in said if isinstance(e, Progress)}
        ended = {e.key for e in said if isinstance(e, Result)}
        running = [key for key in stages if key not in ended]
        if not killed.is_set() and len(running) == 2 and min(stages[key] for key in running) >= 3:
            if shared:
                before.update({key: (tmp_path / key / "timing.jsonl").read_text().splitlines()[0] for key in running})
            killed.set()
            head.remove_node(nodes[0], allow_graceful=False)

    outcomes = run_all(SPECS, tmp_path, how(head, shared=shared), engine="ray", threads=1, listen=listen)
    assert killed.is_set()
    assert [o.records for o in outcomes] == inline
    assert once(said)
    assert len([e for e in said if isinstance(e, Note) and "worker was lost" in e.message]) == 1
    # What it took to learn the first stage is on the clock, so the same line means that it was not learned again.
    for key, line in before.items():
        assert (tmp_path / key / "timing.jsonl").read_text().splitlines()[0] == line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_that_was_begun_here_goes_on_there(tmp_path, head, nodes, inline):
    run_all(SPECS, tmp_path, RunOptions(until=2), engine="inline", threads=1)
    lines = [(tmp_path / spec.key / "timing.jsonl").read_text().splitlines()[0] for spec in SPECS]
    outcomes = run_all(SPECS, tmp_path, how(head), engine="ray", threads=1)
    assert [o.records for o in outcomes] == inline
    assert [(tmp_path / spec.key / "timing.jsonl").read_text().splitlines()[0] for spec in SPECS] == lines


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shared", [False, True])
def test_a_failure_on_a_node_is_recorded_here(tmp_path, head, nodes, shared):
    hopeless = Spec.make(method="er", backbone="mlp(hidden=16)", memory=50, lr=1e30)
    [outcome] = run_all([hopeless], tmp_path, how(head, shared=shared), engine="ray", threads=1)
    assert outcome.cause == "diverged"
    status = Folder(tmp_path, hopeless).status()
    assert status["state"] == "failed"
    assert "DivergedError: At step" in status["error"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_on_the_cluster_goes_as_far_as_it_is_to_go(tmp_path, head, nodes, inline):
    [outcome] = run_all(SPECS[:1], tmp_path, how(head, until=2), engine="ray", threads=1)
    assert outcome.cause == "paused"
    assert Folder(tmp_path, SPECS[0]).records() == inline[0][:2]


def test_tracking_on_a_cluster_wants_a_shared_root(tmp_path):
    with pytest.raises(errors.InputError, match="needs a root that all nodes see"):
        run_all(SPECS[:1], tmp_path, RunOptions(track=("tensorboard",)), engine="ray")


@pytest.mark.slow
def test_ctrl_c_saves_the_runs_of_the_cluster(tmp_path, head, nodes):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f'root = "{tmp_path / "runs"}"\nmethods = ["er", "uer"]\nbackbone = "mlp(hidden=256)"\nmemory = 50\n'
        "batch = 1\nseeds = 2\n"
    )
    command = [sys.executable, "-m", "evenhand", "grid", str(grid), "--engine", "ray", "--address", head.address]
    process = subprocess.Popen([*command, "--shared"], stderr=subprocess.PIPE, text=True)
    while "stage 2/5" not in (line := process.stderr.readline()):
        assert line, "it ended too early"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    deadline = time.monotonic() + 20
    while saved := [path for path in (tmp_path / "runs").glob("*/.lock") if path.exists()]:
        assert time.monotonic() < deadline, saved
        time.sleep(0.2)
    states = {json.loads(path.read_text())["state"] for path in (tmp_path / "runs").glob("*/status.json")}
    assert states == {"running"}
    assert len(list((tmp_path / "runs").glob("*/state.safetensors"))) >= 2


@pytest.mark.slow
def test_a_cluster_that_is_not_there(tmp_path):
    command = [sys.executable, "-m", "evenhand", "grid", str(tmp_path / "g.toml"), "--engine", "ray"]
    (tmp_path / "g.toml").write_text('methods = "er"')
    ended = subprocess.run([*command, "--address", "127.0.0.1:1"], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "No Ray cluster answers at 127.0.0.1:1" in ended.stderr
    assert "Traceback" not in ended.stderr
