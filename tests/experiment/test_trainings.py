"""One training, many tests: what trains alike is run once, and every test is a row of its own."""

import json

import pytest

from evenhand import errors, metrics
from evenhand.experiment.records.filters import select
from evenhand.experiment.records.inventory import by_test, inventory, results
from evenhand.experiment.run import Paused, run
from evenhand.experiment.spec import Spec, titles
from evenhand.experiment.trainings import Archive, plan, together
from evenhand.report.html import page as page_of


def spec_of(method, **fields):
    return Spec.make(method=method, **{"backbone": "mlp(hidden=8)", "memory": 20, "stages": 2, "batch": 50, **fields})


def finished(spec, roots):
    return Archive(roots).find(spec)


def test_specs_that_train_alike_are_one_run():
    specs = [spec_of(name) for name in ("uer", "uer+ema", "uer+ema+ncm", "mir+uer", "uer(alpha=0.3)+ema")]
    runs = plan(specs, [])
    assert [(run.method, run.tests) for run in runs.values()] == [
        *[("uer", "ema, ema+ncm")] * 3,
        ("mir+uer", ""),
        ("uer(alpha=0.3)+ema", ""),
    ]
    assert all(runs[spec].answers(spec) for spec in specs)


@pytest.mark.parametrize(
    ("names", "method", "tests"),
    [
        (["uer+ema"], "uer+ema", ""),
        (["ema", "ncm"], "er", "ema, ncm"),
        (["scored(learn='cos')", "scored(learn='cos', test='cos')"], "scored(learn='cos')", "cos"),
        (["lucir", "scored(learn='cos', replay='cos')"], "lucir", "dot"),
        (["uer", "uer+cos+ema(decay=0.5)"], "uer", "cos+ema(decay=0.5)"),
        (["even", "pcr"], "pcr", "ema"),
        (["even", "pcr+ncm"], "pcr", "ema, ncm"),
        (["even", "even+ncm", "even+dot"], "even", "dot, ncm"),
    ],
)
def test_a_run_for_several_specs(names, method, tests):
    specs = [spec_of(name) for name in names]
    run = together(specs)
    assert (run.method, run.tests) == (method, tests)
    assert run == Spec.read(json.loads(run.model_dump_json()))
    assert all(run.answers(spec) for spec in specs)


def test_further_tests_of_a_spec_are_kept():
    run = together([spec_of("uer+cos", tests="ema"), spec_of("uer", tests="ncm")])
    assert run.tests == "cos, cos+ema, ncm"
    assert together([spec_of("lucir", tests="dot, cos"), spec_of("uer(alpha=0)+dot", tests="cos")]).tests == "cos, dot"


def test_only_what_trains_alike_answers():
    run = spec_of("uer", tests="ema, cos")
    assert run.answers(spec_of("uer+ema"))
    assert run.answers(spec_of("uer+ema", tests="dot"))
    for other in (spec_of("uer+ema(decay=0.5)"), spec_of("uer+ncm"), spec_of("er+ema"), spec_of("uer+ema", seed=1)):
        assert not run.answers(other)


@pytest.mark.parametrize(
    ("method", "rows"),
    [
        ("er+dot", ["er+dot", "er+cos"]),
        ("lucir+dot", ["lucir+dot", "lucir+cos"]),
        ("uer+ema+cos", ["uer+cos+ema", "uer+dot+ema"]),
    ],
)
def test_a_form_to_test_with_takes_the_place_of_the_method_s_own(tmp_path, method, rows):
    assert [row.spec.method for row in run(spec_of(method, tests="cos, dot"), tmp_path).rows()] == rows


@pytest.mark.parametrize("method", ["uer", "scr", "pcr"])
def test_every_test_is_the_row_that_a_run_of_its_own_would_give(tmp_path, method):
    tested = spec_of(method, tests="cos, ema(decay=0.8), ncm+ema(decay=0.8)")
    result = run(tested, tmp_path / "together")
    rows = result.rows()
    assert rows[0].records == run(spec_of(method), tmp_path / "alone").records
    assert len(rows) == 1 + len(tested.ways.others())
    for row in rows[1:]:
        assert row.records == run(row.spec, tmp_path / "alone").records
        assert finished(row.spec, [tmp_path / "together"]).tested_as(row.spec).records == row.records
    assert len({json.dumps(row.accuracy) for row in rows}) > 1


def test_a_finished_run_is_found_by_each_of_its_tests(tmp_path):
    tested = spec_of("uer", tests="ema")
    run(tested, tmp_path)
    asked = [spec_of("uer"), spec_of("uer+ema"), spec_of("uer+ncm")]
    assert list(plan(asked, [tmp_path]).values()) == [tested, tested, spec_of("uer+ncm")]
    assert finished(spec_of("uer+ema", seed=1), [tmp_path]) is None


def test_the_list_of_results_has_every_test_once(tmp_path):
    run(spec_of("uer", tests="ema, cos"), tmp_path)
    run(spec_of("uer+ema"), tmp_path)
    rows = results(inventory(tmp_path, with_results=True))
    assert sorted(row.spec.method for row in rows) == ["uer", "uer+cos", "uer+ema"]
    assert {row.spec.tests for row in rows} == {""}
    page = page_of(rows)
    assert "2 runs of 3 methods" in page
    assert all(f"uer+{way}" in page for way in ("ema", "cos"))


def test_a_damaged_donor_does_not_answer_and_a_damaged_run_says_so(tmp_path):
    tested = spec_of("uer", tests="ema")
    run(tested, tmp_path)
    (tmp_path / tested.key / "metrics.jsonl").write_text("{}\n")
    assert plan([spec_of("uer+ema"), tested], [tmp_path]) == {s: s for s in (spec_of("uer+ema"), tested)}
    archive = Archive([tmp_path])
    assert archive.find(tested) is None
    assert "is damaged" in archive.damaged[tested]
    run(spec_of("uer+ema", tests="dot"), tmp_path)
    archive = Archive([tmp_path])
    assert archive.find(spec_of("uer+ema"))
    assert archive.damaged == {}


def test_a_finished_run_is_not_read_to_plan(tmp_path, monkeypatch):
    spec = spec_of("uer")
    run(spec, tmp_path)
    monkeypatch.setattr("evenhand.experiment.folder.Folder.result", lambda folder: pytest.fail("was read"))
    assert plan([spec], [tmp_path]) == {spec: spec}


def test_a_test_that_lacks_its_numbers_is_damage(tmp_path):
    tested = spec_of("uer", tests="ema")
    folder = tmp_path / tested.key
    run(tested, tmp_path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    del lines[-1]["tests"]["ema"]["probability"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "digests": {}}))
    archive = Archive([tmp_path])
    assert archive.find(tested) is None
    assert "are damaged" in archive.damaged[tested]


def test_records_of_before_tests_had_names(tmp_path):
    """A run with forms = "both" has its other test as "otherwise"; key and rows stay."""
    tested = spec_of("uer", tests="dot, cos")
    result = run(tested, tmp_path)
    folder = tmp_path / tested.key
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["otherwise"] = line.pop("tests")["cos"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    fields = json.loads((folder / "spec.json").read_text())
    fields["forms"] = "both" if fields.pop("tests") else "own"
    (folder / "spec.json").write_text(json.dumps(fields))
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "digests": {}}))
    assert Spec.read(fields) == tested
    assert run(tested, tmp_path).records == result.records
    assert finished(spec_of("uer+cos"), [tmp_path]).tested_as(spec_of("uer+cos")).accuracy == result.rows()[1].accuracy


@pytest.mark.parametrize(("method", "tests"), [("er+ema", "ema(decay=0.5)"), ("er+ema+ncm", "cos, ema(decay=0.5)+ncm")])
def test_a_test_whose_row_has_no_name_is_refused_before_training(method, tests):
    with pytest.raises(errors.InputError, match="cannot be composed"):
        spec_of(method, tests=tests)


def test_a_way_named_twice_is_one_row():
    assert spec_of("er", tests="ema+ema, ema").tests == "ema"
    assert spec_of("er+ema+ema").method == "er+ema"


def test_an_interrupted_run_with_more_tests_is_resumed(tmp_path):
    begun = spec_of("uer", tests="ema, ncm", stages=5)
    with pytest.raises(Paused):
        run(begun, tmp_path, until=2)
    asked = [spec_of(name, stages=5) for name in ("uer", "uer+ema")]
    assert plan(asked, [tmp_path]) == dict.fromkeys(asked, begun)
    other = spec_of("uer+cos", stages=5)  # which it cannot answer
    assert plan([other], [tmp_path]) == {other: other}
    (tmp_path / begun.key / "status.json").write_text("{")
    assert plan(asked, [tmp_path])[asked[0]] != begun


def test_progress_names_only_what_differs():
    specs = [spec_of("er"), spec_of("uer", tests="ema"), Spec.read({**spec_of("mir").model_dump(), "imbalance": 1})]
    assert titles(specs) == ["er seed 0", "uer tests ema seed 0", "mir seed 0"]


def test_conditions_hold_for_rows_and_not_for_trainings(tmp_path):
    run(spec_of("uer", tests="cos, ema"), tmp_path)
    rows = by_test(inventory(tmp_path, with_results=True))
    assert [row.spec.method for row in rows] == ["uer", "uer+cos", "uer+ema"]
    [tested] = select(rows, ["method = uer+cos"])
    assert tested.accuracy == metrics.average(tested.result.accuracy) != rows[0].accuracy
    best = max(row.accuracy for row in rows)
    assert {row.accuracy for row in select(rows, [f"accuracy >= {best}"])} == {best}
