"""The grid of the runs that are wanted next names rows of the paper, and probes of them."""

from collections import Counter

import pytest

from evenhand.experiment.grid import read_grid
from evenhand.paper import all_items
from evenhand.paper.definitions import definitions_folder


@pytest.fixture(scope="module")
def specs():
    return read_grid(definitions_folder() / "grids/paper.toml").specs


def test_every_run_fills_a_row_or_is_a_probe(specs):
    rows = [spec for item in all_items() if item.source == "runs" for spec in item.specs]
    others = [one for one in specs if not any(one.answers(row) for row in rows if row.stream == one.stream)]
    assert [(one.method, one.order, one.passes, one.softmax) for one in others] == [
        ("er", "iid", "separate", "seen"),
        ("uer_a(full=True)", "classes", "joint", "seen"),
        ("gss", "classes", "joint", "all"),
        ("er", "classes", "separate", "all"),
        ("uer", "classes", "separate", "all"),
    ]


def test_the_most_wanted_come_first(specs):
    first, rest = specs[:25], specs[25:]
    assert {(one.data, one.memory, one.tests) for one in first} == {("cifar100", 1000, "ema")}
    assert Counter(one.method for one in first) == dict.fromkeys(["er", "er_ace", "lucir", "uer_a", "uer"], 5)
    places = [index for index, one in enumerate(rest) if one.data == "miniimagenet"]
    assert places == list(range(places[0], places[0] + 12))
    assert {(one.data, one.memory) for one in rest[: places[0]]} == {
        *(("cifar10", size) for size in (100, 200, 500, 1000)),
        *(("cifar100", size) for size in (500, 2000, 5000)),
    }


def test_uer_is_tested_by_averaged_weights_in_all_cells(specs):
    averaged = {(one.data, one.memory) for one in specs if (one.method, one.tests) == ("uer", "ema")}
    assert len(averaged) == 12
