import dataclasses
import json
import os
import shlex

import pytest

from evenhand import errors, metrics
from evenhand.cli import app, tables
from evenhand.cli.tune import tuning_table
from evenhand.core import registry
from evenhand.experiment.engine.queue import Failure
from evenhand.experiment.search.axis import Axis
from evenhand.experiment.search.tune import Point, Stopped, Tuning, best, spelled
from evenhand.experiment.spec import Spec
from experiment.searches import FIELDS, besides, made_up, real, records, sealed, tuning_of

# What is searched -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "values", "spec"),
    [
        ("uer", {"alpha": 0.3}, {"method": "uer(alpha=0.3)"}),
        ("uer", {"alpha": 0.5}, {"method": "uer"}),
        ("uer(alpha=0.9)", {"lr": 0.2}, {"method": "uer(alpha=0.9)", "lr": 0.2}),
        ("mir+uer", {"alpha": 1}, {"method": "mir+uer(alpha=1.0)"}),
        ("mir(candidates=9)+uer", {"uer.alpha": 0.3}, {"method": "mir(candidates=9)+uer(alpha=0.3)"}),
        ("mir+uer", {"candidates": 20, "alpha": 0.3}, {"method": "mir(candidates=20)+uer(alpha=0.3)"}),
        ("uer", {"couple": "neck", "neck": True}, {"method": "uer(couple='neck')", "neck": True}),
        ("er", {"replay": 5, "memory": 30, "augment": "scr"}, {"replay": 5, "memory": 30, "augment": "scr"}),
        (
            "er",
            {"backbone": "mlp(hidden=4)", "passes": "separate"},
            {"backbone": "mlp(hidden=4)", "passes": "separate"},
        ),
    ],
)
def test_values_reach_the_method_or_the_run(method, values, spec):
    tuning = Tuning(method, [Axis(name, (value,)) for name, value in values.items()], besides(values), seeds=2)
    expected = {**FIELDS, "method": method, "tested": "validation", **spec}
    assert tuning.specs(values) == [Spec.make(**expected, seed=seed) for seed in (0, 1)]
    assert tuning.specs(values, "test") == [Spec.make(**{**expected, "tested": "test"}, seed=seed) for seed in (0, 1)]


@pytest.mark.parametrize(
    ("method", "axes", "sentence"),
    [
        ("uerr", ["alpha=0,1"], "There is no method called 'uerr'. Did you mean uer"),
        ("uer+uer", ["alpha=0,1"], "'uer+uer' cannot be composed"),
        ("uer", [], "Name at least one --field to search"),
        ("uer", ["lr=1,2", "lr=3,4"], "Each --field can be given only once."),
        ("uer", ["alpah=0,1"], "There is no field to search called 'alpah'. Did you mean alpha"),
        ("uer", ["candidates=5"], "There is no field to search called 'candidates'. Available: alpha, augment"),
        ("mir+uer", ["mir.alpha=0,1"], "There is no field to search called 'mir.alpha'. Did you mean uer.alpha"),
        ("uer", ["er.alpha=0,1"], "There is no field to search called 'er.alpha'"),
        ("uer", ["alpha=0.5,2"], "The 'alpha' parameter of uer must be a number in [0, 1]. Got 2.0 instead."),
        ("uer", ["alpha=0:2"], "must be a number in [0, 1]"),
        ("uer", ["alpha=0,high,1"], "The 'alpha' parameter of uer must be a number in [0, 1]. Got 'high' instead."),
        ("uer", ["alpha=nan"], "A name must look like"),
        ("uer", ["lr=0.1", "memory=10,-1,20"], "The 'memory' of a run must be a whole number of at least 0. Got -1"),
        ("uer", ["lr=0:1"], "The 'lr' of a run must be a number above 0"),
        ("uer", ["backbone=mlp,mpl,small_cnn"], "There is no backbone called 'mpl'"),
        ("uer", ["neck=maybe"], "The 'neck' of a run must be True or False"),
        *(("uer", [f"{name}=1,2"], f"'{name}' defines what is measured") for name in ("seed", "stages", "imbalance")),
        ("uer", ["tested=test,validation"], "'tested' defines what is measured, so it cannot be searched."),
        ("gss", ["size=5,10"], "so it cannot be searched. For the parameter of gss, write gss.size."),
        (
            "uer+ema",
            ["zz=1"],
            "by_row, couple, decay, ema.by_row, ema.decay, iterations, keep_partial, lr, memory, neck",
        ),
        ("uer+ema", ["ema.method=1"], "There is no field to search called 'ema.method'."),
        ("uer", ["data=fashion-cut"], "'data' defines what is measured"),
        ("uer", ["order=iid"], "'order' defines what is measured"),
        ("uer", ["method=er,uer"], "'method' defines what is measured"),
        ("uer", ["preset=paper"], "There is no field to search called 'preset'"),
        ("uer(alpha=0.3)", ["alpha=0,1"], "'alpha' is both fixed and searched. Remove one of the two."),
        ("mir+uer(alpha=0.3)", ["candidates=20,30", "uer.alpha=0,1"], "'uer.alpha' is both fixed and searched."),
    ],
)
def test_a_mistake_is_named_before_anything_runs(method, axes, sentence):
    with pytest.raises(errors.InputError) as caught:
        tuning_of(method, *axes)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("method", "text", "values"),
    [
        ("uer", "alpha=0:1", (0.0, 0.25, 0.5, 0.75, 1.0)),
        ("uer", "alpha=0:1:11", tuple(i / 10 for i in range(11))),
        ("mir+uer", "uer.alpha=0:1:3", (0.0, 0.5, 1.0)),
        ("uer", "lr=1:2", (1.0, 1.25, 1.5, 1.75, 2.0)),
        ("uer", "replay=1:3:9", (1, 2, 3)),
        ("uer", "memory=10:1000:3:log", (10, 100, 1000)),
        ("mir+uer", "candidates=10:13", (10, 11, 12, 13)),
        ("mir+uer", "mir.candidates=10:1000:3:log", (10, 100, 1000)),
        ("uer", "alpha=0,1", (0, 1)),
    ],
)
def test_a_range_is_whole_where_its_field_is(method, text, values):
    [axis] = tuning_of(method, text).axes
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("method", "text", "sentence"),
    [
        ("uer", "replay=1.5:3", "The 'replay' of a run must be a whole number of at least 1"),
        ("mir", "candidates=10:20.5", "The 'candidates' parameter of mir must be a whole number"),
    ],
)
def test_a_whole_field_has_no_other_ends(method, text, sentence):
    with pytest.raises(errors.InputError, match=sentence):
        tuning_of(method, text)


def test_seeds_and_presets_are_checked_as_well():
    with pytest.raises(errors.InputError, match=r"number of --seeds must be a whole number in \[1, 100000\]"):
        tuning_of("uer", "lr=0.1,0.2", seeds=0)
    with pytest.raises(errors.InputError, match="no preset called 'papr'"):
        tuning_of("uer", "lr=0.1,0.2", preset="papr")


def test_of_two_parts_with_the_same_parameter_one_must_be_named(monkeypatch):
    def shy(alpha: float = 0.5):
        return registry.resolve(f"mir(candidates={round(100 * alpha)})")

    recipe = dataclasses.replace(registry.recipes()["mir"], name="shy", build=shy)
    monkeypatch.setitem(registry._recipes, "shy", recipe)
    with pytest.raises(errors.InputError, match="Several parts of shy.uer have a 'alpha'. Name one, e.g. shy.alpha."):
        tuning_of("shy+uer", "alpha=0.1,0.2")
    chosen = tuning_of("shy+uer", "uer.alpha=0.1,0.2").specs({"uer.alpha": 0.1, "shy.alpha": 0.4})
    assert [spec.method for spec in chosen] == ["shy(alpha=0.4)+uer(alpha=0.1)"]


# Searching ------------------------------------------------------------------------------------------------------------


def test_a_grid_tries_every_combination_at_once_and_finds_the_best():
    tuning = tuning_of("uer", "alpha=0.1,0.3,0.9", "lr=0.01:0.1:2", seeds=2)
    engine = made_up(lambda spec: (spec.lr == 0.1) - abs(spec.resolved.scoring.replay.dot - 0.3) + 0.02 * spec.seed)
    points = list(tuning.grid(engine))
    assert [tuple(point.values.values()) for point in points] == [
        (alpha, lr) for alpha in (0.1, 0.3, 0.9) for lr in (0.01, 0.1)
    ]
    assert len(made_up.asked) == len(set(made_up.asked)) == 12
    assert {spec.tested for spec in made_up.asked} == {"validation"}
    choice = best(points)
    assert choice.values == {"alpha": 0.3, "lr": 0.1}
    assert choice.accuracies == pytest.approx((1, 1.02))
    told = choice.fields()
    assert told["accuracy"] == pytest.approx(1.01)
    assert told["interval"] == pytest.approx(metrics.interval([1, 1.02]))
    assert (told["seeds"], told["given_up"], told["diverged"], told["values"]) == (2, None, False, choice.values)


def test_a_grid_of_too_many_runs_is_refused():
    tuning = tuning_of("uer", "alpha=0:1:1000", "lr=0.01:0.1:101")
    with pytest.raises(errors.InputError, match="A search must have at most 100000 runs. Got 101000 instead."):
        next(tuning.grid(made_up(lambda _: 0.5)))


def test_of_equal_points_the_first_is_chosen_and_of_those_given_up_or_diverged_none():
    points = [Point({"lr": lr}, (0.5,)) for lr in (1, 2, 3)]
    assert best(points) is points[0]
    early = Point({"lr": 0}, (0.9,), given_up=1)
    lost = Point({"lr": 9}, (0.9,), diverged=True)
    assert best([early, lost, *points]) is points[0]
    for none in ([early], [lost], [lost, early]):
        with pytest.raises(errors.RunError, match="All points diverged or were given up."):
            best(none)


@pytest.mark.parametrize("cause", ["mistake", "fault", "lost", "busy"])
def test_a_run_that_failed_is_a_sentence_with_its_values(cause):
    def engine(specs, until):
        good = made_up(lambda _: 0.5)(specs, until)
        return [good[0], Failure(specs[1], cause, "The loss is no longer finite."), *good[2:]]

    tuning = tuning_of("er", "lr=0.1,100,0.2")
    with pytest.raises(errors.RunError) as caught:
        list(tuning.grid(engine))
    key = tuning.specs({"lr": 100})[0].key
    expected = f"The search stopped, as {key} with lr = 100 failed. The loss is no longer finite."
    assert str(caught.value) == expected


def test_a_search_on_real_images_goes_on_where_it_was_stopped(tmp_path):
    tuning = tuning_of("er", "lr=0.0001,0.05,0.02", stages=2)
    whole = list(tuning.grid(real(tmp_path / "whole")))
    assert best(whole).values == {"lr": 0.05}
    assert whole[1].accuracy > whole[0].accuracy + 0.1
    steps = iter(range(120))  # of 3 times 90
    with pytest.raises(Stopped, match="Stopped at step 31 of 90; the state is saved."):
        list(tuning.grid(real(tmp_path / "parts", stop=lambda: next(steps, None) is None)))
    assert list(tuning.grid(real(tmp_path / "parts"))) == whole
    assert records(tmp_path / "parts") == records(tmp_path / "whole")


def test_a_search_made_again_runs_nothing_again(tmp_path, monkeypatch):
    tuning = tuning_of("er", "replay=5,10", stages=2, seeds=2)
    points = list(tuning.grid(real(tmp_path)))
    assert len(set(points[0].accuracies)) == 2
    monkeypatch.setattr("evenhand.experiment.run.build", lambda *_: pytest.fail("ran again"))
    assert list(tuning.grid(real(tmp_path))) == points


def test_a_point_that_diverges_is_the_worst_and_does_not_end_the_search(tmp_path):
    tuning = tuning_of("er", "lr=0.1,1e30", stages=2)
    good, bad = tuning.grid(real(tmp_path))
    assert bad.accuracy == 0 < good.accuracy
    assert (good.diverged, bad.diverged) == (False, True)
    assert best([bad, good]) is good


def test_a_point_that_diverges_with_one_seed_is_not_chosen():
    def engine(specs, until):
        good = made_up(lambda _: 0.5)(specs, until)
        return [*good[:3], Failure(specs[3], "diverged", "The loss became nan.")]

    good, bad = tuning_of("er", "lr=0.1,0.2", seeds=2).grid(engine)
    assert (good.diverged, good.accuracies) == (False, (0.5, 0.5))
    assert bad.diverged
    told = bad.fields()
    assert (told["diverged"], told["accuracy"], told["interval"], told["seeds"]) == (True, None, None, 2)


def test_no_search_touches_a_test_sample(tmp_path, monkeypatch):
    tuning = tuning_of("uer", "alpha=0.3,0.7", stages=2, augment="scr")
    open_eyed = list(tuning.grid(real(tmp_path / "open")))
    touched = sealed(monkeypatch)
    assert list(tuning.grid(real(tmp_path / "sealed"))) == open_eyed
    assert touched == []
    [spec] = tuning.specs({"alpha": 0.3}, tested="test")
    [outcome] = real(tmp_path / "sealed")([spec], None)
    assert outcome.cause == "fault"
    assert "a test sample was touched" in outcome.message
    assert touched


# On the command line --------------------------------------------------------------------------------------------------


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        app.main(["tune", *arguments, "--backbone", "mlp(hidden=8)", "--memory", "20", "--engine", "inline"])
    told = capsys.readouterr()
    return end.value.code or 0, told.out, told.err


def test_what_diverged_is_marked_and_not_chosen(capsys, tmp_path):
    few = ["--stages", "1", "--batch", "200", "--root", str(tmp_path)]
    code, out, _ = call(capsys, "er", "--field", "lr=1e30,0.05", *few)
    assert code == 0
    assert "Chosen by validation accuracy: lr = 0.05." in out
    assert [line.strip("│ ").split("│")[-1].strip() for line in out.splitlines() if "1e+30" in line] == ["diverged"]
    code, out, _ = call(capsys, "er", "--field", "lr=1e30,0.05", *few, "--json")
    document = json.loads(out)
    assert (code, document["choice"]) == (0, {"lr": 0.05})
    assert [point["diverged"] for point in document["points"]] == [True, False]
    code, out, err = call(capsys, "er", "--field", "lr=1e30,2e30", *few)
    assert (code, out) == (2, "")
    assert "All points diverged or were given up. Try other values." in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--trials", "5"], "--trials applies only to --search optuna: a grid tries every combination."),
        (
            ["--search", "grid", "--trials", "20"],
            "--trials applies only to --search optuna: a grid tries every combination.",
        ),
        (
            ["--search", "optuna", "--field", "replay=1:9:3"],
            "Optuna may propose any value in a range. Remove the number of points from 'replay'.",
        ),
        (["--lr", "0.3"], "'lr' is both fixed and searched. Remove one of the two."),
    ],
)
def test_options_that_do_not_apply_to_a_search_are_errors(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setattr("evenhand.experiment.engine.dispatch.run_all", lambda *_, **__: pytest.fail("ran"))
    code, out, err = call(capsys, "er", "--field", "lr=0.1:0.2", *arguments, "--root", str(tmp_path))
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_the_help_says_which_ranges_are_whole(capsys):
    with pytest.raises(SystemExit):
        app.main(["tune", "--help"])
    assert "Of a setting that takes whole numbers, such as replay, only whole values" in " ".join(
        capsys.readouterr().out.replace("│", " ").split()
    )


# The final test -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "axes", "fields"),
    [
        ("uer", ["alpha=0.1:0.9"], {}),
        ("mir+uer(couple='neck')", ["uer.alpha=0.1,0.3", "candidates=20,30"], {"neck": True, "seeds": 3}),
        ("er", ["lr=0.00001:0.3:log", "neck=false,true"], {"order": "blurry(blur=20)", "imbalance": 2.0}),
        ("er", ["augment=none,scr", "memory=10,20"], {"preset": "paper", "stages": 5, "views": "concat"}),
        ("er", ["passes=joint,separate"], {"data": "folder:/a b/c's", "size": 16, "skip_bad": True}),
        ("er", ["backbone=mlp,reduced_resnet18(width=8)"], {"neck": False, "preset": "plain"}),
    ],
)
def test_the_command_tests_the_choice(method, axes, fields, monkeypatch, tmp_path):
    monkeypatch.setenv("EVENHAND_DATA", "")
    fields = dict(fields)
    seeds, preset = fields.pop("seeds", 1), fields.pop("preset", None)
    axes = [Axis.parse(text) for text in axes]
    point = Point({axis.name: axis.values[-1] for axis in axes}, (0.5,) * seeds)
    if "views" in fields:
        axes = [dataclasses.replace(axis, values=axis.values[1:]) for axis in axes]
    tuning = Tuning(method, axes, fields, preset=preset, seeds=seeds)
    asked = []

    def note(execution, specs, root, **_):
        asked.append((specs, root, execution.changed()))
        return []

    monkeypatch.setattr("evenhand.cli.options.Execution.run", note)
    monkeypatch.setattr("evenhand.cli.prepare.load_dataset", lambda *_: None)
    conditions = {"threads": 1, "precision": "bf16"}
    words = shlex.split(tuning.command(point, tmp_path / "my runs", tmp_path, **conditions))
    assert words[0] == "evenhand"
    with pytest.raises(SystemExit) as end:
        app.main(words[1:])
    assert end.value.code in (0, None)
    assert asked == [(tuning.specs(point.values, tested="test"), tmp_path / "my runs", conditions)]
    assert os.environ["EVENHAND_DATA"] == str(tmp_path)
    assert "--data-dir" not in tuning.command(point, tmp_path)


def test_the_table_marks_the_choice_and_compares_what_is_comparable(capsys):
    points = [
        Point({"backbone": "mlp[/x]"}, (0.2, 0.3)),
        Point({"backbone": "b"}, (0.95, 0.97), given_up=1),
        Point({"backbone": "c"}, (0.45, 0.45)),
        Point({"backbone": "d"}, (0.35, 0.35)),
        Point({"backbone": "e"}, (0.0, 0.0), diverged=True),
    ]
    tables.stdout().print(tuning_table([point.fields() for point in points], 2))
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    first, given_up, chosen, last, diverged = ([cell.strip() for cell in row.strip("│").split("│")] for row in rows)
    assert first == ["mlp[/x]", "25.0", f"± {100 * metrics.interval([0.2, 0.3]):.1f}", "2", "", "█" * 4]
    assert given_up == ["b", "-", "-", "2", "given up at stage 1 with 96.0", ""]
    assert chosen == ["c", "45.0", "± 0.0", "2", "chosen", "█" * 16]
    assert last[-1] == "█" * 10
    assert diverged == ["e", "-", "-", "2", "diverged", ""]


def test_a_point_in_words():
    assert spelled({"alpha": 0.3, "lr": 0.1}) == "alpha = 0.3, lr = 0.1"
    assert str(Point({"lr": 0.1}, (0.5, 0.6))) == "lr = 0.1: accuracy 55.0 %"
    assert str(Point({"lr": 0.1}, (0.5,), 2)) == "lr = 0.1: accuracy 50.0 %, given up at stage 2"
    assert str(Point({"lr": 9}, (0.0,), diverged=True)) == "lr = 9: diverged"
