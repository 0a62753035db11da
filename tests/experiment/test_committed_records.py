"""The committed records are found again: their keys depend on what they say, not on where code lies."""

import json
from pathlib import Path

import pytest

from evenhand.experiment.spec import Spec

RESULTS = Path(__file__).parents[2] / "results"
RECORDS = sorted(path.parent for path in RESULTS.rglob("spec.json"))


def test_there_are_records():
    assert len(RECORDS) >= 237


@pytest.mark.parametrize("folder", RECORDS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_record_is_found_by_its_own_spec(folder):
    assert Spec.read(json.loads((folder / "spec.json").read_text())).key == folder.name
