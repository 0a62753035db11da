"""`evenhand run` with several tests of one training."""

import json

import pytest

from evenhand.cli.app import main

SMALL = ("--backbone", "mlp(hidden=8)", "--memory", "20", "--stages", "2", "--batch", "50", "--threads", "1", "--json")


@pytest.fixture
def run(capsys, tmp_path):
    """Run methods below a folder, and return the rows of the table and the number of trainings so far."""

    def call(*words):
        with pytest.raises(SystemExit) as end:
            main(["run", *words, *SMALL, "--engine", "inline", "--root", str(tmp_path)])
        assert end.value.code in (0, None)
        rows = json.loads(capsys.readouterr().out)["results"]
        return {row["method"]: row["final_accuracy"] for row in rows}, len(list(tmp_path.iterdir()))

    return call


def test_methods_that_differ_in_their_tests_are_trained_once(run):
    rows, trained = run("uer", "uer+ema", "uer+cos+ema(decay=0.5)")
    assert (list(rows), trained) == (["uer", "uer+ema", "uer+cos+ema(decay=0.5)"], 1)
    assert run("uer+ema") == ({"uer+ema": rows["uer+ema"]}, 1)
    others, trained = run("uer+ema", "uer+ncm")
    assert (others["uer+ema"], trained) == (rows["uer+ema"], 2)


def test_further_tests_are_rows(run):
    rows, trained = run("er", "uer", "--tests", "ema, ema+ncm")
    assert list(rows) == ["er", "er+ema", "er+ema+ncm", "uer", "uer+ema", "uer+ema+ncm"]
    assert trained == 2
    assert run("uer+ema+ncm") == ({"uer+ema+ncm": rows["uer+ema+ncm"]}, 2)


def test_a_bad_test_is_one_sentence(capsys, tmp_path):
    for text, sentence in (
        ("emma", "There is no test called 'emma'. Did you mean ema"),
        ("mir", "There is no test called 'mir'. Available: cos, dot, ema, ncm"),
        ("ema(decay=2)", "The 'decay' parameter of ema must be a number in [0, 1]. Got 2.0 instead."),
    ):
        with pytest.raises(SystemExit) as end:
            main(["run", "uer", *SMALL, "--tests", text, "--root", str(tmp_path)])
        assert end.value.code == 2
        assert sentence in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
