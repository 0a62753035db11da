import math
from dataclasses import replace

import pytest

from evenhand import errors
from evenhand.experiment.grid import parse as grid
from evenhand.experiment.trainings import Archive, alike
from evenhand.paper import Rendering, load_item, select, steps
from evenhand.paper.comparison import largest_difference
from evenhand.paper.definitions import parse_definition
from evenhand.paper.measures import MEASURES
from evenhand.paper.selection import with_tests
from paper.made import result, spec_of, write

TABLE = select(load_item("table2"), datasets=["cifar100"], memory=[1000], methods=["er", "uer"])
STAGES = {"stages": 2, "memory": 5000, "tests": "cos, dot"}


def runs(method, accuracies):
    """Finished runs of Table 2 that end with these accuracies."""
    specs = [spec for spec in TABLE.specs if (spec.method, spec.order) == (method, "classes")]
    return [result(spec, level, level) for spec, level in zip(specs, accuracies, strict=False)]


def row_of(rendering, name):
    return next(row for row in rendering.rows if row.name == name)


def test_the_bound_is_two_standard_errors_of_the_difference():
    deviation = 0.9 * math.sqrt(10) / 2.262
    assert largest_difference(0.9, 2) == pytest.approx(2 * deviation * math.sqrt(1 / 2 + 1 / 10), rel=1e-4)
    assert largest_difference(0.9, 10) < largest_difference(0.9, 2) < largest_difference(1.8, 2)


@pytest.mark.parametrize(("off", "flagged"), [(-1.94, False), (-1.96, True), (1.94, False), (1.96, True)])
def test_a_row_is_flagged_beyond_the_bound_and_not_before(off, flagged):
    level = (17.6 + off) / 100  # ER's published 17.6 ± 0.9 with two seeds: 1.949
    row = row_of(Rendering(TABLE, runs("er", [level - 0.01, level + 0.01])), "ER")
    assert row.flagged is flagged
    assert row.difference == pytest.approx(off)
    assert row.seeds == (0, 1)
    assert row.interval == pytest.approx(12.7062, rel=1e-4)  # t of one degree of freedom times 1 / sqrt(2) * sqrt(2)


def test_what_has_not_been_run_is_there_and_is_never_flagged():
    rendering = Rendering(TABLE, runs("er", [0.1]))
    row = row_of(rendering, "UER")
    assert (row.paper, row.paper_interval, row.ours, row.difference, row.flagged) == (24.6, 0.8, None, None, None)
    assert [table.title for table in rendering.compared if table.has_runs] == ["Split CIFAR100, |M| = 1000"]
    assert [row.name for row in rendering.flagged] == ["ER"]
    assert rendering.progress == "1 of 20 runs finished."


def test_measures_are_those_of_the_last_stage():
    made = result(spec_of(stages=3), previous=0.2, current=0.5, tilt=0.5)  # 4 previous classes, 2 current ones
    found = {name: kind.value(made) for name, kind in MEASURES.items() if kind.value}
    assert found["accuracy"] == pytest.approx(30)
    assert (found["previous"], found["current"]) == pytest.approx((20, 50))
    assert (found["norm_previous"], found["norm_current"]) == (1, 1.5)
    assert (found["bias_previous"], found["bias_current"]) == (-0.5, 0.5)
    assert (found["mean_previous"], found["mean_current"]) == pytest.approx((0.015, 0.045))
    assert (found["spread_previous"], found["spread_current"]) == pytest.approx((0.01118, 0.005), rel=1e-3)
    assert found["forgetting"] == pytest.approx((0.3 + 0.3) / 2 * 100)
    assert MEASURES["norm_previous"].value(result(spec_of(order="iid", stages=1))) is None


def test_every_row_and_measure_of_table_1_finds_its_own_run():
    item = select(load_item("table1"), seeds=1)
    results = [result(spec, 0.01 * place, 0.02 * place) for place, spec in enumerate(item.settings(), 1)]
    rendering = Rendering(item, results[::-1])
    assert len(rendering.compared) == 11
    for table in rendering.compared[1:3]:
        factor = 1 if "previous" in table.title else 2
        assert [row.ours for row in table.rows] == pytest.approx([factor * place for place in range(1, 9)])
    assert all(row.flagged is None for row in rendering.rows)  # no interval printed


def test_rows_of_table_1_that_train_alike_share_a_run(tmp_path):
    item = select(load_item("table1"), seeds=1)
    trained = ["er", "lucir", "scored(replay='cos')", "uer_a"]
    assert [spec.method for spec in item.runs] == trained
    assert item.missing(Archive([tmp_path])) == item.runs
    for place, spec in enumerate(item.runs, 1):
        write(tmp_path, spec, 0.01 * place, 0.02 * place, otherwise=[0.1 * place, 0.2 * place])
    assert item.missing(Archive([tmp_path])) == []
    found = item.results(Archive([tmp_path]))
    assert [one.spec for one in found] == list(item.specs)
    ends = {one.spec.method: one.accuracy[-1] for one in found}
    assert [ends[method] for method in trained] == [[0.01 * place, 0.02 * place] for place in range(1, 5)]
    others = ("scored(test='cos')", "scored(learn='cos', replay='cos')")
    others += ("scored(replay='cos', test='cos')", "scored(learn='cos', test='cos')")
    assert [ends[method] for method in others] == [[0.1 * place, 0.2 * place] for place in range(1, 5)]
    assert Rendering(item, found).progress == "4 of 4 runs finished."
    assert {len(group) for group in alike(load_item("table2").specs)} == {1}


def test_a_row_of_table_1_alone_takes_the_run_of_the_one_that_trains_alike(tmp_path):
    alone = select(load_item("table1"), seeds=1, methods=["scored(test='cos')"])
    [made] = alone.missing(Archive([tmp_path]))
    assert made.method == "scored(test='cos')"
    assert alone.results(Archive([tmp_path])) == []
    write(tmp_path, spec_of("er", **STAGES), 0.1, 0.2, otherwise=[0.3, 0.4])
    assert alone.missing(Archive([tmp_path])) == []
    [found] = alone.results(Archive([tmp_path]))
    assert (found.spec, found.accuracy[-1]) == (alone.specs[0], [0.3, 0.4])


def test_further_tests_are_rows_of_the_same_runs(tmp_path):
    item = with_tests(select(load_item("table2"), 1, ["cifar100"], [1000], ["er", "uer"]), "ema, ema+ncm")
    assert [(run.method, run.tests) for run in item.missing(Archive([tmp_path]))] == [
        ("er", "ema, ema+ncm"),
        ("uer", "ema, ema+ncm"),
    ]
    [plain, *_] = item.specs
    write(tmp_path, plain, 0.1, 0.2)
    rendering = Rendering(item, item.results(Archive([tmp_path])))
    assert [(row.name, row.ours is None) for row in rendering.rows] == [
        ("ER", False), ("ER + EMA", True), ("ER + EMA + NCM", True),
        ("UER", True), ("UER + EMA", True), ("UER + EMA + NCM", True),
    ]  # fmt: skip
    assert rendering.progress == "0 of 2 runs finished."  # ER was not tested with averaged weights
    with pytest.raises(errors.InputError, match="There is no test called 'uer'"):
        with_tests(item, "uer")


def test_rows_of_further_tests_are_named_like_the_paper_s():
    item = with_tests(select(load_item("table2"), 1, ["cifar100"], [1000], ["er", "finetune", "iid", "iid++"]), "ema")
    compared = {row.name: row.memory for row in Rendering(item, []).rows}
    assert {"ER + EMA", "FINE-TUNE + EMA", "IID + EMA", "IID++ + EMA"} <= set(compared)
    assert {name for name, memory in compared.items() if memory is None} == {
        *("FINE-TUNE", "IID", "IID++"),
        *("FINE-TUNE + EMA", "IID + EMA", "IID++ + EMA"),
    }


def test_what_should_not_be_averaged_without_a_word():
    item = select(load_item("table2"), 2, ["cifar100"], [1000], ["er"])
    one, two = (result(spec) for spec in item.specs)

    def said(first, second):
        runs = [replace(one, environment=first), replace(two, environment=second)]
        return Rendering(item, runs).progress.removeprefix("2 of 2 runs finished.").strip()

    assert said({"data": "a"}, {"precision": "fp32"}) == ""
    assert said({}, {"precision": "bf16"}) == "1 of these 2 in bf16, the others in fp32."
    assert said({"data": "a"}, {"data": "b"}).startswith("Not all runs on cifar100 saw the same images")


def test_runs_that_train_and_are_tested_alike_answer_for_each_other(tmp_path):
    for tests in ("", "dot, cos"):
        pair = [spec_of(name, tests=tests) for name in ("uer_a", "uer(alpha=1)")]
        write(tmp_path, pair[0], 0.1, 0.3, otherwise=[0.9, 0.9, 0.9] if tests else None)
        archive = Archive([tmp_path])
        assert [archive.find(spec).tested_as(spec).accuracy[-1][-1] for spec in pair] == [0.3, 0.3]


def test_settings_that_the_paper_would_call_alike_are_told_apart():
    content = {"title": "Own", "methods": ["er", "uer", "uer(alpha=0.3)"], "lr": [0.1, 0.01], "seeds": 2}
    item = parse_definition(content, "own")
    names = [row.name for row in Rendering(item, []).rows]
    assert names == [
        "er lr 0.1", "er lr 0.01", "uer lr 0.1", "uer lr 0.01", "uer(alpha=0.3) lr 0.1", "uer(alpha=0.3) lr 0.01",
    ]  # fmt: skip
    single = parse_definition({**content, "lr": 0.1, "methods": ["er", "uer"]}, "own")
    assert [row.name for row in Rendering(single, []).rows] == ["ER", "UER"]


def test_rows_of_steps_come_from_what_was_counted_and_timed():
    item = load_item("table3")
    rendering = Rendering(item, [], {"obc": {"c_d": 7 / 6, "time": 1.58}, "er": {"c_d": 1.0}})
    cells = {(row.name, row.measure): row.ours for row in rendering.rows}
    assert cells["OBC", "c_d"] == pytest.approx(7 / 6)
    assert cells["OBC", "time"] == 1.58
    assert cells["ER", "time"] is cells["UER", "c_d"] is None


def test_a_record_of_the_benchmark_is_read_and_a_wrong_one_refused(tmp_path):
    path = tmp_path / steps.STEPS_FILE
    assert steps.recorded_steps([tmp_path]) == {}
    path.write_text(
        '{"methods": {"er": {"c_d": 1, "time": {"median": 1.0, "low": 0.9, "high": 1.2}, "documented": 1}}}'
    )
    assert steps.recorded_steps([tmp_path / "none", tmp_path]) == {
        "er": {"c_d": 1.0, "time": 1.0, "time_low": 0.9, "time_high": 1.2}
    }
    path.write_text('{"steps": {}}')
    with pytest.raises(Exception, match="table3.json is not a record of evenhand bench"):
        steps.recorded_steps([tmp_path])


def test_c_d_is_counted_by_operations():
    counted = steps.counted_steps(["finetune", "er"])
    assert counted == {"finetune": {"c_d": pytest.approx(0.5, rel=0.01)}, "er": {"c_d": 1.0}}


def test_the_first_folder_that_has_a_run_counts(tmp_path):
    specs = [spec_of(seed=seed) for seed in range(3)]
    for folder, spec, level in (("a", specs[0], 0.1), ("b", specs[0], 0.9), ("b", specs[1], 0.3)):
        write(tmp_path / folder, spec, level, level)
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "none"]
    found = [Archive(folders).find(spec) for spec in specs]
    assert [one and one.accuracy[-1][0] for one in found] == [0.1, 0.3, None]
    assert Archive([]).find(specs[0]) is None


def test_points_of_a_figure_are_means_over_seeds_in_its_own_order():
    fields = {"methods": ["uer", "er"], "memory": 50, "seeds": 2, "stages": 3, "backbone": "mlp"}
    item = parse_definition({"title": "Own", "kind": "figure", "draws": "balance", **fields}, "own")
    specs = grid(fields).specs
    results = [result(spec, 0.1 + 0.1 * spec.seed, 0.5 + 0.1 * spec.seed) for spec in reversed(specs)]
    both, previous, current = Rendering(item, results).panels
    assert [curve.name for curve in both.curves] == ["UER", "ER"]
    assert [point and point.mean for point in previous.curves[0].points] == [None, *[pytest.approx(15)] * 2]
    assert [point.mean for point in current.curves[1].points] == [pytest.approx(55)] * 3
    assert both.curves[0].points[2].mean == pytest.approx((15 + 55) / 2)
    assert current.fields()["curves"][0]["seeds"] == [2, 2, 2]
    assert Rendering(item, []).panels == []


def test_alpha_pairs_and_classes_are_drawn_where_they_belong():
    common = {"title": "Own", "kind": "figure", "memory": 50, "stages": 2, "backbone": "mlp"}
    names = ["uer_a", "uer(alpha=0.25)", "uer"]
    scale = parse_definition({**common, "draws": "scale", "methods": names}, "own")
    [panel] = Rendering(scale, [result(spec, 0.1 * i, 0.5) for i, spec in enumerate(scale.specs)]).panels
    assert panel.xs == (0.25, 0.5, 1.0)
    assert [point.mean for point in panel.curves[1].points] == pytest.approx([10, 20, 0])  # previous, by alpha
    pairs = parse_definition({**common, "draws": "improvement", "methods": ["mir+uer", "scr", "mir"]}, "own")
    mir, scr = Rendering(pairs, [result(spec) for spec in pairs.specs]).panels
    assert mir.title == "fashion-cut, |M| = 50: MIR"
    assert sorted(curve.name for curve in mir.curves) == ["+ UER", "plain"]
    assert [curve.name for curve in scr.curves] == ["plain"]
    analysis = parse_definition({**common, "draws": "analysis", "methods": ["er"]}, "own")
    change, _, norm, probability = Rendering(analysis, [result(analysis.specs[0], tilt=0.5)]).panels
    assert (norm.split, norm.xs) == (2, (1.0, 2.0, 3.0, 4.0))
    assert [point.mean for point in norm.curves[0].points] == [1, 1, 1.5, 1.5]
    assert [point.mean for point in probability.curves[0].points] == [25] * 4
    assert [point.mean for point in change.curves[0].points] == pytest.approx([0, 0.01, 0.02, 0.03])


def test_every_way_to_test_has_panels_of_its_own():
    common = {"title": "Own", "kind": "figure", "memory": 50, "stages": 2, "backbone": "mlp"}
    pairs = parse_definition({**common, "draws": "improvement", "methods": ["mir", "mir+uer"]}, "own")
    pairs = with_tests(pairs, "ema")
    drawn = Rendering(pairs, [result(spec) for spec in pairs.specs]).panels
    assert [panel.title for panel in drawn] == ["fashion-cut, |M| = 50: MIR", "fashion-cut, |M| = 50: MIR + EMA"]
    assert [[curve.name for curve in panel.curves] for panel in drawn] == [["plain", "+ UER"]] * 2
    scale = parse_definition({**common, "draws": "scale", "methods": ["uer_a", "uer"]}, "own")
    scale = with_tests(scale, "ema")
    level = {"uer": 0.1, "uer+ema": 0.2, "uer_a": 0.3, "uer_a+ema": 0.4}
    latest, averaged = Rendering(scale, [result(spec, level[spec.method]) for spec in scale.specs]).panels
    assert (latest.title, averaged.title) == ("fashion-cut, |M| = 50", "fashion-cut, |M| = 50: EMA")
    assert latest.xs == averaged.xs == (0.5, 1.0)
    assert [point.mean for point in latest.curves[1].points] == pytest.approx([10, 30])
    assert [point.mean for point in averaged.curves[1].points] == pytest.approx([20, 40])


def test_pairs_that_differ_in_more_than_uer_are_apart():
    fields = {"kind": "figure", "draws": "improvement", "memory": 50, "stages": 2, "backbone": "mlp"}
    item = parse_definition({"title": "Own", "methods": ["mir", "mir+uer"], "lr": [0.1, 0.2], **fields}, "own")
    drawn = Rendering(item, [result(spec) for spec in item.specs]).panels
    assert [panel.title for panel in drawn] == [f"fashion-cut, |M| = 50: mir lr {lr}" for lr in (0.1, 0.2)]
    assert [[curve.name for curve in panel.curves] for panel in drawn] == [["plain", "+ UER"]] * 2


def test_nothing_is_said_about_a_head_that_was_not_tested():
    expected = [{"method": "er", "norm_current": 2.0, "bias_current": 1.0, "accuracy": 50.0}]
    fields = {"methods": ["er"], "memory": 50, "stages": 2, "backbone": "mlp"}
    item = with_tests(parse_definition({"title": "Own", "expected": expected, **fields}, "own"), "ema, cos")
    tables = Rendering(item, [result(spec) for spec in item.specs]).compared
    ours = {(row.method, row.measure): row.ours for table in tables for row in table.rows}
    assert ours["er", "norm_current"] == ours["er+cos", "norm_current"] == 1.5
    assert ours["er+ema", "norm_current"] is ours["er+ema", "bias_current"] is None
    assert ours["er+ema", "accuracy"] == pytest.approx(30)
    analysis = parse_definition({"title": "Own", "kind": "figure", "draws": "analysis", **fields}, "own")
    analysis = with_tests(analysis, "ema, ncm")  # nearest class means use no head and have no probabilities
    *_, norm, probability = Rendering(analysis, [result(spec) for spec in analysis.specs]).panels
    assert [curve.name for curve in norm.curves] == ["ER"]
    assert [curve.name for curve in probability.curves] == ["ER", "ER + EMA"]
