import json
import math
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenhand import errors
from evenhand.experiment.lock import held
from evenhand.experiment.records.filters import parse, select, sort_entries
from evenhand.experiment.records.inventory import RunEntry, inventory, read_entry
from evenhand.experiment.run import Interrupted, run
from evenhand.experiment.spec import Spec
from experiment.folders import leave_lock, spec_of, stage_of, write


def only(root):
    [row] = inventory(root)
    return row


def rows_of(*facts):
    return [RunEntry(path=Path("er"), **{"spec": spec_of(), **fields}) for fields in facts]


def test_a_done_run_has_the_numbers_of_its_result(tmp_path):
    spec = Spec.make(method="uer", backbone="mlp(hidden=8)", memory=20, stages=2)
    summary = run(spec, tmp_path).summary()
    row = only(tmp_path)
    assert (row.key, row.spec, row.state, row.note, row.progress) == (spec.key, spec, "done", "", 1)
    assert row.accuracy == summary["final_accuracy"]
    assert row.forgetting == summary["forgetting"]
    assert row.seconds == summary["seconds"]
    assert abs((datetime.now().astimezone() - row.touched).total_seconds()) < 60


def test_a_stopped_run_has_the_numbers_so_far(tmp_path):
    spec = Spec.make(method="uer", backbone="mlp(hidden=8)", memory=20, stages=5)
    with pytest.raises(Interrupted):
        run(spec, tmp_path, until=2)
    row, records = only(tmp_path), (tmp_path / spec.key / "metrics.jsonl").read_text().splitlines()
    assert (row.state, row.progress) == ("stopped", 0.4)
    assert row.accuracy == sum(json.loads(records[1])["accuracy"]) / 2
    assert row.forgetting == json.loads(records[0])["accuracy"][0] - json.loads(records[1])["accuracy"][0]


def test_a_run_is_running_only_while_somebody_holds_it(tmp_path):
    folder = write(tmp_path, spec_of(), "running", stages=1)
    assert only(tmp_path).state == "stopped"
    with held(folder / ".lock"):
        row = only(tmp_path)
        assert (row.state, row.note) == ("running", f"Held by process {os.getpid()}.")
        assert read_entry(folder, ours=True).state == "stopped"
    leave_lock(folder)
    assert only(tmp_path).state == "stopped"


def test_a_run_that_never_began_is_stopped(tmp_path):
    folder = write(tmp_path, spec_of(), stages=0)
    for name in ("status.json", "metrics.jsonl", "timing.jsonl"):
        (folder / name).unlink()
    row = only(tmp_path)
    assert (row.state, row.progress, row.accuracy, row.seconds) == ("stopped", 0, None, None)


def test_a_failed_run_says_why(tmp_path):
    write(tmp_path, spec_of(), "failed", stages=1, error="DivergedError: no")
    row = only(tmp_path)
    assert (row.state, row.note, row.accuracy, row.forgetting) == ("failed", "DivergedError: no", 0.5, None)


def test_a_run_of_an_older_revision_is_outdated(tmp_path):
    old = spec_of().key[:-12] + "0123456789ab"
    write(tmp_path, spec_of(), name=old)
    row = only(tmp_path)
    assert (row.key, row.state) == (old, "outdated")
    assert spec_of().key in row.note
    assert row.accuracy == pytest.approx(0.5)
    assert row.forgetting == pytest.approx(0.15)
    assert row.seconds == 7.5


STRANGE = ["er-fashion-cut-m20-s1", "er-fashion-cut-m21-s0", "scr+uer-fashion-cut-m20-s0", "er-cifar100-m20-s0"]


@pytest.mark.parametrize("name", ["copy", *(f"{name}-0123456789ab" for name in STRANGE)])
def test_a_folder_under_a_name_that_its_spec_never_had_is_damaged(tmp_path, name):
    write(tmp_path, spec_of(), name=name)
    row = only(tmp_path)
    assert row.state == "damaged"
    assert "has the spec of another run" in row.note


def lines(*accuracies):
    return "".join(json.dumps(stage_of(accuracy)) + "\n" for accuracy in accuracies)


DAMAGE = [
    ("spec.json", "{", "spec.json is damaged: it is not valid JSON"),
    ("spec.json", "[]", "spec.json is invalid: A run must be a table. Got []"),
    ("spec.json", '{"method": "nobody"}', "spec.json is invalid: There is no method called 'nobody'"),
    ("spec.json", '{"method": "er", "colour": 1}', "There is no field of a run called 'colour'"),
    ("spec.json", None, "spec.json cannot be read"),
    ("status.json", "7", "status.json is damaged"),
    ("status.json", '{"state": "done"}', "are damaged"),
    ("status.json", '{"state": ["done"]}', "status.json is damaged: unknown state ['done']"),
    ("status.json", '{"state": "running", "error": "\\ud800"}', None),
    ("status.json", '{"state": "failed", "error": "\\ud800"}', "?"),
    ("metrics.jsonl", "", "has 0 of 3 stages"),
    ("metrics.jsonl", '{"accuracy": [0.5]}\n', "has 1 of 3 stages"),
    ("metrics.jsonl", lines([0.5], [0.5], [0.5]), "are damaged"),
    ("metrics.jsonl", lines([1], [1, 1], [1, 1, math.nan]), "are damaged"),
    ("metrics.jsonl", lines([1], [1, 1], [1, 1, 100]), "are damaged"),
    ("metrics.jsonl", lines(["a"], [1, 1], [1, 1, 1]), "are damaged"),
    ("metrics.jsonl", lines([1], [1, 1], [1, 1, 1]).replace("head", "tail"), "are damaged"),
    ("metrics.jsonl", "[1]\n" * 3, "are damaged"),
    ("metrics.jsonl", None, "metrics.jsonl cannot be read"),
    ("timing.jsonl", "{", "timing.jsonl is damaged"),
    ("timing.jsonl", '{"train_seconds": "a"}', "are damaged"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), DAMAGE)
def test_one_damaged_folder_does_not_keep_the_others_from_being_listed(tmp_path, name, content, sentence):
    folder = write(tmp_path, spec_of())
    write(tmp_path, spec_of("uer"))
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    damaged, whole = inventory(tmp_path)
    assert whole.state == "done"
    if sentence is None:
        assert damaged.state == "stopped"
    else:
        assert damaged.state in ("damaged", "failed")
        assert sentence in damaged.note
    json.dumps([damaged.fields(), whole.fields()], allow_nan=False).encode()
    damaged.note.encode()


def test_a_file_that_goes_away_meanwhile_damages_nothing(tmp_path, monkeypatch):
    write(tmp_path, spec_of())
    real = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*real(path), path / "just-renamed"])
    assert read_entry(tmp_path / spec_of().key).state == "done"


def test_what_is_no_run_is_not_listed(tmp_path):
    write(tmp_path, spec_of())
    (tmp_path / "notes").mkdir()
    (tmp_path / spec_of("uer").key).mkdir()
    (tmp_path / "names").write_text("er uer")
    assert [row.key for row in inventory(tmp_path)] == [spec_of().key]


def test_a_name_that_is_not_in_utf8_can_be_printed(tmp_path):
    write(tmp_path, spec_of(), name=os.fsdecode(b"r\xff"))
    row = only(tmp_path)
    assert row.key == "r?"
    row.note.encode()


def test_a_root_without_runs(tmp_path):
    with pytest.raises(errors.RunError, match="There is no folder .*nowhere"):
        inventory(tmp_path / "nowhere")
    with pytest.raises(errors.RunError, match="The folder .* has no runs. Start one"):
        inventory(tmp_path)
    write(tmp_path / "deeper", spec_of())
    with pytest.raises(errors.RunError, match="The folder .* has no runs. There are some in .*deeper"):
        inventory(tmp_path)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("method = uer", [False, True]),
        ("method=u*", [False, True]),
        ("method=?er", [False, True]),
        ("method!=*er", [False, False]),
        ("method = uer(alpha=0.5)", [False, True]),
        ("method = [u]er", [False, False]),
        ("memory > 20", [False, True]),
        ("memory >= 20", [True, True]),
        ("memory<100", [True, False]),
        ("memory <= 1e2", [True, True]),
        ("memory = 20.0", [True, False]),
        ("method == uer", [False, True]),
        ("memory==20", [True, False]),
        ("neck = TRUE", [False, True]),
        ("neck != true", [True, False]),
        ("size != 28", [True, False]),
        ("size > 1", [False, True]),
        ("skip-bad = false", [True, True]),
        ("augment = none", [True, True]),
        ("accuracy > 0.5", [False, True]),
        ("forgetting < 1", [False, True]),
        ("progress < 1", [True, False]),
        ("state = done", [False, True]),
        ("touched = 2025-01-*", [False, True]),
    ],
)
def test_conditions(text, holds):
    rows = [
        RunEntry(
            None, spec_of(), "stopped", stage=1, accuracy=0.5, touched=datetime.fromisoformat("2024-01-30T12:00Z")
        ),
        RunEntry(
            None,
            spec_of("uer", memory=100, neck=True, size=28, data="npz:a"),
            "done",
            stage=3,
            accuracy=0.6,
            forgetting=0.1,
            touched=datetime.fromisoformat("2025-01-30T12:00Z"),
        ),
    ]
    assert [parse(text).holds(row) for row in rows] == holds


def test_all_conditions_must_hold():
    rows = rows_of({"accuracy": 0.2}, {"accuracy": 0.4}, {"accuracy": 0.6}, {"accuracy": None})
    assert [row.accuracy for row in select(rows, ["accuracy > 0.2", "accuracy != 0.6"])] == [0.4]
    assert select(rows, []) == rows


def test_a_run_without_a_spec_has_no_method():
    [row] = rows_of({"spec": None})
    assert not parse("method = *").holds(row)
    assert parse("method != er").holds(row)
    assert not parse("memory < 5").holds(row)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("memory > many", "The 'memory' in a condition must be a number. Got 'many' instead."),
        ("memory > nan", "must be a number"),
        ("memory > 1e999", "must be a number"),
        ("accuracy > 70%", "must be a number"),
        ("memory => 5", "must be a number"),
        ("memory > none", "must be a number"),
        ("memry = 5", "There is no field of a run called 'memry'. Did you mean memory"),
        ("accuracy > 70", "must be a fraction, e.g. 0.7. Got '70'"),
        ("method < uer", "The 'method' of a run can be compared with = and != only. Got '<'"),
        ("neck = 1", "must be true or false"),
        ("memory", "A condition must look like"),
        ("memory =", "A condition must look like"),
        ("= 5", "A condition must look like"),
        ("", "A condition must look like"),
    ],
)
def test_a_condition_that_cannot_be_read_gets_one_sentence(text, sentence):
    with pytest.raises(errors.InputError) as error:
        parse(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


FIELD = st.sampled_from(["method", "memory", "neck", "accuracy", "touched", "size", "note", "path", "value"])


@given(st.text() | st.tuples(FIELD, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.text()).map(" ".join))
@example("memory = " + "9" * 5000)
@example("method = " + "(" * 5000)
def test_any_text_is_a_condition_or_one_sentence(text):
    condition = None
    with suppress(errors.InputError):  # its sentences are tested above
        condition = parse(text)
    for row in rows_of({}, {"spec": None}, {"accuracy": 0.5, "touched": datetime.now().astimezone()}):
        assert condition is None or condition.holds(row) in (True, False)


def test_order():
    rows = rows_of(
        {"accuracy": 0.5, "state": "b", "stage": 1},
        {"accuracy": None, "state": "a", "stage": 2},
        {"accuracy": 0.7, "state": "b", "stage": 3},
        {"accuracy": 0.6, "state": "a", "stage": 4},
    )

    def stages(text):
        return [row.stage for row in sort_entries(rows, text)]

    assert stages("accuracy") == [1, 4, 3, 2]
    assert stages("-accuracy") == [3, 4, 1, 2]
    assert stages("state,-accuracy") == [4, 2, 3, 1]
    assert stages("-state, accuracy") == [1, 3, 4, 2]
    assert stages("method") == [1, 2, 3, 4]
    for text in ("acuracy", "accuracy,", "--accuracy", ""):
        with pytest.raises(errors.InputError, match="There is no field of a run called"):
            stages(text)
