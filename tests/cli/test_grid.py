import json
import os
import shlex
import shutil

import pytest

from evenhand.cli import app
from evenhand.experiment import grid
from evenhand.experiment.folder import Folder
from evenhand.experiment.run import Interrupted, Paused, run
from evenhand.experiment.spec import Spec

GRID = """
title = "a small one"
methods = ["er", "uer(alpha=0.3)"]
backbone = "mlp(hidden=8)"
memory = 20
stages = 2
batch = 50
seeds = 2
"""
TUNE = ["--backbone", "mlp(hidden=8)", "--memory", "20", "--stages", "2", "--batch", "50", "--engine", "inline"]
SPECS = grid.parse(grid.tomllib.loads(GRID)).specs
CORES = len(os.sched_getaffinity(0))


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        app.main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


def rows(out):
    """The cells of a table."""
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]


def never(*_, **__):
    pytest.fail("ran again")


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Let no dataset of this machine be found, and write nothing elsewhere."""
    monkeypatch.setenv("EVENHAND_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path / "grid.toml"


def records(root):
    return {path.parent.name: path.read_bytes() for path in root.glob("*/metrics.jsonl")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All runs of the grid."""
    root = tmp_path_factory.mktemp("whole")
    for spec in SPECS:
        run(spec, root)
    return root


def begin(root, whole):
    """One run done, one stopped, one damaged; the fourth is missing."""
    shutil.copytree(whole / SPECS[0].key, root / SPECS[0].key)
    with pytest.raises(Paused):
        run(SPECS[1], root, until=1)
    (root / SPECS[2].key).mkdir()
    (root / SPECS[2].key / "spec.json").write_text("{")


# A grid ---------------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_done_and_does_nothing(capsys, file, tmp_path, whole, monkeypatch):
    begin(tmp_path / "runs", whole)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    monkeypatch.setattr("evenhand.experiment.engine.dispatch.run_all", never)
    monkeypatch.setattr("evenhand.cli.prepare.load_dataset", never)
    code, out, err = call(capsys, "grid", file, "--dry-run")
    assert (code, err) == (0, "")
    assert rows(out) == [
        ["er seed 0", "done", "2/2", "reuse", SPECS[0].key],
        ["er seed 1", "stopped", "1/2", "resume", SPECS[1].key],
        ["uer(alpha=0.3) seed 0", "damaged", "0/2", "fail", SPECS[2].key],
        ["uer(alpha=0.3) seed 1", "missing", "0/2", "start", SPECS[3].key],
    ]
    assert out.endswith("4 runs in runs: 1 done, 1 stopped, 1 damaged, 1 missing.\n")
    code, out, _ = call(capsys, "grid", file, "--dry-run", "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["root"]) == (0, 1, "runs")
    assert document["runs"][1] == {"key": SPECS[1].key, "run": "er seed 1", "state": "stopped", "stage": 1}
    assert [row["state"] for row in document["runs"]] == ["done", "stopped", "damaged", "missing"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_folder_without_a_spec_is_run_as_the_dry_run_says(capsys, file, tmp_path):
    (tmp_path / "runs" / SPECS[0].key).mkdir(parents=True)
    _, out, _ = call(capsys, "grid", file, "--dry-run")
    assert rows(out)[0] == ["er seed 0", "missing", "0/2", "start", SPECS[0].key]
    code, _, _ = call(capsys, "grid", file, "--engine", "inline", "--threads", 1)
    assert code == 0


def test_a_dry_run_counts_trainings_and_not_their_tests(capsys, file, tmp_path):
    file.write_text(GRID.replace('["er", "uer(alpha=0.3)"]', '["er", "er+ema", "er+cos"]'))
    _, out, _ = call(capsys, "grid", file, "--dry-run")
    assert out.endswith("2 runs in runs: 2 missing.\n")
    assert len({row[-1] for row in rows(out)}) == 2
    call(capsys, "grid", file, "--engine", "inline", "--threads", 1)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {row[-1] for row in rows(out)}
    _, out, _ = call(capsys, "grid", file, "--dry-run")
    assert out.endswith("2 runs in runs: 2 done.\n")
    file.write_text(GRID.replace('["er", "uer(alpha=0.3)"]', '["er+ema"]').replace("seeds = 2", "seeds = 1"))
    _, out, _ = call(capsys, "grid", file, "--dry-run")
    assert out.endswith("1 run in runs: 1 done.\n")


def test_a_dry_run_of_nothing_makes_no_folder(capsys, file, tmp_path):
    assert call(capsys, "grid", file, "--dry-run")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["grid.toml"]


def test_a_grid_is_run_then_read(capsys, file, tmp_path, whole, monkeypatch):
    code, out, err = call(capsys, "grid", file, "--engine", "inline", "--threads", 1)
    assert code == 0
    assert [row[0] for row in rows(out)] == ["er", "uer(alpha=0.3)"]
    assert all(row[-1] == "2" for row in rows(out))
    assert [line[9:14] for line in err.splitlines() if "done" in line] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert records(tmp_path / "runs") == records(whole)
    monkeypatch.setattr("evenhand.experiment.run.build", never)
    code, again, err = call(capsys, "grid", file, "--engine", "inline", "--threads", 1)
    assert (code, again) == (0, out)
    assert err.endswith("[4/4] Reusing 4 of 4 runs.\n")


def test_a_grid_goes_on_where_it_was(capsys, file, tmp_path, whole):
    root = tmp_path / "runs"
    shutil.copytree(whole / SPECS[0].key, root / SPECS[0].key)
    with pytest.raises(Interrupted):
        run(SPECS[1], root, stop=lambda: True)
    stamp = (root / SPECS[0].key / "status.json").stat().st_mtime_ns
    code, out, err = call(capsys, "grid", file, "--engine", "inline", "--threads", 1, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["failures"] == []
    assert [(r["method"], r["seeds"]) for r in document["results"]] == [("er", [0, 1]), ("uer(alpha=0.3)", [0, 1])]
    assert "Reusing 1 of 4 runs." in err
    assert records(root) == records(whole)
    assert (root / SPECS[0].key / "status.json").stat().st_mtime_ns == stamp


def test_one_failure_stops_nothing_and_is_exit_code_1(capsys, file, tmp_path, whole):
    begin(tmp_path / "runs", whole)
    code, out, err = call(capsys, "grid", file, "--engine", "inline", "--threads", 1)
    assert code == 1
    assert [(row[0], row[-1]) for row in rows(out)] == [("er", "2"), ("uer(alpha=0.3)", "1")]
    assert "uer(alpha=0.3) seed 0: " in err
    assert f"{SPECS[2].key}/spec.json is damaged" in err
    assert "Traceback" not in err
    code, out, err = call(capsys, "grid", file, "--engine", "inline", "--threads", 1, "--json")
    document = json.loads(out)
    assert code == 1
    [failure] = document["failures"]
    assert (failure["key"], failure["cause"]) == (SPECS[2].key, "mistake")
    assert "spec.json is damaged" in failure["sentence"]
    assert sum(len(result["seeds"]) for result in document["results"]) == 3


def test_a_fault_is_tried_again_then_shown_with_its_trace(capsys, file, monkeypatch):
    monkeypatch.setattr("evenhand.experiment.engine.queue.RETRY_SECONDS", 0)
    tries = []

    def fail(*given, **_):
        tries.append(given[0].key)
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("evenhand.experiment.engine.queue.run", fail)
    code, out, err = call(capsys, "grid", file, "--engine", "inline", "--retries", 1)
    assert (code, out) == (1, "")
    assert sorted(tries) == sorted(2 * [spec.key for spec in SPECS])
    assert err.count("ZeroDivisionError: on purpose. Trying again.") == 4
    assert err.count("Traceback") == 4


def test_a_grid_that_is_asked_to_stop_says_so(capsys, file, monkeypatch):
    def stop(*_, **__):
        raise Interrupted("Stopped at step 3 of 90; the state is saved.")

    monkeypatch.setattr("evenhand.experiment.engine.queue.run", stop)
    code, out, err = call(capsys, "grid", file, "--engine", "inline")
    assert (code, out) == (130, "")
    assert "er seed 0: Stopped at step 3 of 90; the state is saved." in err
    assert err.count("Not started.") == 3


@pytest.mark.parametrize("given", [True, False])
def test_the_root_is_what_is_given_then_what_the_file_says(capsys, file, tmp_path, given):
    file.write_text('root = "of the file"\n' + GRID)
    options = ["--root", tmp_path / "given"] if given else []
    code, out, _ = call(capsys, "grid", file, "--dry-run", "--json", *options)
    assert code == 0
    assert json.loads(out)["root"] == (str(tmp_path / "given") if given else "of the file")


@pytest.mark.slow
@pytest.mark.skipif(CORES < 2, reason="two processes need two cores")
def test_processes_give_the_records_of_inline(capsys, file, tmp_path, whole):
    code, _, err = call(capsys, "grid", file, "--engine", "processes", "--workers", 2, "--threads", 1)
    assert code == 0
    assert "[4/4]" in err
    assert records(tmp_path / "runs") == records(whole)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--retries", "-1"], "The number of --retries must be a whole number of at least 0. Got -1 instead."),
        (["--retries", "x"], "Invalid value for --retries"),
        (["--engine", "x"], 'Invalid value "x" for --engine. Choose from: "auto", "inline", "processes", "ray".'),
        (["--engine", "inline", "--workers", "0"], "The number of --workers must be a whole number of at least 1."),
        (["--engine", "ray", "--workers", "0"], "The number of --workers must be a whole number of at least 1."),
        (["--threads", "0"], "The number of --threads must be a whole number of at least 1."),
        (["--threads", "999"], "1 worker with 999 threads needs 999 cores, but there "),
        (["--gpus", "-1"], "The number of --gpus must be a number of at least 0"),
        (["--gpus", "nan"], "The number of --gpus must be a number of at least 0"),
        (["--track", "nonsense"], "There is no tracker called 'nonsense'."),
        (["--track", "nonsense", "--dry-run"], "There is no tracker called 'nonsense'."),
        (["--compile", "maybe"], 'Invalid value "maybe" for --compile'),
        (["--data-dir", "nowhere"], "The folder nowhere, given as --data-dir, does not exist."),
        (["--seeds", "3"], "Unknown option: --seeds"),
    ],
)
def test_a_wrong_option_gets_one_sentence_and_nothing_runs(capsys, file, tmp_path, options, sentence):
    code, out, err = call(capsys, "grid", file, *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('method = "er"\ndata = "cifar"', "grid.toml: There is no dataset called 'cifar'. Did you mean cifar10"),
        ('method = "er"\ndata = "npz:nowhere.npz"', "There is no file nowhere.npz"),
        ('method = "er"\nmemry = 3', "In the grid {file}: There is no field of a grid called 'memry'"),
        ('method = "er"\nthreads = 2', "'threads' does not belong in a grid. Use evenhand grid FILE --threads"),
        ('method = "er"\nneck = "true"', "The 'neck' of a run must be True or False"),
        ('method = "er+ema"\ntests = "ema(decay=0.5)"', "cannot be composed"),
        ("methods = [", "{file} is not valid TOML"),
    ],
)
def test_a_wrong_file_gets_one_sentence(capsys, file, tmp_path, text, sentence):
    file.write_text(text)
    code, out, err = call(capsys, "grid", file)
    assert (code, out) == (2, "")
    assert sentence.format(file=file) in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["grid.toml"]
    assert call(capsys, "grid", tmp_path / "none.toml")[0] == 2


# Tuning ---------------------------------------------------------------------------------------------------------------


def test_a_search_prints_a_curve_and_the_command_that_tests_the_choice(capsys, tmp_path, monkeypatch):
    arguments = ["tune", "er", "--field", "lr=0.0001,0.05", "--field", "neck=true,false", *TUNE]
    code, out, err = call(capsys, *arguments)
    assert code == 0
    assert [row[:2] for row in rows(out)] == [[lr, neck] for lr in ("0.0001", "0.05") for neck in ("True", "False")]
    chosen = [row for row in rows(out) if row[-2] == "chosen"]
    assert [row[0] for row in chosen] == ["0.05"]
    assert max(float(row[2]) for row in rows(out)) == float(chosen[0][2])
    assert f"Chosen by validation accuracy: lr = 0.05, neck = {chosen[0][1]}." in out
    assert err.count("done, accuracy") == 4
    kept = {path.name for path in (tmp_path / "runs").iterdir()}
    command = shlex.split(out.splitlines()[-1].removeprefix("To test it: "))
    assert command[:3] == ["evenhand", "run", "er"]
    code, out, _ = call(capsys, *command[1:], "--json")
    [result] = json.loads(out)["results"]
    assert code == 0
    [key] = {path.name for path in (tmp_path / "runs").iterdir()} - kept
    spec = Spec.read(json.loads((tmp_path / "runs" / key / "spec.json").read_text()))
    assert (spec.lr, str(spec.neck), spec.tested, spec.memory) == (0.05, chosen[0][1], "test", 20)
    assert result["final_accuracy"] > 0.2
    monkeypatch.setattr("evenhand.experiment.run.build", never)
    code, out, err = call(capsys, *arguments, "--json")
    document = json.loads(out)
    assert code == 0
    assert "Reusing 4 of 4 runs." in err
    assert document["choice"] == {"lr": 0.05, "neck": chosen[0][1] == "True"}
    assert shlex.split(document["command"]) == command
    assert [point["seeds"] for point in document["points"]] == [1] * 4


def test_seeds_are_averaged(capsys, tmp_path):
    code, out, _ = call(capsys, "tune", "er", "--field", "replay=5,10", "--seeds", 2, "--json", *TUNE)
    document = json.loads(out)
    assert code == 0
    for point in document["points"]:
        fields = {"backbone": "mlp(hidden=8)", "memory": 20, "stages": 2, "batch": 50, "tested": "validation"}
        specs = [Spec.make(method="er", **fields, **point["values"], seed=seed) for seed in (0, 1)]
        finals = [Folder(tmp_path / "runs", spec).result().summary()["final_accuracy"] for spec in specs]
        assert point["accuracy"] == pytest.approx(sum(finals) / 2)
        assert point["interval"] == pytest.approx(12.7062 * abs(finals[0] - finals[1]) / 2, rel=1e-4)
    assert "--seeds 2" in document["command"]


def test_a_search_that_is_asked_to_stop_says_how_to_go_on(capsys, monkeypatch):
    def stop(*_, **__):
        raise Interrupted("Stopped at step 3 of 90; the state is saved.")

    monkeypatch.setattr("evenhand.experiment.engine.queue.run", stop)
    code, out, err = call(capsys, "tune", "er", "--field", "lr=0.1,0.2", *TUNE)
    assert (code, out) == (130, "")
    assert err.endswith("the state is saved. Repeat the command to resume the search.\n")


def test_a_search_with_a_run_that_fails_has_no_choice(capsys, tmp_path):
    fields = {"backbone": "mlp(hidden=8)", "memory": 20, "stages": 2, "batch": 50, "tested": "validation"}
    spec = Spec.make(method="er", lr=0.2, **fields)
    (tmp_path / "runs" / spec.key).mkdir(parents=True)
    (tmp_path / "runs" / spec.key / "spec.json").write_text("{")
    code, out, err = call(capsys, "tune", "er", "--field", "lr=0.2,0.1", *TUNE)
    assert (code, out) == (2, "")
    assert f"The search stopped, as {spec.key} with lr = 0.2 failed. " in err.splitlines()[-1]
    assert "spec.json is damaged" in err.splitlines()[-1]
    assert "[2/2] er lr 0.1 seed 0: done" in err  # the other one is made all the same


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["er"], "Name at least one --field to search"),
        (["er", "--field", "lr"], "A --field must look like"),
        (["er", "--field", "alpha=0,1"], "There is no field to search called 'alpha'"),
        (["er", "--field", "tested=test"], "'tested' defines what is measured"),
        (["er", "--field", "tests=ema,ncm"], "'tests' defines what is measured"),
        (["uer", "--field", "lr=1,2", "--tests", "ema"], "add the test to the method: evenhand tune uer+ema."),
        (["uerr", "--field", "lr=1,2"], "There is no method called 'uerr'"),
        (["er", "--field", "lr=1,2", "--data", "cifar"], "There is no dataset called 'cifar'"),
        (["er", "--field", "lr=1,2", "--seeds", "0"], "The number of --seeds must be"),
        (["er", "--field", "lr=1,2", "--retries", "-1"], "The number of --retries must be"),
        (["er", "--field", "lr=1,2", "--gpus", "-1"], "The number of --gpus must be"),
        (["er", "--field", "lr=1,2", "--workers", "0"], "The number of --workers must be"),
        (["er", "--field", "lr=1,2", "--engine", "x"], 'Invalid value "x" for --engine'),
        (["er", "--field", "lr=1,2", "--search", "luck"], 'Invalid value "luck" for --search'),
        (["er", "--field", "lr=1,2", "--tested", "test"], "Unknown option: --tested"),
    ],
)
def test_a_wrong_search_gets_one_sentence_and_nothing_runs(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setattr("evenhand.experiment.engine.dispatch.run_all", never)
    code, out, err = call(capsys, "tune", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "at_once"),
    [
        (["--engine", "inline"], 1),
        (["--engine", "processes"], 8),
        (["--engine", "processes", "--threads", 2], 4),
        (["--engine", "processes", "--seeds", 3], 2),
        (["--engine", "processes", "--workers", 2, "--seeds", 3], 1),
        (["--engine", "processes", "--trials", 3], 3),
        (["--engine", "ray", "--workers", 64, "--seeds", 2], 32),  # more than there are cores here
    ],
)
def test_as_many_points_are_tried_at_once_as_there_are_workers(capsys, monkeypatch, options, at_once):
    monkeypatch.setattr("evenhand.experiment.engine.queue.os.sched_getaffinity", lambda _: range(8))
    asked = []

    def search(self, engine, root, trials, at_once):
        asked.append(at_once)
        return iter([])

    monkeypatch.setattr("evenhand.experiment.search.tune.Tuning.optuna", search)
    call(capsys, "tune", "er", "--field", "lr=1:2", "--search", "optuna", *options)
    assert asked == [at_once]


@pytest.mark.slow
def test_a_search_by_optuna_tells_of_every_point_and_can_be_repeated(capsys, tmp_path, monkeypatch):
    arguments = ["tune", "er", "--field", "lr=0.000001:0.1:log", "--search", "optuna", "--trials", 8, *TUNE]
    code, out, err = call(capsys, *arguments)
    assert code == 0
    assert len(rows(out)) == 8
    told = [line for line in err.splitlines() if line[1:4] == "/8:"]
    assert [line[0] for line in told] == list("12345678")
    assert any("given up at stage 1" in line for line in told)
    assert "given up at stage 1 with" in out
    assert "Stage 1 has ended" not in err
    monkeypatch.setattr("evenhand.experiment.engine.dispatch.run_all", never)
    code, again, err = call(capsys, *arguments)
    assert (code, again) == (0, out)
    assert err.splitlines() == told
