"""One training, many tests: what trains alike is run once, and every test is a row of its own."""

import json

import pytest

from evenhand import errors
from evenhand.experiment.records.inventory import inventory, results
from evenhand.experiment.run import run
from evenhand.experiment.spec import Spec
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
    with pytest.raises(errors.RunError, match="is damaged"):
        finished(tested, [tmp_path])


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
    with pytest.raises(errors.RunError, match="are damaged"):
        finished(tested, [tmp_path])


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
