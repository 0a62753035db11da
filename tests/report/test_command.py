import json

import pytest

from evenhand.cli import app
from evenhand.report import html
from experiment.folders import spec_of, write


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Drawing is what takes the time."""
    monkeypatch.setattr(html, "_figures", lambda *_: [])


@pytest.fixture
def done(run, matrix):
    """Write the folder of a run with all that a report reads."""

    def make(root, spec):
        folder = write(root, spec)
        lines = run(spec.method, matrix(0.5, 0.6), per_stage=1).records
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    return make


@pytest.fixture
def report(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            app.main(["report", *map(str, arguments)])
        out = capsys.readouterr()
        return end.value.code or 0, out.out, out.err

    return call


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("spec.json", "[]", "{}/spec.json is invalid: A run must be a table."),
        ("spec.json", '{"method": "errr"}', "{}/spec.json is invalid: There is no method called 'errr'."),
        ("spec.json", "{", "{}/spec.json is damaged: it is not valid JSON."),
        ("status.json", "[]", "{}/status.json is damaged: it is not the status of a run."),
        ("metrics.jsonl", "[]", "{}/metrics.jsonl is damaged: it has 1 of"),
    ],
)
def test_a_damaged_run_is_named_and_left_out(report, done, tmp_path, file, content, sentence):
    done(tmp_path / "runs", spec_of("er"))
    bad = done(tmp_path / "runs", spec_of("uer"))
    (bad / file).write_text(content)
    page = tmp_path / "page.html"
    code, out, err = report(tmp_path / "runs", "-o", page)
    assert (code, out) == (0, f"{page}: 1 run\n")
    assert err.startswith(f"Skipped: {sentence.format(bad)}")
    assert err.count("\n") == 1
    assert spec_of("er").key in page.read_text()
    assert spec_of("uer").key not in page.read_text()


def test_an_outdated_run_is_named_and_left_out(report, done, tmp_path):
    done(tmp_path / "runs", spec_of("er"))
    old = done(tmp_path / "runs", spec_of("uer"))
    old.rename(old.with_name(old.name[:-12] + "0123456789ab"))
    page = tmp_path / "page.html"
    code, out, err = report(tmp_path / "runs", "-o", page)
    assert (code, out) == (0, f"{page}: 1 run\n")
    assert "Skipped: " in err
    assert f"The key of this run is now {spec_of('uer').key}." in err


def test_runs_that_are_not_done_are_left_out_without_a_word(report, done, tmp_path):
    done(tmp_path, spec_of("er"))
    write(tmp_path, spec_of("uer"), "running", stages=1)
    write(tmp_path, spec_of("mir"), "failed", stages=0, error="no")
    page = tmp_path / "page.html"
    assert report(tmp_path, "-o", page) == (0, f"{page}: 1 run\n", "")


def test_nothing_but_damaged_runs_is_an_error_after_their_names(report, done, tmp_path):
    (done(tmp_path, spec_of("er")) / "spec.json").write_text("[]")
    code, out, err = report(tmp_path, "-o", tmp_path / "page.html")
    assert (code, out) == (2, "")
    assert err.startswith("Skipped: ")
    assert err.endswith(f"There is no finished run in {tmp_path}. Start one with evenhand run.\n")


@pytest.mark.parametrize("output", [".", ""])
def test_a_page_needs_a_name(report, done, tmp_path, output):
    done(tmp_path, spec_of("er"))
    assert report(tmp_path, "-o", output) == (2, "", ". cannot be written: it is a folder.\n")
