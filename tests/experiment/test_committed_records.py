"""The committed records are found again: their keys depend on what they say, not on where code lies."""

import json
import shutil
from pathlib import Path

import pytest

from evenhand.experiment.records.inventory import read_entry
from evenhand.experiment.spec import Spec
from evenhand.experiment.trainings import Archive

RESULTS = Path(__file__).parents[2] / "results"
RECORDS = sorted(path.parent for path in RESULTS.rglob("spec.json"))


def test_there_are_records():
    assert len(RECORDS) >= 237


@pytest.mark.parametrize("folder", RECORDS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_record_is_found_by_its_own_spec(folder):
    assert Spec.read(json.loads((folder / "spec.json").read_text())).key == folder.name


def test_a_run_of_an_earlier_default_is_never_taken_for_one_of_today(tmp_path):
    """It said only "obc", which now means something else: the digits of its key tell."""
    made = RESULTS / "protocol/obc-apart-0-cifar100-m1000-s0-5b57b6c9532c"
    old = Path(shutil.copytree(made, tmp_path / made.name.replace("-apart-0", "")))
    fields = json.loads((old / "spec.json").read_text())
    (old / "spec.json").write_text(json.dumps({**fields, "method": "obc"}))
    today, before = (Spec.read({**fields, "method": name}) for name in ("obc", "obc(apart=0)"))
    assert Archive([tmp_path]).find(today) is None
    assert read_entry(old).state == "outdated"
    assert Archive([made.parent]).find(before).spec.method == "obc(apart=0)"
