"""`evenhand paper` from end to end: a small definition of its own, run, rendered and compared."""

import json

import pytest

from evenhand import errors
from evenhand.cli import app
from evenhand.core import registry
from evenhand.paper import definitions, load_item, records
from paper.made import write

OWN = """
title = "Own: a small table"
methods = ["er", "uer"]
data = "fashion-cut"
stages = 2
memory = 50
batch = 50
replay = 50
backbone = "mlp(hidden=8)"
seeds = 2
expected = [
  { method = "er", accuracy = 1.5, interval = 0.1, current = 30.0 },
  { name = "Ours", method = "uer", accuracy = 60.0, interval = 60.0 },
]
"""
TIME = {"median": 2.0, "low": 1.9, "high": 2.2}


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        app.main(["paper", *map(str, arguments)])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.toml"
    path.write_text(OWN)
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Away from the committed records."""
    monkeypatch.chdir(tmp_path)


def rows_of(out):
    document = json.loads(out)
    return document, {(row["name"], row["measure"]): row for s in document["sections"] for row in s["rows"]}


def test_what_is_missing_is_run_and_shown_beside_the_published_numbers(capsys, own, tmp_path):
    code, out, _ = call(capsys, own, "--root", "runs", "--engine", "inline", "--threads", 1, "--json", "-o", "made")
    document, rows = rows_of(out)
    assert (code, document["runs"], document["problems"]) == (0, {"done": 4, "of": 4}, [])
    er = rows["ER", "accuracy"]
    assert (er["paper"], er["seeds"], er["flagged"]) == (1.5, [0, 1], True)
    assert er["difference"] == pytest.approx(er["ours"] - 1.5)
    assert 5 < er["ours"] < 95
    assert rows["Ours", "accuracy"]["flagged"] is False
    assert rows["ER", "current"]["flagged"] is None
    assert {path.name for path in (tmp_path / "made").iterdir()} == {
        f"own.{kind}" for kind in ("html", "md", "tex", "csv", "png", "svg")
    }
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.json*")}
    assert len(list((tmp_path / "runs").iterdir())) == 4

    code, again, err = call(capsys, own, "--root", "other", "--records", "runs", "--json")
    assert (code, err) == (0, "")
    assert rows_of(again) == (document, rows)
    assert not (tmp_path / "other").exists()  # nothing that a record has is run again
    assert before == {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.json*")}

    code, text, _ = call(capsys, own, "--root", "runs", "--no-run", "--methods", "er", "--seeds", 3)
    assert code == 0
    assert "2 of 3 runs finished." in text
    assert "differs" in text
    assert "Ours" not in text


def test_without_running_what_is_not_there_is_said(capsys, own, tmp_path):
    code, out, err = call(capsys, own, "--root", "runs", "--no-run")
    assert (code, err) == (0, "")
    assert "Not run: fashion-cut, |M| = 50: final average accuracy" in out
    assert "0 of 4 runs finished." in out
    assert not (tmp_path / "runs").exists()


def test_a_dataset_that_is_not_there_does_not_keep_the_others(capsys, own, tmp_path):
    text = own.read_text().replace('data = "fashion-cut"', 'data = ["fashion-cut", "folder:nowhere"]')
    text = text.replace('methods = ["er", "uer"]', 'methods = ["er"]').partition("expected")[0]
    (tmp_path / "two.toml").write_text(text)
    code, out, err = call(capsys, "two.toml", "--root", "runs", "--engine", "inline", "--threads", 1, "--seeds", 1)
    assert code == 1
    assert "nowhere" in err.splitlines()[-1]
    assert "1 of 2 runs finished." in out
    assert "Not run: folder:nowhere, |M| = 50." in out


def test_a_run_that_fails_is_told_and_the_others_are_shown(capsys, own, monkeypatch):
    from evenhand.experiment.engine import queue

    def run(spec, root, **_):
        if spec.method == "uer":
            raise errors.DivergedError("The loss is no longer finite.")
        write(root, spec)
        return queue.Folder(root, spec).result()

    monkeypatch.setattr(queue, "run", run)
    code, out, err = call(capsys, own, "--root", "runs", "--engine", "inline", "--threads", 1, "--seeds", 1)
    assert code == 1
    assert "uer-fashion-cut-m50-s0" in err.splitlines()[-1]
    assert err.splitlines()[-1].endswith("The loss is no longer finite.")
    assert "1 of 2 runs finished." in out


def test_all_items_are_listed_with_what_is_done(capsys, tmp_path):
    spec = next(spec for spec in load_item("scale").specs if spec.method == "uer")
    write(tmp_path / "records", spec)
    code, out, _ = call(capsys, "--records", "records", "--json")
    assert code == 0
    items = {row["item"]: row for row in json.loads(out)["items"]}
    assert list(items) == list(definitions.SLUGS)
    assert (items["table2"]["runs"], items["table2"]["done"]) == (2010, 1)
    assert items["scale"]["done"] == items["stages"]["done"] == items["balance"]["done"] == 1
    assert (items["table1"]["runs"], items["table1"]["done"]) == (40, 0)  # 8 rows, 4 trainings
    assert items["scale"]["hours_left"] == pytest.approx(49 * 19 / 60 / 2)
    _, out, _ = call(capsys, "--records", "records")
    assert "Table 1: ways to learn" in out


def test_steps_are_measured_once_and_then_read(capsys, tmp_path, monkeypatch):
    from evenhand import bench

    asked = []

    def measure(parts, rounds, threads, methods):
        asked.append(methods)
        return {"methods": {name: {"c_d": 1.0, "time": TIME} for name in methods.split(",")}}

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(records, "counted_steps", lambda methods: {name: {"c_d": 3.0} for name in methods})
    _, out, _ = call(capsys, "table3", "--no-run", "--json")
    assert rows_of(out)[1]["OBC", "c_d"]["ours"] == 3
    assert rows_of(out)[1]["OBC", "time"]["ours"] is None
    for _ in range(2):
        _, out, _ = call(capsys, "table3", "--root", "runs", "--json")
        assert rows_of(out)[1]["OBC", "time"]["ours"] == 2
        assert rows_of(out)[1]["OBC", "time"]["between"] == [1.9, 2.2]
    assert "2.00 (1.90 to 2.20)" in call(capsys, "table3", "--root", "runs")[1]
    assert asked == ["er,er_ace,obc,uer"]


def test_steps_of_some_methods_are_added_to_those_of_others(capsys, tmp_path, monkeypatch):
    from evenhand import bench

    asked = []

    def measure(parts, rounds, threads, methods):
        asked.append(methods)
        names = dict.fromkeys(["er", *methods.split(",")])
        return {"rounds": 3, "methods": {name: {"c_d": 1.0, "time": {**TIME, "median": len(asked)}} for name in names}}

    monkeypatch.setattr(bench, "measure", measure)
    call(capsys, "table3", "--root", "runs", "--methods", "er")
    _, out, _ = call(capsys, "table3", "--root", "runs", "--json")
    assert asked == ["er", "er_ace,obc,uer"]
    assert {name: row["ours"] for (name, measure), row in rows_of(out)[1].items() if measure == "time"} == {
        "ER": 2, "ER-ACE": 2, "OBC": 2, "UER": 2,
    }  # fmt: skip
    items = {row["item"]: row for row in json.loads(call(capsys, "--root", "runs", "--json")[1])["items"]}
    assert items["table3"]["hours_left"] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tabel2",), "no table or figure called 'tabel2'. Did you mean table"),
        (("scale", "--memory", "many"), "sizes of --memory must be comma-separated whole numbers. Got 'many'"),
        (("scale", "--datasets", "mnist"), "The --datasets of scale must be among cifar100. Got 'mnist'"),
        (("scale", "--methods", "err"), "no method called 'err'"),
        (("scale", "--seeds", "0"), "number of --seeds must be a whole number"),
        (("scale", "--records", "nowhere"), "The folder nowhere, given as --records, does not exist"),
        (("scale", "--address", "auto"), "--address, --gpus and --shared need --engine ray"),
        (("scale", "--retries", "-1"), "number of --retries must be"),
        (
            ("--seeds", "1"),
            "--seeds has no effect without an item. Name one, e.g. evenhand paper table2",
        ),
        (("--seeds", "0"), "--seeds has no effect without an item"),
        (("--no-run",), "--no-run has no effect without an item"),
        (("-o", "here"), "--output has no effect without an item"),
        (("--workers", "2"), "--workers has no effect without an item"),
        (("table3", "--seeds", "5"), "--seeds has no effect for table3, which times steps and starts no runs"),
        (("table3", "--workers", "2"), "--workers has no effect for table3"),
        (("missing.toml",), "definition missing.toml cannot be read: No such file"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, arguments, sentence):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_every_way_to_score_is_spelled_by_one_name():
    ways = {
        "er": "scored()",
        "lucir": "scored(learn='cos', replay='cos', test='cos')",
        "uer_a": "scored(learn='cos')",
        "uer(alpha=0.0)": "scored(learn='cos', replay='cos')",
    }
    for name, spelled in ways.items():
        assert registry.resolve(name) == registry.resolve(spelled)
    with pytest.raises(errors.InputError, match="The 'test' parameter of scored must be one of dot, cos. Got 'sin'"):
        registry.resolve("scored(test='sin')")


def test_what_cannot_be_written_is_in_the_document_too(capsys, own, monkeypatch):
    monkeypatch.setattr("evenhand.paper.rendering.Rendering.write", lambda *_: ([], "PNG needs a painter."))
    code, out, err = call(capsys, own, "--root", "runs", "--no-run", "--json", "-o", "made")
    assert (code, json.loads(out)["problems"]) == (1, ["PNG needs a painter."])
    assert "PNG needs a painter." in err


def _cut(lines):
    return lines[:1]


def _without(*keys):
    return lambda lines: [{key: value for key, value in line.items() if key not in keys} for line in lines]


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _without("accuracy"),
        _without("head"),
        lambda lines: [],
        lambda lines: [{**line, "accuracy": "high"} for line in lines],
        lambda lines: [{**line, "accuracy": [0.1]} for line in lines],
        lambda lines: [[line] for line in lines],
    ],
)
def test_a_record_that_is_not_whole_is_one_sentence(capsys, tmp_path, damage):
    one, _ = (write(tmp_path / "records", spec) for spec in load_item("stages").specs[:2])
    metrics = one / "metrics.jsonl"
    assert call(capsys, "stages", "--no-run", "--records", "records")[0] == 0
    lines = damage([json.loads(line) for line in metrics.read_text().splitlines()])
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = call(capsys, "stages", "--no-run", "--records", "records")
    assert code == 1
    assert "1 of " in out
    assert "damaged" in err
    assert len(err.strip().splitlines()) == 1


def test_a_damaged_run_is_named_and_neither_run_again_nor_in_the_way_of_the_others(capsys, own, tmp_path):
    options = ("--root", "runs", "--engine", "inline", "--threads", 1, "--seeds", 1, "--json")
    assert call(capsys, own, *options)[0] == 0
    [status] = (tmp_path / "runs").glob("er-*/status.json")
    status.write_text(status.read_text()[:30])
    code, out, err = call(capsys, own, *options, "--methods", "er,uer")
    document, rows = rows_of(out)
    problem = f"{status.relative_to(tmp_path)} is damaged: it is not valid JSON. Remove its status.json and repeat the "
    problem += "command."
    assert (code, err, document["problems"]) == (1, f"{problem}\n", [problem])
    assert (rows["ER", "accuracy"]["seeds"], rows["Ours", "accuracy"]["seeds"]) == ([], [0])
    assert len(status.read_text()) == 30

    code, out, err = call(capsys, own, "--root", "other", "--records", "runs", *options[2:])
    assert (code, (tmp_path / "other").exists()) == (1, False)
    assert err == f"{problem}\n"


def test_the_list_of_items_names_what_is_damaged(capsys, tmp_path):
    spec = next(spec for spec in load_item("scale").specs if spec.method == "uer")
    (write(tmp_path / "records", spec) / "metrics.jsonl").write_text("{")
    (tmp_path / "records" / "table3.json").write_text("{")
    code, out, err = call(capsys, "--records", "records", "--json")
    items = {row["item"]: row for row in json.loads(out)["items"]}
    assert (code, items["scale"]["done"], items["table3"]["done"]) == (0, 0, 0)
    assert set(err.splitlines()) == {
        f"Skipped: records/{spec.key}/metrics.jsonl is damaged. Remove its folder to restart the run.",
        "Skipped: records/table3.json is damaged: it is not valid JSON. Remove it to measure again.",
    }


def test_a_record_of_another_run_does_not_count_as_this_one(capsys, tmp_path):
    one, two = (write(tmp_path / "records", spec) for spec in load_item("scale").specs[:2])
    for path in one.iterdir():
        (two / path.name).write_bytes(path.read_bytes())
    code, out, err = call(capsys, "scale", "--no-run", "--records", "records")
    assert code == 1
    assert "1 of " in out
    assert "spec.json belongs to another run" in err


def test_where_nothing_can_be_written_nothing_is_run(capsys, own, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, err = call(capsys, own, "--root", "runs", "--engine", "inline", "-o", "taken")
    assert (code, (tmp_path / "runs").exists()) == (2, False)
    assert "The folder taken cannot be created" in err


def test_a_figure_names_what_has_not_been_run(capsys, tmp_path):
    for spec in load_item("stages").specs:
        if spec.data == "cifar100" and spec.method in ("er", "uer") and spec.seed == 0:
            write(tmp_path / "records", spec)
    _, out, _ = call(capsys, "stages", "--no-run", "--records", "records")
    said = out.partition("Not run: ")[2]
    assert "ER-ACE" in said.partition("(Split CIFAR100, |M| = 1000)")[0]
    assert "; Split MiniImageNet, |M| = 1000." in said
    assert " UER," not in said
