import csv
import json
import re

import pytest

from evenhand.cli import app, tables
from evenhand.experiment.lock import held
from experiment.folders import spec_of, write

FAILED = spec_of("gss", memory=50)


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        app.main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


def listed(capsys, *arguments):
    code, out, err = call(capsys, "runs", *arguments, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == 1
    return document["runs"]


def compared(capsys, *arguments):
    code, out, _ = call(capsys, "runs", "compare", *arguments, "--json")
    assert code == 0
    return {row["label"]: row for row in json.loads(out)["comparisons"]}


def cells(out, start):
    """The cells of the first line of a table that starts like this."""
    [line] = [line for line in out.splitlines() if line.strip().startswith(start)][:1]
    return line.split()


@pytest.fixture
def root(tmp_path):
    """Two methods with three seeds, and a run in each other state."""
    for seed, (er, uer) in enumerate([(0.4, 0.5), (0.5, 0.7), (0.3, 0.6)]):
        write(tmp_path, spec_of("er", seed=seed), accuracy=er)
        write(tmp_path, spec_of("uer", seed=seed), accuracy=uer)
    write(tmp_path, spec_of("mir", lr=0.05), "running", stages=1, accuracy=0.9)
    write(tmp_path, FAILED, "failed", stages=0, error="DivergedError: no, really")
    write(tmp_path, spec_of("scr"), name=spec_of("scr").key[:-12] + "0123456789ab")
    (write(tmp_path, spec_of("pcr")) / "spec.json").write_text("{")
    return tmp_path


def test_the_table_has_a_line_for_every_run(capsys, root):
    code, out, _ = call(capsys, "runs", root)
    assert code == 0
    rows = [line for line in out.splitlines() if re.search(r"\d/3 |damaged +-", line)]
    assert len(rows) == 10
    assert cells(out, "er ")[:7] == ["er", "20", "0", "done", "3/3", "40.0", "15.0"]
    assert cells(out, "mir")[:8] == ["mir", "20", "0", "lr", "0.05", "stopped", "1/3", "90.0"]
    assert cells(out, "scr")[3] == "outdated"
    assert "6 done" in out
    assert "All with data fashion-cut." in out
    assert "DivergedError: no, really" in out
    assert "spec.json is damaged" in out


@pytest.mark.parametrize("width", [40, 80, 140, 300])
def test_a_narrow_terminal_gets_fewer_columns_and_is_told(capsys, root, monkeypatch, width):
    monkeypatch.setattr(tables, "STDOUT_WIDTH", width)
    _, out, _ = call(capsys, "runs", root, "--where", "state = done")
    table = out[: out.index("6 done")].splitlines()
    assert max(map(len, table)) <= width
    heads = table[1].split()
    assert heads[:4] == ["method", "seed", "state", "stages"] or width == 40
    assert ("touched" in heads) == (width >= 140)
    assert ("Narrow terminal" in out) == (width < 140)
    assert (spec_of("er").key in out) == (width >= 140)


def test_a_long_name_is_wrapped_before_a_column_is_left_out(capsys, root, monkeypatch):
    write(root, spec_of("mir(candidates=100)+uer(alpha=0.3)"))
    monkeypatch.setattr(tables, "STDOUT_WIDTH", 110)
    _, out, _ = call(capsys, "runs", root, "--where", "state = done")
    assert "touched" in out.splitlines()[1]
    assert cells(out, "mir")[0] == "mir(candidates=100"


def test_conditions_and_order(capsys, root):
    rows = listed(capsys, root, "--where", "method = *er", "--where", "accuracy >= 0.5", "--sort", "-accuracy")
    assert [(row["method"], row["seed"]) for row in rows] == [("uer", 1), ("uer", 2), ("er", 1), ("uer", 0)]
    rows = listed(capsys, root, "--sort=-memory,method", "--where=state != done")
    assert [row["method"] for row in rows] == ["gss", "mir", "scr", None]
    code, out, _ = call(capsys, "runs", root, "--where", "memory > 1000")
    assert (code, out) == (0, f"No run in {root} matches (10 in all).\n")
    assert listed(capsys, root, "--where", "memory > 1000") == []


def test_json_has_every_field(capsys, root):
    [row] = listed(capsys, root, "--where", f"key = {spec_of('uer').key}")
    assert row.pop("touched")[:2] == "20"
    numbers = {name: row.pop(name) for name in ("accuracy", "forgetting", "seconds")}
    assert numbers == pytest.approx({"accuracy": 0.5, "forgetting": 0.15, "seconds": 7.5})
    spec = spec_of("uer")
    assert row == {
        **spec.model_dump(),
        "state": "done",
        "progress": 1,
        "key": spec.key,
        "note": "",
        "precision": "fp32",
    }


def test_csv_is_quoted(capsys, root):
    write(root, spec_of("uer(alpha=0.3)", data='npz:a,"b'))
    code, out, _ = call(capsys, "runs", root, "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert len(rows) == 11
    assert rows[-2]["data"] == 'npz:a,"b'
    assert rows[-1]["method"] == ""
    assert rows[-1]["state"] == "damaged"
    assert {row["note"] for row in rows} >= {"DivergedError: no, really"}
    code, out, _ = call(capsys, "runs", root, "--csv", "--where", "memory > 1000")
    assert out.startswith("method,data,")


def test_compare_pairs_by_seed(capsys, root):
    write(root, spec_of("uer", seed=3), accuracy=0.1)  # no er has this seed
    write(root, spec_of("mir"), accuracy=0.7)
    rows = compared(capsys, root)
    assert list(rows) == ["mir", "uer", "er"]
    uer = rows["uer"]
    assert (uer["seeds"], uer["pairs"], uer["memory"]) == ([0, 1, 2, 3], 3, 20)
    assert uer["accuracy"] == pytest.approx((0.5 + 0.7 + 0.6 + 0.1) / 4)
    assert uer["difference"] == pytest.approx(0.2)  # of 0.1, 0.2 and 0.3
    assert uer["difference_interval"] == pytest.approx(4.302653 * 0.1 / 3**0.5)
    assert (rows["mir"]["difference"], rows["mir"]["difference_interval"]) == (pytest.approx(0.3), None)
    assert rows["er"]["difference"] is None
    code, out, _ = call(capsys, "runs", "compare", root)
    assert code == 0
    assert cells(out, "uer") == ["uer", "4", "47.5", "±", "41.8", "+20.0", "±", "24.8", "3"]
    assert cells(out, "mir") == ["mir", "1", "70.0", "-", "+30.0", "-", "1"]
    assert cells(out, "er ") == ["er", "3", "40.0", "±", "24.8", "-", "-", "-"]
    rows = compared(capsys, root, "--to", "uer(alpha=0.5)", "--where", "seed < 2")
    assert rows["er"]["difference"] == pytest.approx(-0.15)


@pytest.mark.parametrize(
    ("fact", "values", "field", "said"),
    [
        (
            *("data", "aab", "images_changed"),
            "fashion-cut, memory 20: not all runs saw the same images, since the dataset changed in between.",
        ),
        (
            *("precision", ["bf16", "bf16", "fp32"], "precisions_mixed"),
            "fashion-cut, memory 20: some runs were computed in bf16, others in fp32.",
        ),
    ],
)
def test_compare_says_what_else_differs_between_runs(capsys, tmp_path, fact, values, field, said):
    for method, value in zip(("er", "uer", "mir"), values, strict=True):
        status = write(tmp_path, spec_of(method)) / "status.json"
        facts = json.loads(status.read_text())
        facts["environment"][fact] = value
        status.write_text(json.dumps(facts))
        assert (said in call(capsys, "runs", "compare", tmp_path)[1]) == (method == "mir")
    assert all(row[field] for row in compared(capsys, tmp_path).values())


def test_compare_takes_the_reference_of_the_same_settings(capsys, tmp_path):
    write(tmp_path, spec_of("er"), accuracy=0.4)
    write(tmp_path, spec_of("uer"), accuracy=0.5)
    write(tmp_path, spec_of("uer", lr=0.05), accuracy=0.7)
    write(tmp_path, spec_of("uer", memory=50), accuracy=0.8)
    rows = compared(capsys, tmp_path)
    assert rows["uer, lr 0.05"]["difference"] == pytest.approx(0.3)  # there is but one
    assert rows["uer, lr 0.05"]["differs"] == ["lr"]
    assert "lr also differs from er for uer, lr 0.05." in call(capsys, "runs", "compare", tmp_path)[1]
    write(tmp_path, spec_of("er", lr=0.05), accuracy=0.6)
    write(tmp_path, spec_of("mir", lr=0.2), accuracy=0.1)
    rows = compared(capsys, tmp_path, "--where", "memory = 20")
    assert rows["uer, lr 0.05"]["difference"] == pytest.approx(0.1)
    assert rows["uer, lr 0.1"]["difference"] == pytest.approx(0.1)
    assert rows["mir"]["difference"] is None  # two references, and neither is like it
    write(tmp_path, spec_of("gmed", lr=0.05, pace="realtime"), accuracy=0.7)
    (row,) = [row for label, row in compared(capsys, tmp_path, "--where", "memory = 20").items() if "gmed" in label]
    assert (row["reference"], row["differs"], row["difference"]) == ("er, lr 0.05", ["pace"], pytest.approx(0.1))
    rows = compared(capsys, tmp_path, "--where", "memory = 20", "--where", "lr < 0.2")
    assert all(row["memory"] == 20 for row in rows.values())
    assert compared(capsys, tmp_path, "--where", "lr != 0.05")["uer"]["memory"] == 50
    assert compared(capsys, tmp_path, "--where", "lr != 0.05")["uer"]["reference"] is None


def test_compare_as_csv(capsys, root):
    code, out, _ = call(capsys, "runs", "compare", root, "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert [(row["label"], row["seeds"], row["pairs"]) for row in rows] == [("uer", "0 1 2", "3"), ("er", "0 1 2", "0")]


def everything(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_prune_removes_nothing_without_yes(capsys, root):
    (root / spec_of("er").key / ".metrics.jsonl.1").write_bytes(b"x" * 4000)
    before = everything(root)
    code, out, _ = call(capsys, "runs", "prune", root)
    assert code == 0
    assert everything(root) == before
    assert f"{FAILED.key} " in out
    assert "the run, failed" in out
    assert "the run, outdated" in out
    assert re.search(rf"{re.escape(spec_of('er').key)} +leftovers +4\.0 kB", out)
    assert "Runs to remove: 2; other runs with files to remove: 1; total: " in out
    assert "Nothing was removed. Use --yes to remove all of it." in out
    assert "Skipped:" in out
    assert spec_of("pcr").key in out


def test_prune_with_yes(capsys, root):
    before = everything(root)
    gone = {path for path in before if path.parent.name.startswith(("gss", "scr"))}
    code, out, err = call(capsys, "runs", "prune", root, "--yes")
    assert (code, err) == (0, "")
    assert everything(root) == {path: content for path, content in before.items() if path not in gone}
    assert f"Removed {sum(len(before[path]) for path in gone) / 1000:.1f} kB." in out
    assert call(capsys, "runs", "prune", root)[1].endswith(f"Nothing to remove in {root}.\n")


def test_prune_is_limited_by_conditions(capsys, root):
    for method in ("er", "uer"):
        (root / spec_of(method).key / "state.safetensors").write_text("x")
    code, out, _ = call(capsys, "runs", "prune", root, "--where", "method = uer", "--states", "--yes")
    assert (code, "Skipped" in out) == (0, False)
    assert not (root / spec_of("uer").key / "state.safetensors").exists()
    assert (root / spec_of("er").key / "state.safetensors").exists()
    assert (root / FAILED.key).exists()


def test_prune_leaves_what_is_held_and_goes_on(capsys, root, monkeypatch):
    folder = root / FAILED.key
    with held(folder / ".lock"):
        code, out, _ = call(capsys, "runs", "prune", root, "--yes")
        assert code == 0
        assert f"Skipped: {FAILED.key}: Held by process" in out
        # somebody who takes it between the look and the removal
        (root / "later").mkdir()
        write(root / "later", spec_of("scr"), "failed")
        write(root / "later", spec_of("gss"), "failed")
        later = held(root / "later" / spec_of("gss").key / ".lock")
        monkeypatch.setattr("evenhand.cli.prune.print_removals", lambda *_: later.__enter__())
        code, _, err = call(capsys, "runs", "prune", root / "later", "--yes")
        later.__exit__(None, None, None)
    assert code == 2
    assert f"The run {spec_of('gss').key} is locked by process" in err
    assert (folder / "spec.json").exists()
    assert [path.name for path in (root / "later").iterdir()] == [spec_of("gss").key]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "There is no folder nowhere."),
        (["."], "The folder . has no runs."),
        (["R", "--where", "memory > many"], "The 'memory' in a condition must be a number. Got 'many' instead."),
        (["R", "--where", "acuracy > 1"], "There is no field of a run called 'acuracy'. Did you mean accuracy"),
        (["R", "--sort", "-acuracy"], "There is no field of a run called 'acuracy'. Did you mean accuracy"),
        (["R", "--json", "--csv"], "Use either --json or --csv, not both."),
        (["compare", "nowhere"], "There is no folder nowhere"),
        (["compare", "R", "--to", "errr"], "There is no method called 'errr'"),
        (
            ["compare", "R", "--to", "lucir"],
            "There is no finished run of lucir to compare with. Use --to with one of er, uer.",
        ),
        (["compare", "R", "--where", "state = failed"], " matches.\n"),
        (["prune", "nowhere", "--yes"], "There is no folder nowhere"),
        (["prune", "R", "--yes", "--where", "state"], "A condition must look like"),
    ],
)
def test_a_mistake_gets_one_sentence_and_loses_nothing(
    capsys, root, monkeypatch, tmp_path_factory, arguments, sentence
):
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    before = everything(root)
    code, out, err = call(capsys, "runs", *(root if word == "R" else word for word in arguments))
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert everything(root) == before
