import builtins
import csv
import io
import json
import re
import sys
from html.parser import HTMLParser

import pytest

from evenhand.paper import Rendering, load_item, select
from evenhand.paper.definitions import parse_definition
from evenhand.paper.tables import TextTable, escape_latex
from paper.made import result

TABLE = TextTable("A & B", ("method", "a|b"), (("er_ace", "5 ± 1"), ("x", "not run")))


@pytest.fixture(scope="module")
def table():
    """Two methods of Table 2 with two seeds each, ER far from the paper, UER at it; and a third that was not run."""
    item = select(load_item("table2"), 2, ["cifar100"], [500, 1000], ["er", "uer", "er_ace", "iid++"])
    level = {"er": 0.1, "uer": 0.246}
    specs = [spec for spec in item.specs if spec.memory == 1000 and spec.order == "classes" and spec.method in level]
    return Rendering(item, [result(spec, *2 * [level[spec.method] + 0.01 * spec.seed]) for spec in specs])


@pytest.fixture(scope="module")
def figure():
    fields = {"methods": ["er", "uer"], "memory": 50, "stages": 3, "seeds": 3, "backbone": "mlp"}
    item = parse_definition({"title": "Own <figure>", "kind": "figure", "draws": "stages", **fields}, "own")
    return Rendering(item, [result(spec, 0.1 + 0.01 * spec.seed, 0.5) for spec in item.specs])


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_text_formats_escape_what_they_must():
    assert TABLE.markdown().splitlines()[2] == r"| method | a\|b |"
    assert TABLE.markdown().splitlines()[4] == "| er_ace | 5 ± 1 |"
    assert r"er\_ace & 5 $\pm$ 1 \\" in TABLE.latex()
    assert r"a\textbar{}b \\" in TABLE.latex()
    assert escape_latex("\\{x}^2 ~ 5%") == r"\textbackslash{}\{x\}\textasciicircum{}2 \textasciitilde{} 5\%"


def test_every_format_of_a_table_holds_paper_ours_difference_seeds_and_flag(table, tmp_path):
    paths, problem = table.write(tmp_path)
    assert problem == ""
    assert sorted(path.name for path in paths) == [
        f"table2.{kind}" for kind in ("csv", "html", "md", "png", "svg", "tex")
    ]
    read = {path.suffix[1:]: path.read_bytes() for path in paths}
    er = ["ER", "17.6 ± 0.9", "10.5 ± 6.4", "-7.1", "2", "differs"]
    assert f"| {' | '.join(er)} |" in read["md"].decode()
    assert " & ".join(map(escape_latex, er)) + r" \\" in read["tex"].decode()
    page = Reader(read["html"].decode())
    assert page.open == []
    assert er in page.rows
    assert ["ER-ACE", "23.1 ± 0.8", "not run", "", "", ""] in page.rows
    assert ["UER", "24.6 ± 0.8", "25.1 ± 6.4", "+0.5", "2", ""] in page.rows
    rows = list(csv.DictReader(io.StringIO(read["csv"].decode())))
    [row] = [row for row in rows if row["method"] == "er" and row["memory"] == "1000"]
    assert (row["paper"], row["seeds"], row["flagged"]) == ("17.6", "0 1", "True")
    assert float(row["ours"]) == pytest.approx(10.5)
    assert len(rows) == len(table.rows) == 7
    assert read["png"].startswith(b"\x89PNG")
    assert b"Split CIFAR100, |M| = 1000" in read["svg"]
    assert b"|M| = 500" not in read["svg"]  # nothing was run of it


def test_a_figure_is_written_with_every_point(figure, tmp_path):
    figure.write(tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "own.csv").read_text())))
    assert len(rows) == 2 * 3
    assert [row["at"] for row in rows[:3]] == ["1.0", "2.0", "3.0"]
    assert float(rows[2]["mean"]) == pytest.approx((11 + 11 + 50) / 3)
    assert rows[2]["seeds"] == "3"
    assert "| ER | 50.0 | 30.5 | 24.0 | 3 |" in (tmp_path / "own.md").read_text()
    html = (tmp_path / "own.html").read_text()
    assert "Own &lt;figure&gt;" in html
    assert Reader(html).tags.count("svg") == 1
    assert "var(--m0)" in html
    assert not re.search(r"(?:src|href)=\"(?!#)|https?://(?!www\.w3\.org)", html)


def test_the_same_runs_give_the_same_bytes_and_no_clock(figure, table, tmp_path):
    for rendering in (figure, table):
        for folder in ("a", "b"):
            rendering.write(tmp_path / folder)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert b"dc:date" not in (tmp_path / "a" / "own.svg").read_bytes()


def test_data_is_complete_and_plain_json(table, figure):
    document = json.loads(json.dumps(table.document(), allow_nan=False))
    assert (document["schema"], document["item"], document["runs"]) == (1, "table2", {"done": 4, "of": 14})
    [row] = [row for s in document["sections"] for row in s["rows"] if (row["method"], row["memory"]) == ("uer", 1000)]
    assert row["difference"] == pytest.approx(0.5)
    assert (row["paper"], row["seeds"], row["flagged"]) == (24.6, [0, 1], False)
    [panel] = json.loads(json.dumps(figure.document(), allow_nan=False))["panels"]
    assert panel["at"] == [1, 2, 3]
    assert [curve["name"] for curve in panel["curves"]] == ["ER", "UER"]


def test_with_nothing_run_there_are_numbers_and_no_picture(tmp_path):
    for slug in ("table4", "scale"):
        paths, _ = Rendering(load_item(slug), []).write(tmp_path)
        assert {path.suffix for path in paths} == {".md", ".tex", ".csv", ".html"}
    assert "| ER | 15.6 ± 2.6 | not run |  |  |  |" in (tmp_path / "table4.md").read_text()
    assert "Not run." in (tmp_path / "scale.html").read_text()


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_the_extra_the_texts_are_written_and_the_rest_is_told(table, tmp_path, monkeypatch, missing):
    gone = (missing, "evenhand.paper.drawing", "evenhand.report.styles")
    for name in [name for name in sys.modules if name.startswith(gone)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("evenhand.paper.drawing", raising=False)
    load = builtins.__import__

    def refuse(name, *rest):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    paths, problem = table.write(tmp_path)
    assert {path.suffix for path in paths} == {".md", ".tex", ".csv"}
    assert re.fullmatch(rf"HTML, PNG and SVG need {missing}, .*pip install 'evenhand\[report\]'.", problem)


def test_a_table_of_many_stages_ends_with_the_last():
    fields = {"methods": ["er"], "data": "cifar100", "stages": 20, "seeds": 1}
    item = parse_definition({"title": "Own", "kind": "figure", "draws": "stages", **fields}, "own")
    [table] = Rendering(item, [result(spec) for spec in item.specs]).text_tables()
    assert table.columns[1:-1] == ("1", "3", "5", "7", "9", "11", "13", "15", "17", "19", "20")


def test_alphas_are_compared_by_the_seeds_that_all_have():
    item = select(load_item("scale"), 2, methods=["uer", "uer_a"])
    levels = {("uer", 0): 0.2, ("uer", 1): 0.4, ("uer_a", 0): 0.3}
    made = [
        result(spec, *2 * [levels[spec.method, spec.seed]]) for spec in item.specs if (spec.method, spec.seed) in levels
    ]
    [panel] = Rendering(item, made).panels
    assert (panel.xs, [point.mean for point in panel.curves[0].points]) == ((0.5, 1.0), pytest.approx([20, 30]))
    [alone] = Rendering(item, [one for one in made if one.spec.method == "uer"]).panels
    assert alone.curves[0].points[0].mean == pytest.approx(30)


def test_a_figure_without_runs_has_the_header_of_one(tmp_path):
    Rendering(load_item("scale"), []).write(tmp_path)
    assert (tmp_path / "scale.csv").read_text() == "panel,name,x,at,mean,interval,seeds\n"
    assert (tmp_path / "scale.tex").read_text() == "% Figure: the scale alpha: not run.\n"
