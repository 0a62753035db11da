import json
import os
import socket
import subprocess
import sys
import threading
import types

import pytest

from evenhand import errors, metrics
from evenhand.experiment.spec import Spec
from evenhand.experiment.tracking import Tracker, tracker
from evenhand.experiment.tracking.tracker import scalars

SPEC = Spec.make(method="mir+uer(alpha=0.3)", backbone="mlp(hidden=8)")
FACTS = {"evenhand": "0", "torch": "2", "threads": 1}
MATRIX = [[0.9], [0.5, 0.8], [0.6, 0.25, 0.7]]
LINES = [
    {"stage": i, "step": 100 * i, "accuracy": row, "train_seconds": 2.0 * i, "test_seconds": 0.5}
    for i, row in enumerate(MATRIX, 1)
]


class Noting:
    """A sink that notes what it was called with; `spoil` is done at one of the calls, or when it is made."""

    def __init__(self, calls, at="", spoil=lambda: None):
        self.calls, self.at, self.spoil = calls, at, spoil
        self._note("made")

    def _note(self, name, *arguments):
        self.calls.append((name, *arguments))
        if name == self.at:
            self.spoil()

    def begin(self, folder, spec, facts):
        self._note("begin", folder, spec, facts)

    def record(self, line):
        self._note("record", line["stage"])

    def end(self, state):
        self._note("end", state)


@pytest.fixture
def own(monkeypatch):
    """Put sinks into a module of somebody's own."""
    return lambda **sinks: monkeypatch.setitem(sys.modules, "own", types.SimpleNamespace(**sinks))


def track(names, folder, resumed=0, say=pytest.fail):
    tracked = Tracker(names, say)
    tracked.begin(folder, SPEC, FACTS, LINES[:resumed])
    for line in LINES[resumed:]:
        tracked.record(line)
    tracked.end("done")


@pytest.mark.parametrize("resumed", [0, 2])
def test_a_sink_hears_of_every_stage_once_and_in_order(tmp_path, own, resumed):
    calls = []
    own(sink=lambda: Noting(calls))
    track(["own:sink"], tmp_path, resumed)
    stages = [("record", 1), ("record", 2), ("record", 3)]
    assert calls == [("made",), ("begin", tmp_path, SPEC, FACTS), *stages, ("end", "done")]


def raising(error):
    def spoil():
        raise error

    return spoil


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("at", ["made", "begin", "record", "end"])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no\nroom."), "ValueError: no room"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (UnprintableError(), f"{UnprintableError.__module__}.UnprintableError: <exception str() failed>"),
    ],
)
def test_a_sink_that_raises_is_left_out_and_the_others_go_on(tmp_path, own, at, error, reason):
    broken, whole, said = [], [], []
    own(broken=lambda: Noting(broken, at, raising(error)), whole=lambda: Noting(whole))
    track(["own:broken", "own:whole"], tmp_path, say=said.append)
    assert said == [f"Stopped tracking with own:broken: {reason}. metrics.jsonl is not affected."]
    assert broken[-1][0] == at
    assert len([call for call in broken if call[0] == at]) == 1
    assert [call[0] for call in whole] == ["made", "begin", "record", "record", "record", "end"]


@pytest.mark.parametrize("at", ["made", "begin", "record", "end"])
def test_a_sink_that_hangs_holds_nobody_up_and_does_nothing_once_it_was_left(tmp_path, own, monkeypatch, at):
    monkeypatch.setattr(tracker, "PATIENCE", 0.3)
    awake, calls, whole, said = threading.Event(), [], [], []
    own(slow=lambda: Noting(calls, at, lambda: awake.wait(60)), whole=lambda: Noting(whole))
    tracked = Tracker(["own:slow", "own:whole"], said.append)
    tracked.begin(tmp_path, SPEC, FACTS, LINES)
    thread = tracked.threads[0]
    tracked.end("done")
    assert not awake.is_set()
    reason = "it did not end within 0.3 seconds"
    assert said == [f"Stopped tracking with own:slow: {reason}. metrics.jsonl is not affected."]
    assert whole[-1] == ("end", "done")
    awake.set()
    thread.join(60)
    assert not thread.is_alive()
    assert calls[-1][0] == at
    assert [call[0] for call in calls].count("record") == (at in ("record", "end")) + 2 * (at == "end")


def test_a_failure_is_said_while_the_run_goes_on_and_in_its_thread(tmp_path, own):
    said = []
    own(sink=lambda: Noting([], "record", raising(ValueError)))
    tracked = Tracker(["own:sink"], lambda text: said.append(threading.current_thread()))
    tracked.begin(tmp_path, SPEC, FACTS, LINES[:1])
    tracked.threads[0].join(60)
    tracked.record(LINES[1])
    assert said == [threading.main_thread()]
    assert tracked.threads == []


def test_a_sentence_that_cannot_be_said_harms_nothing(tmp_path, own, monkeypatch):
    closed = (tmp_path / "stderr").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    own(sink=lambda: Noting([], "begin", lambda: print("begun", file=closed)))
    tracked = Tracker(["own:sink"])
    tracked.begin(tmp_path, SPEC, FACTS, LINES)
    tracked.end("done")


def test_a_thread_that_cannot_be_started_harms_nothing(tmp_path, own, monkeypatch):
    said = []
    own(sink=lambda: Noting([]))
    monkeypatch.setattr(threading.Thread, "start", lambda _: raising(RuntimeError("can't start new thread"))())
    tracked = Tracker(["own:sink"], said.append)
    tracked.begin(tmp_path, SPEC, FACTS, [])
    tracked.end("failed")
    assert len(said) == 1
    assert "can't start new thread" in said[0]


def test_what_a_sink_does_to_its_line_reaches_neither_the_run_nor_another_sink(tmp_path, own):
    seen = []

    class Greedy(Noting):
        def begin(self, folder, spec, facts):
            facts.clear()

        def record(self, line):
            seen.append((line["accuracy"].copy(), line["scalars"]["accuracy"]))
            line["accuracy"].clear()

    own(one=lambda: Greedy([]), two=lambda: Greedy([]))
    before = json.dumps([LINES, FACTS])
    track(["own:one"], tmp_path)
    track(["own:one", "own:two"], tmp_path)
    assert json.dumps([LINES, FACTS]) == before
    assert sorted(seen) == sorted([(row, metrics.mean(row)) for row in MATRIX] * 3)


def test_a_name_given_twice_is_one_sink(tmp_path, own):
    calls = []
    own(sink=lambda: Noting(calls))
    track(["own:sink", "own:sink"], tmp_path)
    assert calls.count(("made",)) == 1


def test_scalars_have_flat_names():
    assert scalars(MATRIX, LINES[2]) == pytest.approx(
        {
            "accuracy": (0.6 + 0.25 + 0.7) / 3,
            "accuracy/stage_01": 0.6,
            "accuracy/stage_02": 0.25,
            "accuracy/stage_03": 0.7,
            "previous": 0.425,
            "current": 0.7,
            "forgetting": (0.3 + 0.55) / 2,
            "train_seconds": 6.0,
            "test_seconds": 0.5,
        }
    )
    assert "forgetting" not in scalars(MATRIX[:1], LINES[0])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tensorbord", "There is no tracker called 'tensorbord'. Did you mean tensorboard?"),
        ("", "There is no tracker called ''. Available: mlflow, module:attribute, tensorboard, wandb."),
        (
            "no_such:sink",
            "The tracker 'no_such:sink' cannot be loaded: ModuleNotFoundError: No module named 'no_such'.",
        ),
        (
            "json:sink",
            "The tracker 'json:sink' cannot be loaded: AttributeError: module 'json' has no attribute 'sink'.",
        ),
        (":sink", "The tracker ':sink' cannot be loaded: ValueError: Empty module name."),
        ("sys:path", "The tracker 'sys:path' must be a class, or a function that returns a tracker. Got "),
    ],
)
def test_a_wrong_name_is_one_sentence_before_anything_has_begun(name, sentence):
    with pytest.raises(errors.InputError) as caught:
        Tracker([name])
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", ["mlflow", "tensorboard", "wandb"])
@pytest.mark.parametrize("remains", [None, types.SimpleNamespace(origin=None)], ids=["nothing", "folder"])
def test_a_missing_library_is_one_sentence_with_what_to_install(monkeypatch, name, remains):
    monkeypatch.setattr("importlib.util.find_spec", lambda library: remains)
    with pytest.raises(errors.InputError, match=rf"Tracking needs {name}, which .* pip install 'evenhand\[tracking\]'"):
        Tracker([name])


def test_nothing_is_imported_or_started_that_was_not_asked_for(tmp_path):
    code = f"""
import sys, threading
from pathlib import Path
from evenhand.experiment.spec import Spec
from evenhand.experiment.tracking import Tracker, tracker
threads = threading.active_count()
tracked = Tracker([])
tracked.begin(Path({str(tmp_path)!r}), Spec.make(method="er"), {{}}, [])
tracked.record({{"stage": 1}})
assert threading.active_count() == threads
tracked.end("done")
print(*(name for name in sys.modules if name.startswith("evenhand.experiment.tracking.") and name != tracker.__name__))
tracker._installed = lambda library: True
Tracker(["tensorboard", "mlflow", "wandb"])  # asked for, but not begun
print(*(name for name in sys.modules if name.partition(".")[0] in ("tensorboard", "mlflow", "wandb")))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
    assert list(tmp_path.iterdir()) == []


RUN = f"""
import json, os, signal, sys, time
from pathlib import Path

def listen(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        print("connects to", arguments[1], file=sys.stderr)

sys.addaudithook(listen)
hooks = sys.exit, sys.excepthook
from evenhand.experiment.spec import Spec
from evenhand.experiment.tracking import Tracker, tracker

tracker.PATIENCE = 300
name, root, fields, resumed, until = sys.argv[1], Path(sys.argv[2]), *map(json.loads, sys.argv[3:])
spec, lines = Spec.make(**fields), {LINES!r}
(root / spec.key).mkdir(exist_ok=True)
tracked = Tracker([name])
tracked.begin(root / spec.key, spec, {FACTS!r}, lines[:resumed])
thread = tracked.threads[0]
for line in lines[resumed:until]:
    tracked.record(line)
if until < len(lines):
    tracked.factories[name].die = lambda sink: os.kill(os.getpid(), signal.SIGKILL)
    thread.calls.put(("die", ()))
    time.sleep(300)
tracked.end("done")
assert (sys.exit, sys.excepthook) == hooks
"""
FIELDS = {"method": "mir+uer(alpha=0.3)", "backbone": "mlp(hidden=8)"}
EXPECTED = [
    (line["step"], name, value)
    for i, line in enumerate(LINES, 1)
    for name, value in sorted(scalars(MATRIX[:i], line).items())
]


def start(name, root, resumed=0, until=3, before="", **fields):
    """Track a run in a process of its own, which kills itself before the last line if `until` is less than 3."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "WANDB_BASE_URL": os.environ["SERVER"]}
    numbers = json.dumps({**FIELDS, **fields}), str(resumed), str(until)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", before + RUN, name, str(root), *numbers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert (out, err) == ("", "")
    return process.returncode


@pytest.fixture
def silence(monkeypatch):
    """A server that nobody may call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        monkeypatch.setenv("SERVER", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield
        with pytest.raises(BlockingIOError):
            server.accept()


def by_tensorboard(root, key):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(root / key / "tensorboard")).Reload()
    texts = [events.Tensors(f"{name}/text_summary") for name in ("key", "state", "spec", "facts")]
    texts = [entry.tensor_proto.string_val[0].decode() for [entry] in texts]
    assert texts[:2] == [key, "done"]
    assert "| method | mir+uer(alpha=0.3) |" in texts[2]
    assert "| torch | 2 |" in texts[3]
    return [(entry.step, name, entry.value) for name in events.Tags()["scalars"] for entry in events.Scalars(name)]


def by_mlflow(root, key):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(root / "mlflow").as_uri())
    [experiment] = [found for found in client.search_experiments() if found.name != "Default"]
    runs = client.search_runs([experiment.experiment_id], f"tags.key = '{key}'")
    assert len(runs) == 1
    data = runs[0].data
    assert runs[0].info.status == "FINISHED"
    assert data.params == {name: str(value) for name, value in Spec.make(**FIELDS).model_dump().items()}
    tags = {name: value for name, value in data.tags.items() if not name.startswith("mlflow.")}
    assert tags == {"key": key, "state": "done", "evenhand": "0", "torch": "2", "threads": "1"}
    found = [point for name in data.metrics for point in client.get_metric_history(runs[0].info.run_id, name)]
    return [(point.step, point.key.replace("accuracy_stage", "accuracy/stage"), point.value) for point in found]


def by_wandb(root, key):
    from wandb.proto.wandb_internal_pb2 import Record

    [path] = (root / key / "wandb").glob("offline-run-*/run-*.wandb")
    assert path.name == f"run-{key}.wandb"
    content, messages, place = path.read_bytes(), [b""], 7  # after the header: LevelDB's log format, in blocks of 32 kB
    while place < len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        messages[-1] += content[place + 7 : place + 7 + length]
        if kind in (1, 4):  # whole, or the last part
            messages.append(b"")
        place += 7 + length
    records = [Record.FromString(message) for message in messages[:-1]]
    config = {u.key: json.loads(u.value_json) for r in records if r.HasField("run") for u in r.run.config.update}
    assert {name: config[name] for name in Spec.model_fields} == Spec.make(**FIELDS).model_dump()
    assert config["facts"] == FACTS
    summary = {(u.key or u.nested_key[0]): u.value_json for r in records for u in r.summary.update}
    assert json.loads(summary["state"]) == "done"
    assert [r.exit.exit_code for r in records if r.HasField("exit")] == [0]
    found = []
    for record in records:
        items = {(i.key or i.nested_key[0]): json.loads(i.value_json) for i in record.history.item}
        found += [(items["_step"], name, value) for name, value in items.items() if not name.startswith("_")]
    assert not any(record.HasField(kind) for record in records for kind in ("environment", "stats", "output_raw"))
    assert not list((path.parent / "files").iterdir())
    assert socket.gethostname().encode() not in content
    assert str(root).encode() not in content
    return found


READERS = {"tensorboard": by_tensorboard, "mlflow": by_mlflow, "wandb": by_wandb}


@pytest.mark.slow
@pytest.mark.usefixtures("silence")
@pytest.mark.filterwarnings("ignore")  # the readers are the libraries' own
@pytest.mark.parametrize("kills", [[], [(0, 2)], [(0, 1), (0, 2), (1, 2)]], ids=["whole", "killed", "thrice"])
@pytest.mark.parametrize("name", READERS)
def test_a_killed_run_is_shown_like_one_that_was_not(tmp_path, monkeypatch, name, kills):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    pytest.importorskip(name)
    for resumed, until in kills:
        assert finish(start(name, tmp_path, resumed, until)) == -9
    assert finish(start(name, tmp_path, kills[-1][1] if kills else 0)) == 0
    found = sorted(READERS[name](tmp_path, SPEC.key))
    assert [entry[:2] for entry in found] == [entry[:2] for entry in EXPECTED]
    assert [entry[2] for entry in found] == pytest.approx([entry[2] for entry in EXPECTED])
    assert {path.name for path in tmp_path.iterdir()} - {"mlflow", ".wandb"} == {SPEC.key}


@pytest.mark.slow
@pytest.mark.usefixtures("silence")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_stands_processes_that_begin_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = pytest.importorskip("mlflow.tracking").MlflowClient
    slowly = """
import time
from mlflow.tracking import MlflowClient
create = MlflowClient.create_experiment
MlflowClient.create_experiment = lambda *given: time.sleep(5) or create(*given)
"""
    processes = [start("mlflow", tmp_path, before=slowly, seed=seed) for seed in range(3)]
    assert [finish(process) for process in processes] == [0] * 3
    client = client(tracking_uri=(tmp_path / "mlflow").as_uri())
    [experiment] = [found for found in client.search_experiments() if found.name != "Default"]
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.data.params["seed"] for run in runs) == ["0", "1", "2"]
    for run in runs:
        assert [point.step for point in client.get_metric_history(run.info.run_id, "accuracy")] == [100, 200, 300]
