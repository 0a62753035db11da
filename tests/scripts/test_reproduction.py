import json
import re
from contextlib import suppress

import pytest
import reproduction
from cells import cells
from hypothesis import given
from hypothesis import strategies as st
from reproduction import Finding, Findings, parse_findings
from standings import gains, rows_above_best, standings

from evenhand import errors
from evenhand.experiment import grid
from evenhand.experiment.spec import Spec
from evenhand.paper import Rendering, load_item, records, select
from paper.made import result, spec_of, write

COSTS = {name: {"c_d": 1.0} for name in ("er", "er_ace", "obc", "uer")}


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """Spare the pages the counting, which has a test of its own."""
    monkeypatch.setattr(records, "counted_steps", lambda methods: {**COSTS, "obc": {"c_d": 7 / 6}})


def section(text, title):
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture
def folder(tmp_path):
    """ER far below the paper's number, UER at it but behind ER on current classes; two seeds."""
    for spec in select(load_item("table2"), 2, ["cifar100"], [1000], ["er", "uer"]).specs:
        if spec.order == "classes":
            level = {"er": (0.02, 0.8), "uer": (0.24, 0.3)}[spec.method]
            write(tmp_path / "records", spec, *(value + 0.002 * spec.seed for value in level))
    return tmp_path / "records"


def text(records, findings):
    """The page alone, without its pictures, which take most of the time."""
    items = reproduction.renderings(records)
    return reproduction.text(items, reproduction.averaged(records), "page", findings)


def test_the_page_tells_what_ran_what_differs_and_where_uer_does_not_win(folder, tmp_path):
    made = reproduction.write(tmp_path / "page.md", folder, Findings())
    text = (tmp_path / "page.md").read_text()
    table2 = section(text, "Table 2: final average accuracy")
    assert "| ER | 17.6 ± 0.9 | 9.9 ± 1.3 | -7.7 | 2 | differs |" in table2
    assert "| UER | 24.6 ± 0.8 | 24.7 ± 1.3 | +0.1 | 2 |  |" in table2
    assert table2.count("not run") == 16 * 12 + 9 - 2
    differing = section(text, "Rows that differ from the paper")
    assert "**ER** on cifar100, memory 1000: paper 17.6, ours 9.9. This is not yet explained." in differing
    won = section(text, "Where UER does not win")
    assert "Others are better in current classes (ER); mean of both (ER)" in won
    assert "| current classes | 30.1 ± 1.3 | ER 80.1 ± 1.3 | -50.0 ± 0.0 | UER behind |" in won
    assert "| previous classes | 24.1 ± 1.3 | ER 2.1 ± 1.3 | +22.0 ± 0.0 | UER ahead |" in won
    assert "| forgetting | 6.0 ± 0.0 | ER 78.0 ± 0.0 | -72.0 ± 0.0 | UER ahead |" in won
    assert "| OBC | 1.50 | 1.17 | -0.33 |" in section(text, "Table 3: computational complexity")
    assert "\nNot run.\n" in section(text, "Figure: improvement of baselines by UER")
    further = section(text, "What the paper did not measure")
    assert "| UER | 24.7 ± 1.3 | 6.0 ± 0.0 |" in further
    assert "Accuracies compared with the paper's: 1 above, 1 below." in table2
    gained = section(text, "What each method gains over ER")
    assert "**Split CIFAR100, \\|M\\| = 1000 (%)**" in gained
    assert "\n| UER | +7.0 | +14.8 ± 0.0 | +7.8 | 2 |\n" in gained
    assert table2.index("| UER | 24.6") < table2.index("<details>") < table2.index("| OBC | 22.1 ± 0.6 | not run |")
    links = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert sorted(links) == sorted(f"page/{one.item.slug}.svg" for one in made if one.drawable)
    assert all((tmp_path / link).read_text().startswith("<?xml") for link in links)


def test_the_page_leads_with_all_cells_in_one_table(folder, tmp_path):
    [spec] = select(load_item("table2"), 1, ["cifar100"], [1000], ["uer"]).specs
    tested = spec.model_copy(update={"tests": "ema"})
    made = write(tmp_path / "records", tested, 0.2, 0.2)
    lines = [json.loads(line) for line in (made / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["tests"] = {"ema": {"accuracy": [0.3] * line["stage"], "probability": line["probability"]}}
    (made / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lead = text(folder, Findings(summary="It is so.")).partition("\n## ")[0]
    assert lead.count("\n| CIFAR10") == 4 + 4
    assert lead.count("\n| MiniImageNet, ") == 4
    er, gap = "9.9 ± 1.3 (17.6)", "+14.8 ± 0.0 (+7.0)"
    assert f"| CIFAR100, 1000 | 24.7 ± 1.3 (24.6) | 30.0 | ER {er} | {er} | {gap} | {gap} | 2 |" in lead
    assert (
        "UER has been run in 1 of 12 cells, 1 of them with more than one seed. On average it ends above ER in 1 of 1"
        in lead
    )
    assert "explains in none. It is so." in lead
    gone = "not run (21.9) | not run | not run | not run (13.4) | not run | not run (+8.5)"
    assert f"| MiniImageNet, 1000 | {gone} |  |" in lead


def test_the_best_other_method_is_the_one_that_uer_leads_least_by_seed():
    item = select(load_item("table2"), 2, ["cifar100"], [1000], ["er", "lucir", "er_ace", "uer"])
    levels = {("uer", 0): 0.2, ("uer", 1): 0.4, ("er", 0): 0.1, ("lucir", 0): 0.15, ("er_ace", 1): 0.3}
    made = [result(s, *2 * [levels[s.method, s.seed]]) for s in item.specs if (s.method, s.seed) in levels]
    [cell] = cells(Rendering(item, made).compared, [])
    assert (cell.best.name, cell.lead(cell.best).mean) == ("LUCIR", pytest.approx(5))  # ER-ACE's mean is higher
    more = [result(s, *2 * [0.35]) for s in item.specs if (s.method, s.seed) == ("er", 1)]
    [cell] = cells(Rendering(item, made + more).compared, [])
    assert (cell.best.name, cell.lead(cell.best).mean, cell.wins) == ("ER", pytest.approx(7.5), True)  # on two seeds
    more += [result(s, *2 * [0.25]) for s in item.specs if (s.method, s.seed) == ("er_ace", 0)]
    [cell] = cells(Rendering(item, [one for one in made if one.spec.method != "er_ace"] + more).compared, [])
    assert (cell.best.name, cell.wins) == ("ER", False)  # ER-ACE ends above UER, on one seed
    [cell] = cells(Rendering(item, [one for one in made if one.spec.method != "uer"]).compared, [])
    assert (cell.best.name, cell.lead(cell.best)) == ("ER-ACE", None)


def test_gains_are_taken_seed_by_seed():
    item = select(load_item("table2"), 3, ["cifar100"], [1000], ["er", "er_ace", "uer", "lucir", "iid++"])
    levels = {("er", 0): 0.1, ("er", 1): 0.2, ("uer", 1): 0.25, ("uer", 2): 0.9, ("lucir", 2): 0.5}
    levels |= {("er_ace", seed): 0.3 for seed in (0, 1)}
    results = [
        result(spec, levels[spec.method, spec.seed], levels[spec.method, spec.seed])
        for spec in item.specs
        if (spec.method, spec.seed) in levels
    ]
    free, kept = Rendering(item, results).compared
    assert gains(free) is None  # IID++ is ER's method in another order
    assert gains(kept).rows == (
        ("ER-ACE", "+5.5", "+15.0 ± 63.5", "+9.5", "2"),
        ("UER", "+7.0", "+5.0", "-2.0", "1"),
    )
    alone = [one for one in results if one.spec.method == "er"]
    assert [gains(section) for section in Rendering(item, alone).compared] == [None, None]
    others = [one for one in results if one.spec.method != "er"]
    assert [gains(section) for section in Rendering(item, others).compared] == [None, None]


def test_the_same_records_give_the_same_bytes(folder, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        reproduction.write(tmp_path / name / "page.md", folder, Findings())
    one, two = (sorted((tmp_path / name).rglob("*.*")) for name in ("a", "b"))
    assert len(one) > 3
    for a, b in zip(one, two, strict=True):
        assert a.read_text().replace("/a/", "/b/") == b.read_text()


def test_no_page_is_made_without_a_damaged_run(folder):
    (next(folder.glob("er-*")) / "metrics.jsonl").write_text("{")
    with pytest.raises(errors.RunError, match="metrics.jsonl is damaged"):
        reproduction.renderings(folder)
    tested = write(folder, Spec.make(method="uer", data="cifar100", tests="ema"))
    with pytest.raises(errors.RunError, match=f"{tested.name} are damaged"):  # it lacks the numbers of its test
        reproduction.averaged(folder)


def test_findings_stand_below_their_rows(folder):
    about = {"method": "er", "data": "cifar100", "memory": 1000}
    more = {"command": "evenhand run er --passes separate", "number": 10.26, "conclusion": "The joint pass is fine."}
    known = [Finding(**about, **more), Finding(**{**about, "memory": 500}, **{**more, "number": 99.0})]
    differing = section(text(folder, Findings(finding=known)), "Rows that differ from the paper")
    assert "- **ER** on cifar100, memory 1000" in differing
    assert "  - `evenhand run er --passes separate` gave 10.3. The joint pass is fine." in differing
    assert "not yet explained" not in differing
    assert "99" not in differing
    assert "  - The cause of the difference is not known." in differing
    known[0] = Finding(**about, **more, explains=True)
    differing = section(text(folder, Findings(finding=known)), "Rows that differ from the paper")
    assert "The joint pass is fine." in differing
    assert "not known" not in differing
    known[0] = Finding(**about, **more, neck=True)
    assert "joint pass" not in text(folder, Findings(finding=known))  # it is about a row of Table 4


WHOLE = {"method": "er", "data": "cifar100", "command": "a", "number": 3, "conclusion": "b"}


@pytest.mark.parametrize(
    ("finding", "sentence"),
    [
        ({"method": "er"}, "The 'finding.0.data' of the list of findings is missing"),
        ({**WHOLE, "metod": "er"}, "no field of the list of findings called 'finding.0.metod'"),
        ({**WHOLE, "number": "3"}, "'finding.0.number' of the list of findings must be a valid number. Got '3'"),
        ({**WHOLE, "command": 3}, "'finding.0.command' of the list of findings must be a string. Got 3"),
        ({**WHOLE, "memory": 0.5}, "'finding.0.memory' of the list of findings must be a valid integer"),
        ({**WHOLE, "neck": 1}, "'finding.0.neck' of the list of findings must be a valid boolean"),
        ({**WHOLE, "method": "err"}, "no method called 'err'"),
    ],
)
def test_a_wrong_finding_is_one_sentence(finding, sentence):
    with pytest.raises(errors.InputError, match=sentence):
        parse_findings({"finding": [finding]})
    assert parse_findings({"finding": [WHOLE]}).finding[0].memory is None
    with pytest.raises(errors.InputError, match="no field of the list of findings called 'findings'"):
        parse_findings({"findings": [WHOLE]})


VALUES = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.sampled_from(["er", "cifar100", "", "x"])
ENTRIES = st.lists(st.dictionaries(st.sampled_from([*WHOLE, "memory", "x"]), VALUES) | VALUES, max_size=2)


@given(st.dictionaries(st.sampled_from(["finding", "x"]), VALUES | ENTRIES))
def test_any_list_of_findings_is_read_or_refused(content):
    with suppress(errors.InputError):  # any other error is a fault of ours
        assert all(finding.method for finding in parse_findings(content).finding)


def test_verdicts_say_no_more_than_the_seeds():
    specs = {(m, s): spec_of(m, seed=s) for m in ("er", "uer") for s in (0, 1, 2)}
    level = {("er", 0): 0.2, ("er", 1): 0.3, ("er", 2): 0.4, ("uer", 0): 0.4, ("uer", 1): 0.3, ("uer", 2): 0.3}
    [stream] = standings([result(specs[one], *2 * [level[one]]) for one in specs])
    assert {verdict.conclusion for verdict in stream.verdicts()} == {"not settled"}
    [stream] = standings([result(specs["er", 0], 0.2, 0.2), result(specs["uer", 0], 0.3, 0.3)])
    assert stream.verdicts()[0].conclusion == "one seed"
    assert stream.verdicts()[0].ahead == ()
    [stream] = standings([result(specs["er", 0], 0.2, 0.2), result(specs["uer", 1], 0.3, 0.3)])
    assert stream.verdicts() == []
    assert standings([result(specs["er", 0])])[0].verdicts() == []


def test_who_is_ahead_of_uer_is_taken_seed_by_seed():
    levels = {("uer", 0): 0.2, ("uer", 1): 0.3, ("er", 0): 0.24, ("lucir", 0): 0.21, ("lucir", 1): 0.28}
    [stream] = standings([result(spec_of(method, seed=seed), *2 * [at]) for (method, seed), at in levels.items()])
    first = stream.verdicts()[0]
    assert (first.uer.mean, first.best, first.other.mean) == (pytest.approx(25), "LUCIR", pytest.approx(24.5))
    assert first.gap.mean == pytest.approx(0.5)  # over both seeds; ER, the best of seed 0, has only that one
    assert first.ahead == ("ER",)
    assert stream.behind() == [(stage, ("ER",)) for stage in (1, 2, 3)]


def test_the_paper_s_best_row_of_a_table_may_not_be_ours():
    item = select(load_item("table1"), 1)
    levels = {"er": 0.2, "scored(learn='cos', replay='cos')": 0.3, "uer_a": 0.25}
    results = [result(spec, *2 * [levels[spec.method]]) for spec in item.specs if spec.method in levels]
    best, above = rows_above_best(Rendering(item, results).compared[0])
    assert (best.method, [row.name for row, _ in above]) == ("uer_a", ["4: cos, cos, dot"])
    assert above[0][1] == pytest.approx(5)
    assert rows_above_best(Rendering(item, [one for one in results if one.spec.method == "er"]).compared[0]) is None


@pytest.fixture(scope="module")
def committed():
    """The items from the committed records, and the committed findings."""
    found = parse_findings(grid.read_toml(reproduction.FINDINGS, "list of findings"))
    return reproduction.renderings(reproduction.RECORDS), found


def test_every_finding_is_about_a_row_that_differs(committed):
    items, found = committed
    flagged = [row for rendering in items for row in rendering.flagged]
    assert [finding for finding in found.finding if not any(map(finding.about, flagged))] == []
    unexplained = [row for row in flagged if not any(finding.about(row) for finding in found.finding)]
    assert reproduction.PAGE.read_text().count(reproduction.UNEXPLAINED) == len(unexplained)


def test_the_page_of_the_docs_is_that_of_the_committed_records(committed):
    items, found = committed
    page = reproduction.text(items, reproduction.averaged(reproduction.RECORDS), "reproduction", found)
    assert reproduction.PAGE.read_text() == page, "run: python scripts/reproduction.py"
    assert {path.stem for path in reproduction.PAGE.with_suffix("").glob("*.svg")} == {
        rendering.item.slug for rendering in items if rendering.drawable
    }
