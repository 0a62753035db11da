import builtins
import itertools
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from evenhand import errors, report
from evenhand.report import accuracy_figures, html
from evenhand.report.class_figures import by_class
from evenhand.report.scenarios import scenarios
from evenhand.report.styles import PALETTE, assign_styles

THREE = [[0.9], [0.5, 0.7], [0.4, 0.6, 0.8]]
LINKS = {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Reads a page: its tags, the text of its tables, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.open, self.rows = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in LINKS]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    @property
    def cells(self):
        """The rows of all tables, by their first cell."""
        return {row[0].strip(): [" ".join(cell.split()) for cell in row[1:]] for row in self.rows}


@pytest.fixture
def write(tmp_path):
    def make(results, name="report.html"):
        report.write(results, tmp_path / name)
        return (tmp_path / name).read_text()

    return make


@pytest.fixture
def no_figures(monkeypatch):
    """For pages of which only the tables are read: drawing is what takes the time."""
    monkeypatch.setattr(html, "_figures", lambda *_: [])


@pytest.mark.usefixtures("no_figures")
def test_the_headline_table_holds_the_numbers_computed_by_hand(run, write):
    other = [[0.7], [0.7, 0.7], [0.6, 0.2, 0.4]]
    page = Reader(write([run("er", THREE, seconds=2.0), run("er", other, seed=1, seconds=3.0), run("uer", THREE)]))
    assert page.open == []
    assert page.cells["er"] == [
        "50.0 ± 127.1",  # t = 12.706 with one degree of freedom, times half the difference
        "45.0 ± 63.5",
        "60.0 ± 254.1",
        "30.0 ± 0.0",  # (0.5 + 0.1) / 2 and (0.1 + 0.5) / 2
        "65.0 ± 63.5",  # (0.9 + 0.6 + 0.6) / 3 and (0.7 + 0.7 + 0.4) / 3
        "50.0 ± 127.1",
        "2.5",
        "0 60.0 1 40.0",
    ]
    assert page.cells["uer"] == ["60.0", "50.0", "80.0", "30.0", "70.0", "60.0", "2.0", "0 60.0"]


@pytest.mark.usefixtures("no_figures")
def test_the_best_of_a_column_is_bold_and_less_forgetting_is_better(run, matrix, write):
    text = write([run("er", matrix(0.3, 0.9)), run("uer", matrix(0.6, 0.7))])
    bold = re.findall(r'class="value best">([^<]*)', text)
    assert bold == ["63.3", "60.0", "10.0", "63.3", "90.0", "66.7"]  # four of uer; current and anytime of er


def test_every_figure_has_a_caption_and_a_name(run, matrix, write):
    text = write([run(method, matrix(0.5, 0.7), seed=s) for method in ("er", "uer") for s in range(3)])
    assert text.count("<figcaption>") == text.count("<figure") == 5
    assert text.count("<svg") == text.count('role="img"') == 13
    assert "var(--m0)" in text
    assert not set(PALETTE) & set(re.findall(r"#[0-9a-f]{6}", text.split("</style>")[1]))


def test_similarities_are_not_drawn_as_probabilities(run, matrix):
    (both,) = scenarios([run(method, matrix(0.5, 0.7)) for method in ("er", "er+ncm")])
    styles, alone = assign_styles([both]), replace(both, groups=[g for g in both.groups if g.method == "er"])
    for quantity, same in (("probability", True), ("norm", False)):
        drawn = [by_class(scenario, styles, quantity, quantity) for scenario in (both, alone)]
        assert (drawn[0] == drawn[1]) is same


@pytest.mark.usefixtures("no_figures")
def test_settings_environment_and_keys_are_listed(run, matrix, write):
    chips = [{"torch": "2.9", "processor": "A"}, {"torch": "2.9", "processor": "B"}]
    text = write([run("er", matrix(0.5, 0.7), seed=s, environment=chips[s], lr=0.125) for s in (0, 1)])
    assert "<dt>lr</dt><dd>0.125</dd>" in text
    assert "<dt>torch</dt><dd>2.9</dd>" in text
    assert "<dt>processor</dt><dd>A <small>(1 run)</small>; B <small>(1 run)</small></dd>" in text
    assert "key-er-1-" in text


@pytest.mark.usefixtures("no_figures")
def test_a_run_that_is_tested_in_several_ways_is_counted_once(run, matrix, write):
    one, other = run("er", matrix(0.5, 0.7)), run("er", matrix(0.5, 0.7), seed=1, environment={"torch": "2.8"})
    again = replace(one, spec=one.spec.model_copy(update={"method": "er+ema"}))
    assert "<dt>torch</dt><dd>2.9 <small>(1 run)</small>; 2.8 <small>(1 run)</small></dd>" in write([one, again, other])


def test_stages_without_new_classes_are_no_ticks_of_classes(run, matrix, write):
    """Their labels would stand on top of each other."""
    runs = [run("er", matrix(0.5, 0.7), seed=seed, order="domains") for seed in range(2)]
    last = runs[0].records[-1]["arrival"]
    text = write([replace(one, records=[{**record, "arrival": last} for record in one.records]) for one in runs])
    assert "Previous and current stages" in text
    assert "Accuracy on the current stage" in text
    assert "class, by arrival" in text
    assert "by the stage they arrived in" not in text
    [confusion] = re.findall(r'aria-label="Confusion matrix of er".*?</svg>', text, re.DOTALL)
    assert re.findall(r">(\d)</text>", confusion)[:6] == list("123456")


def test_names_are_escaped_wherever_they_stand(run, matrix, write):
    bad = "<script>alert('a')</script>&amp; $x^2$ \u6f22"
    classes = tuple(f"<u>{c}</u>&" for c in range(4))
    results = [run(name, matrix(0.5, 0.9, 2), classes=classes, data='"><img src=x>') for name in (bad, "er")]
    text = write(results)
    page = Reader(text)
    assert page.open == []
    assert not {"script", "img", "u"} & set(page.tags)
    assert "&lt;u&gt;3&lt;/u&gt;&amp;</text>" in text
    assert bad in page.cells


def test_nothing_is_loaded_from_elsewhere(run, matrix, write):
    text = write([run("er", matrix(0.5, 0.7), memory=m) for m in (200, 500)])
    page = Reader(text)
    assert page.links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    inner = set(re.findall(r' id="([^"]+)"', text))
    assert {link[1:] for link in page.links if link.startswith("#")} <= inner
    assert len(inner) == len(re.findall(r' id="([^"]+)"', text))


def test_the_same_runs_give_the_same_bytes(run, matrix, write):
    results = [run(method, matrix(0.5, 0.7), seed=s) for method in ("er", "uer") for s in range(2)]
    assert write(results) == write(results[::-1], "again.html")


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("seeds", [1, 2])
def test_one_method_and_one_stage_are_enough(run, matrix, write, stages, seeds):
    text = write([run("uer", matrix(0.5, 0.7, stages), seed=s) for s in range(seeds)])
    assert Reader(text).cells["uer"][1][:1] == ("\u2013" if stages == 1 else "5")
    assert ("±" in text.split("About the numbers")[0]) == (seeds > 1)
    assert ("Previous and current" in text) == (stages > 1)
    assert "nan" not in text.split("</style>")[1].lower()


def test_a_hundred_classes_have_no_labels_that_overlap(run, matrix, write):
    text = write([run("er", matrix(0.2, 0.4, 10), per_stage=10), run("er", [[0.4]], per_stage=100, order="iid")])
    assert "1/100" in text
    level = r'<text style="font-size: ([\d.]+)px; text-anchor: middle[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*rotate\(-0 '
    lines = 0
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        rows = {}
        for size, x, y, words in re.findall(level + "[^>]*>([^<]+)", svg):
            rows.setdefault(y, []).append((float(x), 0.6 * float(size) * len(words)))
        for row in rows.values():
            lines += len(row) > 1
            assert all(b[0] - a[0] >= (a[1] + b[1]) / 2 for a, b in itertools.pairwise(sorted(row)))
    assert lines >= 10  # an axis of each figure with stages or classes, and the rows of the accuracy matrix


def test_many_methods_keep_the_compared_ones_in_colour(run, matrix):
    names = ["uer", "er", *(f"m{i}" for i in range(16))]
    results = [run(name, matrix(0.9 - 0.04 * i, 0.9)) for i, name in enumerate(reversed(names))]
    styles = assign_styles(scenarios(results))
    assert styles["uer"].colour == PALETTE[0]
    assert styles["er"].colour == PALETTE[1]
    assert sum(style.strong for style in styles.values()) == 6
    strong = [style.colour for style in styles.values() if style.strong]
    assert len(set(strong)) == 6
    few = assign_styles(scenarios(results[:7]))
    assert len({style.colour for style in few.values()}) == 7
    assert all(style.strong for style in few.values())


def test_a_method_has_the_same_colour_in_every_scenario(run, matrix):
    small = [run("uer", matrix(0.6, 0.9)), run("er", matrix(0.5, 0.9)), run("mir", matrix(0.4, 0.9))]
    large = [run("mir", matrix(0.9, 0.9), memory=500), run("er", matrix(0.5, 0.9), memory=500)]
    styles = assign_styles(scenarios(small + large))
    assert [styles[name].css for name in ("uer", "er", "mir")] == ["var(--m0)", "var(--m1)", "var(--m2)"]


@pytest.mark.usefixtures("no_figures")
def test_several_scenarios_have_an_overview(run, matrix, write):
    results = [run("er", [[0.5]], order="iid"), run("er", [[0.4]], order="iid++"), run("uer", [[0.6]], order="iid")]
    rows = [row for row in Reader(write(results)).rows if row[0].strip() == "uer"]
    assert [cell.strip() for cell in rows[0][1:]] == ["60.0", "\u2013"]


@pytest.mark.usefixtures("no_figures")
def test_no_two_scenarios_have_the_same_heading(run, matrix, write):
    text = write([run("er", matrix(0.5, 0.7, stages), order="blurry") for stages in (2, 4)])
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert len(set(headings)) == len(headings) == 4  # with the overview, and what is said about the numbers


@pytest.mark.parametrize("count", [1, 5, 18])
def test_labels_beside_lines_are_apart_and_in_order(count):
    places = accuracy_figures.spread(sorted((i * 0.37) % 0.3 + 0.7 for i in range(count)), 0.05)
    assert all(b - a >= 0.05 - 1e-5 for a, b in itertools.pairwise(places))
    assert places[0] >= 0
    assert places[-1] <= 1


def test_drawing_leaves_matplotlib_as_it_was(run, write):
    import matplotlib as mpl

    with mpl.rc_context({"xtick.direction": "in", "axes.xmargin": 0.3}):
        before = dict(mpl.rcParams)
        loud = write([run("er", [[0.5]])])
        assert dict(mpl.rcParams) == before
    assert loud == write([run("er", [[0.5]])], "again.html")


def test_no_run_is_an_error_with_the_next_step(tmp_path):
    with pytest.raises(errors.InputError, match="no finished run to report. Start one with evenhand run"):
        report.write([], tmp_path / "report.html")


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named_in_one_sentence(run, matrix, tmp_path, monkeypatch, missing):
    for name in [name for name in sys.modules if name.startswith((missing, "evenhand.report."))]:
        monkeypatch.delitem(sys.modules, name)
    load = builtins.__import__

    def refuse(name, *rest):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(errors.InputError, match=rf"needs {missing}, .*pip install 'evenhand\[report\]'"):
        report.write([run("er", matrix(0.5, 0.7))], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
