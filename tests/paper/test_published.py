"""Every number in the definitions against the paper's own LaTeX, in published.tex."""

import re
from pathlib import Path

import pytest

from evenhand.paper import all_items, load_item

TABLES = dict(
    re.findall(r"% (table\d)\n(.*?)\\end\{tabular\}", Path(__file__).with_name("published.tex").read_text(), re.DOTALL)
)
SIZES = {"cifar10": (100, 200, 500, 1000), "cifar100": (500, 1000, 2000, 5000), "miniimagenet": (500, 1000, 2000, 5000)}
FORMS = {"dot-product": "dot", "cosine": "cos"}


def lines(table):
    """The cells of each line of a table, without marks."""
    text = re.sub(r"\\(textbf|underline|multicolumn\{\d\}\{[^}]*\})|~?\\cite\{\w+\}|\\hline", "", TABLES[table])
    text = text.replace(r"\scriptsize", "").replace(r"$\hookrightarrow$", "").replace("{", "").replace("}", "")
    return [[cell.strip() for cell in line.split("&")] for line in text.split(r"\\")]


def pair(cell):
    """A number with its spread."""
    return tuple(float(number) for number in re.fullmatch(r"(-?[\d.]+)\s*±\s*([\d.]+)", cell).groups())


def test_table_2_has_all_of_the_paper_s_rows_and_no_other_number():
    expected = {(one.title, one.fields["data"], one.fields.get("memory")): one for one in load_item("table2").published}
    found = 0
    for name, *cells in lines("table2"):
        name = re.sub(r" *\(.*", "", name)
        if not cells or "±" not in cells[0]:
            continue
        width = len(cells) // 3
        assert width == (1 if name in ("IID", "IID++", "FINE-TUNE") else 4)
        for place, cell in enumerate(cells):
            data = list(SIZES)[place // width]
            memory = SIZES[data][place % width] if width > 1 else None
            one = expected.pop((name, data, memory))
            assert (one.numbers, one.interval) == ({"accuracy": pair(cell)[0]}, pair(cell)[1])
            found += 1
    assert (found, expected) == (16 * 12 + 9, {})


def test_table_1_is_that_of_the_paper_and_names_the_right_scorings():
    item = load_item("table1")
    rows = [line for line in lines("table1") if "±" in "".join(line)]
    assert len(rows) == len(item.published) == len(item.settings()) == 8
    for (index, *cells), one in zip(rows, item.published, strict=True):
        forms = [FORMS[cell] for cell in cells[:3]]
        assert one.title == f"{index.removeprefix('l|')}: {', '.join(forms)}"
        [spec] = [spec for spec in item.settings() if one.matches(spec)]
        scoring = spec.resolved.scoring
        assert [[form for form, _ in scoring.learn], [form for form, _ in scoring.replay]] == [[forms[0]], [forms[1]]]
        assert scoring.test == forms[2]
        plain = [float(cells[place]) for place in (3, 4, 5, 6, 7)]
        weights = [*pair(cells[8]), *pair(cells[9])]
        assert list(one.numbers.values()) == [*plain, *weights, float(cells[10]), float(cells[11])]
    assert item.measures[:5] == ["accuracy", "previous", "current", "norm_previous", "norm_current"]
    assert item.measures[5:] == [
        "mean_previous", "spread_previous", "mean_current", "spread_current", "bias_previous", "bias_current"
    ]  # fmt: skip
    assert {(spec.stages, spec.memory, spec.data) for spec in item.specs} == {(2, 5000, "cifar100")}


def test_table_3_is_that_of_the_paper():
    names, costs, seconds = (line[1:] for line in lines("table3")[:3])
    expected = load_item("table3").published
    assert [one.title for one in expected] == names
    assert [one.numbers["c_d"] for one in expected] == [float(cost) for cost in costs]
    ratios = [float(time) / float(seconds[0]) for time in seconds]
    assert [one.numbers["time"] for one in expected] == pytest.approx(ratios)


def test_table_4_is_that_of_the_paper():
    rows = [line for line in lines("table4") if "±" in "".join(line)]
    expected = load_item("table4").published
    assert len(rows) == len(expected) == 6
    for (name, accuracy, current, previous), one in zip(rows, expected, strict=True):
        assert one.title == name
        numbers = {"accuracy": pair(accuracy)[0], "current": float(current), "previous": float(previous)}
        assert (one.numbers, one.interval) == (numbers, pair(accuracy)[1])
    couples = [spec.resolved.scoring.couple for spec in load_item("table4").settings()]
    assert couples == ["head", "head", "head", "neck", "head", "both"]
    assert all(spec.neck for spec in load_item("table4").specs)


def test_runs_are_those_of_the_paper():
    table2 = load_item("table2")
    assert len(table2.specs) == (16 * 4 + 3) * 3 * 10
    methods = {data: {spec.method for spec in table2.specs if spec.data == data} for data in SIZES}
    assert {"aser(n=9)", "er_dvc(weight=2.0)"} <= methods["cifar10"]
    assert {"aser", "er_dvc"} <= methods["cifar100"]
    assert {"aser(n=3)", "er_dvc"} <= methods["miniimagenet"]
    assert {(spec.data, spec.stages) for spec in table2.specs if spec.order == "classes"} == {
        ("cifar10", 5), ("cifar100", 10), ("miniimagenet", 10)
    }  # fmt: skip
    for item in all_items():
        specs = [spec for spec in item.specs if spec.method != "finetune"]
        settings = {(spec.augment, spec.views, spec.passes, spec.lr, spec.batch, spec.replay) for spec in specs}
        assert settings == {("scr", "concat", "joint", 0.1, 10, 10)}
        assert item.command == f"evenhand paper {item.slug}"
        assert {spec.seed for spec in item.specs} == (set(range(10)) if item.source == "runs" else {0})
        assert {spec.data for spec in item.specs} == {*item.time.measured, *item.time.estimated}
        assert (item.kind == "figure") == (not item.published)
    raw = [spec for spec in table2.specs if spec.method == "finetune"]
    assert {(spec.order, spec.softmax, spec.views) for spec in raw} == {
        ("iid", "seen", "none"), ("classes(sequence='natural')", "all", "none")
    }  # fmt: skip
    alphas = [spec.resolved.scoring.replay.dot for spec in load_item("scale").settings()]
    assert alphas == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    pairs = [spec.method for spec in load_item("improvement").settings()]
    assert {name.removesuffix("+uer") for name in pairs if name.endswith("+uer")} == {
        name for name in pairs if not name.endswith("+uer")
    }
