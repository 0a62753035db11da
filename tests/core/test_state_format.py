"""What a saved learner tells about itself, and a file that must load for ever."""

import json
import sys
import types
from pathlib import Path

import pytest
import torch

import evenhand
from evenhand import Learner, part, resolve
from evenhand.backbones import MLP
from evenhand.core.checkpoint import FORMAT
from evenhand.errors import InputError, RunError
from evenhand.files import read_state, write_state
from evenhand.methods.er import Uniform

KEPT = Path(__file__).parent / "states"
X, Y = torch.eye(4), ["a", "b", "c", "d"]


def trained(method="uer"):
    torch.manual_seed(0)
    learner = Learner(MLP((4,), hidden=3), method, memory=6, optimizer="sgd(momentum=0.5)", tests="ema", device="cpu")
    for _ in range(5):
        learner.observe(X, Y)
    return learner


@pytest.mark.parametrize("number", range(2, FORMAT + 1))
def test_a_file_of_every_format_loads(number):
    learner = Learner.load(KEPT / f"format{number}.safetensors", device="cpu")
    assert learner.labels == Y
    assert learner.steps == 5
    expected = json.loads((KEPT / f"format{number}.json").read_text())
    for test in ("", "ema(decay=0.99, by_row=False)"):  # the latter was saved as `ema`, when that was the default
        assert learner.scores(X, test=test).tolist() == [pytest.approx(row, abs=1e-5) for row in expected[test]]
    learner.observe(X, Y)


def test_a_file_says_what_wrote_it(tmp_path):
    trained().save(tmp_path / "state")
    _, facts = read_state(tmp_path / "state")
    assert facts["format"] == FORMAT
    assert facts["versions"] == {"evenhand": evenhand.__version__, "torch": torch.__version__}
    assert facts["modules"] == []
    assert facts["settings"]["tests"] == "ema(decay=0.998, by_row=True)"


def test_a_file_of_a_later_format(tmp_path):
    trained().save(tmp_path / "state")
    tensors, facts = read_state(tmp_path / "state")
    facts["format"], facts["versions"] = FORMAT + 1, {"evenhand": "9.9"}
    write_state(tmp_path / "state", tensors, facts)
    with pytest.raises(RunError, match=r"was written by evenhand 9\.9\. Load it with that version"):
        Learner.load(tmp_path / "state", device="cpu")


def test_a_part_that_is_not_imported_is_named_with_its_module(tmp_path, monkeypatch):
    module = types.ModuleType("mymethods")
    monkeypatch.setitem(sys.modules, "mymethods", module)
    mine = part("mymethods.Mine")(type("Mine", (Uniform,), {"__module__": "mymethods"}))
    trained(resolve("uer").but(retrieval=mine())).save(tmp_path / "state")
    Learner.load(tmp_path / "state", device="cpu")
    monkeypatch.delitem(sys.modules, "mymethods")
    monkeypatch.delitem(evenhand.core.parts.PARTS, "mymethods.Mine")
    with pytest.raises(InputError, match=r"no part called 'mymethods\.Mine'.*needs mymethods\. Import that first"):
        Learner.load(tmp_path / "state", device="cpu")


def test_a_method_that_cannot_be_saved_says_so_at_once():
    class Mine(Uniform):
        pass

    with pytest.raises(InputError, match=r"or a part \(a class with @part\), so that it can be saved"):
        Learner(MLP((4,)), resolve("er").but(retrieval=Mine()), device="cpu")


def test_an_option_that_load_does_not_have(tmp_path):
    trained().save(tmp_path / "state")
    with pytest.raises(InputError, match="no option of load called 'memory'"):
        Learner.load(tmp_path / "state", memory=5)
