import json
from pathlib import Path

import pytest

from evenhand.cli import app, bench, tables
from evenhand.cli.data import datasets_table
from evenhand.cli.run import results_table
from evenhand.cli.tune import tuning_table
from experiment.folders import spec_of, write

LONG = "mir(candidates=100)+uer(alpha=0.3)"
WIDTHS = [40, 60, 80, 100, 140]
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def printed(capsys, monkeypatch):
    """Print a table on a terminal of some width; the lines."""

    def draw(make, *facts, width=140):
        monkeypatch.setattr(tables, "STDOUT_WIDTH", width)
        tables.stdout().print(make(*facts))
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        return lines

    return draw


def summary(**facts):
    numbers = {"final_accuracy": 0.95123, "interval": 0.1234, "previous": 1.0, "current": 0.5, "forgetting": -0.123}
    return {"data": "cifar10", "memory": 200, "seeds": [0, 1, 2], "seconds": 12345.0, **numbers, **facts}


def dataset(name, found=None):
    facts = {"title": "a hundred kinds of things", "classes": 100, "train": 50000, "test": 10000, "shape": [3, 84, 84]}
    return {"name": name, **facts, "found": found, "origins": ["official", "npm"]}


def joined(lines, start, end):
    """What stands in one column, below one another."""
    return "".join(line[start:end].strip(" │┃") for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("names", [["er", "uer"], ["er", LONG]])
def test_no_number_is_cut(printed, width, names):
    lines = printed(results_table, [summary(), summary()], names, width=width)
    text = "\n".join(lines)
    assert "…" not in text
    assert text.count("95.1") == text.count("± 12.3") == 2
    gone = [
        name for name in ("previous", "current", "forgetting", "seconds") if name not in text.partition("Columns")[0]
    ]
    kept = {"previous": "100.0", "current": " 50.0", "forgetting": "-12.3", "seconds": "12345"}
    assert all(text.count(number) == (0 if name in gone else 2) for name, number in kept.items())
    assert bool(gone) == (width < 80)
    assert all(name in text.partition("Columns omitted: ")[2] for name in gone)
    first = next(place for place, line in enumerate(lines) if line.strip(" │").startswith("er "))
    assert joined(lines[first + 1 :], 0, lines[first].index("95.1")).startswith(names[1])


def test_a_wide_terminal_has_every_name_in_one_line(printed):
    lines = printed(results_table, [summary()], [LONG])
    assert sum(f"│ {LONG} │     95.1 │        ± 12.3 │" in line for line in lines) == 1


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("part", ["steps", "precision"])
def test_the_times_of_steps_are_never_cut(printed, width, part):
    record = json.loads((RESULTS / f"bench/{part}.json").read_text())
    made, rows = getattr(bench, f"_{part}"), record[part]
    for own in [rows] if "rows" in rows else rows.values():
        text = "\n".join(printed(made, "Reduced ResNet18", own, width=width))
        assert "…" not in text
        for row in own["rows"].values():
            assert f"{row['median_ms']:.1f}" in text
            assert f"{row['to_plain']['low']:.3f} to {row['to_plain']['high']:.3f}" in text


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_the_values_of_points_are_never_cut(printed, width):
    values = {"alpha": 0.123456, "lr": 0.0316228, "candidates": 100}
    numbers = {"accuracy": 0.5, "interval": 0.01, "seeds": 3, "diverged": False, "given_up": 0}
    text = "\n".join(printed(tuning_table, [{"values": values, **numbers}] * 2, 1, width=width))
    assert text.count("0.123456") == text.count("0.0316228") == text.count("± 1.0") == 2
    assert "chosen" in text or width < 80  # then its letters stand below one another


@pytest.mark.parametrize("width", WIDTHS)
def test_the_names_of_datasets_are_never_cut(printed, width):
    rows = [dataset("miniimagenet", "/a/long/way/to/mini-imagenet"), dataset("tiny-imagenet")]
    lines = printed(datasets_table, rows, width=width)
    words = [word for line in lines for word in line.split()]
    assert {"miniimagenet", "tiny-imagenet"} <= set(words)
    assert "…" not in "".join(lines)
    assert words.count("50000") == (2 if width >= 60 else 0)


def test_brackets_in_a_path_stay(printed):
    lines = printed(datasets_table, [dataset("cifar10", "/data/[old]/cifar"), dataset("[b]", "/[/]/x")])
    assert sum("│ /data/[old]/cifar " in line for line in lines) == 1
    assert sum("│ [b] " in line and "│ /[/]/x " in line for line in lines) == 1


def compare(capsys, root):
    with pytest.raises(SystemExit) as end:
        app.main(["runs", "compare", str(root)])
    assert not end.value.code
    return capsys.readouterr().out


def test_runs_of_other_stages_are_compared_in_tables_of_their_own(capsys, tmp_path):
    for stages in (2, 4):
        write(tmp_path, spec_of("er", order="blurry", stages=stages), accuracy=0.05 * stages)
        write(tmp_path, spec_of("uer", order="blurry", stages=stages), accuracy=0.15 * stages)
    out = compare(capsys, tmp_path)
    two, four = out.partition("fashion-cut, memory 20, blurry, 4 stages")[::2]
    assert two.lstrip().startswith("fashion-cut, memory 20, blurry, 2 stages")
    assert ("+20.0" in two, "+40.0" in two) == (True, False)
    assert ("+20.0" in four, "+40.0" in four) == (False, True)


def test_brackets_in_the_title_of_a_comparison_stay(capsys, tmp_path):
    write(tmp_path, spec_of("er", data="npz:/data/[old]/a.npz"))
    assert "npz:/data/[old]/a.npz, memory 20" in compare(capsys, tmp_path)
