import copy
import dataclasses
import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import cli, errors, metrics, registry, show
from evenhand.datasets import load
from evenhand.experiment import Result, Spec
from evenhand.experiment.axis import Axis
from evenhand.experiment.engine import Failure, How, attempt
from evenhand.experiment.folder import Folder
from evenhand.experiment.tune import Point, Stopped, Tuning, best, spelled
from evenhand.learner import Learner

FIELDS = {"backbone": "mlp(hidden=8)", "memory": 20, "batch": 50}


def tuning_of(method, *axes, **fields):
    seeds, preset = fields.pop("seeds", 1), fields.pop("preset", None)
    return Tuning(method, [Axis.parse(text) for text in axes], {**FIELDS, **fields}, seeds=seeds, preset=preset)


def made_up(accuracy):
    """An engine that runs nothing: each result has the accuracy that a function of its spec says."""

    def engine(specs, until):
        assert until is None
        made_up.asked += specs
        return [Result(spec, spec.key, [{"accuracy": [accuracy(spec)]}], (), 1.0, {}) for spec in specs]

    made_up.asked = []
    return engine


def real(root, stop=lambda: False):
    """The engine itself, one run after the other; it counts what it was asked for."""

    def engine(specs, until):
        engine.asked += [(spec, until) for spec in specs]
        outcomes = []
        for spec in specs:
            outcomes.append(attempt(spec, root, How(until=until), lambda _: None, stop))
            if isinstance(outcomes[-1], Failure) and outcomes[-1].cause == "stopped":
                break
        return outcomes

    engine.asked = []
    return engine


def stages_of(root):
    return sum(len((folder / "metrics.jsonl").read_text().splitlines()) for folder in root.iterdir())


def records(root):
    return {path.parent.name: path.read_bytes() for path in root.glob("*/metrics.jsonl")}


# What is searched -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("alpha=0.1:0.9", (0.1, 0.3, 0.5, 0.7, 0.9)),
        (" alpha = 0 : 1 : 3 ", (0, 1)),
        ("alpha=0:1.0:3", (0.0, 0.5, 1.0)),
        ("lr=0.001:0.1:3:log", (0.001, 0.01, 0.1)),
        ("lr=0.0001:1:log", (0.0001, 0.001, 0.01, 0.1, 1.0)),
        ("lr=1e-12:1e-8:3:log", (1e-12, 1e-10, 1e-8)),
        ("lr=5e-324:1e15:2:log", (5e-324, 1e15)),
        ("candidates=10:1000:3:log", (10, 100, 1000)),
        ("replay=1:3:9", (1, 2, 3)),
        ("x=-2:2", (-2, -1, 0, 1, 2)),
        ("x=0.12345678:0.5:2", (0.12345678, 0.5)),  # the ends are never rounded out of the range
        ("x=1.0000001:1.0000002", (1.0000001, 1.0000002)),
        ("candidates=25,50", (25, 50)),
        ("lr=0.1", (0.1,)),
        ("lr=0.1, 1e-2 ,0.1", (0.1, 0.01)),
        ("neck=true,False", (True, False)),
        ("augment=none,scr", ("none", "scr")),
        ("backbone=mlp(hidden=8, depth=2),small_cnn", ("mlp(hidden=8, depth=2)", "small_cnn")),
    ],
)
def test_axes(text, values):
    axis = Axis.parse(text)
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]
    assert axis.name == text.partition("=")[0].strip()
    assert (axis.low is None) == (":" not in text)
    assert axis.log == ("log" in text)
    assert axis.whole == all(type(value) is int for value in values)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "A --field must look like alpha=0.1:0.9 or replay=5,10,20. Got '' instead."),
        ("alpha", "A --field must look like"),
        ("=1,2", "A --field must look like"),
        ("alpha=", "A --field must look like"),
        ("alpha=1,,2", "The values of a --field must have commas between them only"),
        ("alpha=,", "The values of a --field must have commas"),
        ("alpha=0.1:", "The range of a --field must look like LOW:HIGH, LOW:HIGH:COUNT or LOW:HIGH:log"),
        ("alpha=a:b", "must look like LOW:HIGH"),
        ("alpha=nan:1", "must look like LOW:HIGH"),
        ("alpha=0:inf", "must look like LOW:HIGH"),
        ("alpha=true:2", "must look like LOW:HIGH"),
        ("alpha=0:1" + "0" * 400, "must look like LOW:HIGH"),
        ("alpha=0:1:log:3", "must look like LOW:HIGH"),
        ("alpha=0:1:3:4:log", "must look like LOW:HIGH"),
        ("alpha=0.9:0.1", "The range of a --field must rise. Got 'alpha=0.9:0.1' instead."),
        ("alpha=1:1", "must rise."),
        ("alpha=0:1:log", "must rise from above 0."),
        ("alpha=0:1:1", "The number of points of 'alpha' must be a whole number in [2, 1000]. Got 1 instead."),
        ("alpha=0:1:2.5", "must be a whole number in [2, 1000]. Got 2.5"),
        ("alpha=0:1:", "must be a whole number in [2, 1000]. Got ''"),
        ("alpha=0:1:1001", "must be a whole number in [2, 1000]"),
    ],
)
def test_a_wrong_axis_is_one_sentence(text, sentence):
    with pytest.raises(errors.InputError) as caught:
        Axis.parse(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def check_axis(text):
    try:
        axis = Axis.parse(text)
    except errors.InputError:
        return
    assert axis.values
    assert len(set(axis.values)) == len(axis.values)
    if axis.low is not None:
        assert axis.values[0] == axis.low
        assert axis.values[-1] == axis.high
        assert all(one < other for one, other in zip(axis.values, axis.values[1:], strict=False))


@given(st.text() | st.text("a=:.,-+e_019lognift٣²ru() \n", max_size=30).map("a=".__add__))
def test_any_text_is_an_axis_or_a_sentence(text):
    check_axis(text)


NUMBERS = st.one_of(st.integers(), st.floats(), st.integers(-5, 5), st.sampled_from([10**14, 10**400, 5e-324, 1e308]))


@given(NUMBERS, NUMBERS, st.integers(0, 30), st.booleans())
def test_any_range_goes_from_end_to_end(low, high, count, log):
    check_axis(f"a={low}:{high}:{count}{':log' * log}")


@pytest.mark.parametrize(
    ("method", "values", "spec"),
    [
        ("uer", {"alpha": 0.3}, {"method": "uer(alpha=0.3)"}),
        ("uer(alpha=0.9)", {"alpha": 0.3}, {"method": "uer(alpha=0.3)"}),
        ("uer(alpha=0.9)", {"alpha": 0.5}, {"method": "uer"}),
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
    tuning = Tuning(method, [Axis(name, (value,)) for name, value in values.items()], FIELDS, seeds=2)
    expected = {**FIELDS, "method": method, "tested": "validation", **spec}
    assert tuning.specs(values) == [Spec.make(**expected, seed=seed) for seed in (0, 1)]
    assert tuning.specs(values, "test") == [Spec.make(**{**expected, "tested": "test"}, seed=seed) for seed in (0, 1)]


@pytest.mark.parametrize(
    ("method", "axes", "sentence"),
    [
        ("uerr", ["alpha=0,1"], "There is no method called 'uerr'. Did you mean uer"),
        ("uer+uer", ["alpha=0,1"], "'uer+uer' cannot be composed"),
        ("uer", [], "Name at least one --field to choose"),
        ("uer", ["lr=1,2", "lr=3,4"], "Each --field can be searched once."),
        ("uer", ["alpah=0,1"], "There is no field to choose called 'alpah'. Did you mean alpha"),
        ("uer", ["candidates=5"], "There is no field to choose called 'candidates'. Known are: alpha, augment"),
        ("mir+uer", ["mir.alpha=0,1"], "There is no field to choose called 'mir.alpha'. Did you mean uer.alpha"),
        ("uer", ["er.alpha=0,1"], "There is no field to choose called 'er.alpha'"),
        ("uer", ["alpha=0.5,2"], "The 'alpha' parameter of uer must be a number in [0, 1]. Got 2.0 instead."),
        ("uer", ["alpha=0:2"], "must be a number in [0, 1]"),
        ("uer", ["alpha=0,high,1"], "The 'alpha' parameter of uer must be a number in [0, 1]. Got 'high' instead."),
        ("uer", ["alpha=nan"], "A name must look like"),
        ("uer", ["lr=0.1", "memory=10,-1,20"], "The 'memory' of a run must be greater than or equal to 0. Got -1"),
        ("uer", ["lr=0:1"], "The 'lr' of a run must be greater than 0"),
        ("uer", ["backbone=mlp,mpl,small_cnn"], "There is no backbone called 'mpl'"),
        ("uer", ["neck=maybe"], "The 'neck' of a run must be a valid boolean"),
        *(("uer", [f"{name}=1,2"], f"'{name}' says what is measured") for name in ("seed", "stages", "imbalance")),
        ("uer", ["tested=test,validation"], "'tested' says what is measured, and cannot be chosen by it."),
        ("uer", ["data=fashion-cut"], "'data' says what is measured"),
        ("uer", ["order=iid"], "'order' says what is measured"),
        ("uer", ["method=er,uer"], "'method' says what is measured"),
        ("uer", ["preset=paper"], "There is no field to choose called 'preset'"),
    ],
)
def test_a_mistake_is_named_before_anything_runs(method, axes, sentence):
    with pytest.raises(errors.InputError) as caught:
        tuning_of(method, *axes)
    assert sentence in str(caught.value)


def test_seeds_and_presets_are_checked_as_well():
    with pytest.raises(errors.InputError, match="number of --seeds must be a whole number of at least 1"):
        tuning_of("uer", "lr=0.1,0.2", seeds=0)
    with pytest.raises(errors.InputError, match="no preset called 'papr'"):
        tuning_of("uer", "lr=0.1,0.2", preset="papr")


def test_of_two_parts_with_the_same_parameter_one_must_be_named(monkeypatch):
    def shy(alpha: float = 0.5):
        return registry.resolve(f"mir(candidates={round(100 * alpha)})")

    recipe = dataclasses.replace(registry.recipes()["mir"], name="shy", build=shy)
    monkeypatch.setitem(registry._recipes, "shy", recipe)
    with pytest.raises(errors.InputError, match="Several parts of shy.uer have a 'alpha'. Say which, e.g. shy.alpha."):
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
    assert (told["seeds"], told["given_up"], told["values"]) == (2, None, choice.values)


def test_of_equal_points_the_first_is_chosen_and_of_those_given_up_none():
    points = [Point({"lr": lr}, (0.5,)) for lr in (1, 2, 3)]
    assert best(points) is points[0]
    early = Point({"lr": 0}, (0.9,), given_up=1)
    assert best([early, *points]) is points[0]
    with pytest.raises(errors.RunError, match="Every point was given up, so there is no choice."):
        best([early])


@pytest.mark.parametrize("cause", ["mistake", "fault", "lost", "busy"])
def test_a_run_that_failed_is_a_sentence_with_its_values(cause):
    def engine(specs, until):
        good = made_up(lambda _: 0.5)(specs, until)
        return [good[0], Failure(specs[1], cause, "The loss is no longer finite."), *good[2:]]

    tuning = tuning_of("er", "lr=0.1,100,0.2")
    with pytest.raises(errors.RunError) as caught:
        list(tuning.grid(engine))
    key = tuning.specs({"lr": 100})[0].key
    because = "failed, so there is no choice: The loss is no longer finite."
    assert str(caught.value) == f"The run {key} with lr = 100 {because}"


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
    monkeypatch.setattr("evenhand.experiment.runs.build", lambda *_: pytest.fail("ran again"))
    assert list(tuning.grid(real(tmp_path))) == points


def sealed(monkeypatch):
    """Let runs have data whose test images and labels nobody may look at."""
    touched = []

    class Sealed:
        def __getattribute__(self, name):
            touched.append(name)
            raise AssertionError("a test sample was touched")

        def __getitem__(self, rows):
            return self.anything

        def __len__(self):
            return self.anything

    data = copy.copy(load("fashion-cut"))
    object.__setattr__(data, "test_x", Sealed())
    object.__setattr__(data, "test_y", Sealed())
    monkeypatch.setattr("evenhand.experiment.runs.load", lambda *_, **__: data)
    return touched


def test_no_search_touches_a_test_sample(tmp_path, monkeypatch):
    tuning = tuning_of("uer", "alpha=0.3,0.7", stages=2, augment="scr")
    open_eyed = list(tuning.grid(real(tmp_path / "open")))
    touched = sealed(monkeypatch)
    assert list(tuning.grid(real(tmp_path / "sealed"))) == open_eyed
    assert touched == []
    [spec] = tuning.specs({"alpha": 0.3}, tested="test")
    [outcome] = real(tmp_path / "sealed")([spec], None)
    assert outcome.cause == "fault"
    assert "a test sample was touched" in outcome.sentence
    assert touched


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

    def note(specs, root, how, **_):
        asked.append((specs, root))
        return []

    monkeypatch.setattr("evenhand.experiment.engine.run_all", note)
    monkeypatch.setattr("evenhand.cli_options.prepare", lambda *_: None)
    words = shlex.split(tuning.command(point, tmp_path / "my runs", tmp_path))
    assert words[0] == "evenhand"
    with pytest.raises(SystemExit) as end:
        cli.main(words[1:])
    assert end.value.code in (0, None)
    assert asked == [(tuning.specs(point.values, tested="test"), tmp_path / "my runs")]
    assert cli.os.environ["EVENHAND_DATA"] == str(tmp_path)
    assert "--data-dir" not in tuning.command(point, tmp_path)


def test_the_table_marks_the_choice_and_compares_what_is_comparable(capsys):
    points = [
        Point({"backbone": "mlp[/x]"}, (0.2, 0.3)),
        Point({"backbone": "b"}, (0.95, 0.97), given_up=1),
        Point({"backbone": "c"}, (0.45, 0.45)),
        Point({"backbone": "d"}, (0.35, 0.35)),
    ]
    show.stdout().print(show.tuning_table([point.fields() for point in points], 2))
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    first, given_up, chosen, last = ([cell.strip() for cell in row.strip("│").split("│")] for row in rows)
    assert first == ["mlp[/x]", "25.0", f"± {100 * metrics.interval([0.2, 0.3]):.1f}", "2", "█" * 4]
    assert given_up == ["b", "-", "-", "2", "given up at stage 1, with 96.0 there"]
    assert chosen == ["c", "45.0", "± 0.0", "2", "█" * 24 + " chosen"]
    assert last[-1] == "█" * 14


def test_a_point_in_words():
    assert spelled({"alpha": 0.3, "lr": 0.1}) == "alpha = 0.3, lr = 0.1"
    assert str(Point({"lr": 0.1}, (0.5, 0.6))) == "lr = 0.1: accuracy 55.0 %"
    assert str(Point({"lr": 0.1}, (0.5,), 2)) == "lr = 0.1: accuracy 50.0 %, given up at stage 2"


# Optuna ---------------------------------------------------------------------------------------------------------------


class Staged:
    """An engine that writes records instead of running: the accuracy of each stage is a function of spec and stage."""

    def __init__(self, root, accuracy):
        self.root, self.accuracy, self.asked = root, accuracy, []

    def __call__(self, specs, until):
        self.asked += [(spec, until) for spec in specs]
        return [self.outcome(spec, until) for spec in specs]

    def outcome(self, spec, until):
        folder = Folder(self.root, spec)
        lines = [{"accuracy": [self.accuracy(spec, stage)] * stage} for stage in range(1, until + 1)]
        timing = [{"train_seconds": 1.0, "test_seconds": 1.0}] * until
        with folder.locked():
            folder.publish({"metrics": lines, "timing": timing})
            if until == spec.stages:
                folder.complete(environment={}, hardware={}, classes=[])
        return folder.result() or Failure(spec, "paused", f"Stage {until} has ended.")


@pytest.mark.slow
def test_optuna_proposes_within_the_ranges(tmp_path):
    axes = ["replay=2:9", "lr=1e-9:1e-7:log", "uer.alpha=0.3:0.31", "augment=none,crop", "iterations=1:64:log"]
    tuning = tuning_of("uer", *axes, stages=1)
    engine = Staged(tmp_path, lambda spec, _: spec.lr * 1e6)
    points = list(tuning.optuna(engine, tmp_path, 60, at_once=7))
    assert len(points) == 60
    columns = {name: [point.values[name] for point in points] for name in points[0].values}
    assert set(columns["replay"]) == set(range(2, 10))
    assert all(type(value) is int and 1 <= value <= 64 for value in columns["iterations"])
    assert all(1e-9 <= value <= 1e-7 for value in columns["lr"])
    assert any(value < 1e-8 for value in columns["lr"])
    assert len(set(columns["lr"])) > 30
    assert all(0.3 <= value <= 0.31 for value in columns["uer.alpha"])
    assert set(columns["augment"]) == {"none", "crop"}
    assert best(points).accuracy == max(columns["lr"]) * 1e6
    late, early = columns["lr"][30:], columns["lr"][:10]
    assert metrics.mean(late) > 1.5 * metrics.mean(early)  # it learns where it is good


@pytest.mark.slow
def test_optuna_gives_up_what_is_hopeless_at_the_end_of_a_stage(tmp_path):
    tuning = tuning_of("er", "lr=0.01:1.0", stages=4, seeds=2)
    engine = Staged(tmp_path, lambda spec, stage: spec.lr / 2 if stage >= 2 else 0.9)  # all begin alike, and well
    points = list(tuning.optuna(engine, tmp_path, 15))
    given_up = [point for point in points if point.given_up]
    assert len(given_up) >= 3
    assert {point.given_up for point in given_up} == {2}
    assert all(point.given_up is None for point in points[:5])
    for point in points:
        assert [len(Folder(tmp_path, spec).records()) for spec in tuning.specs(point.values)] == [
            point.given_up or 4
        ] * 2
        assert point.accuracy == pytest.approx(point.values["lr"] / 2)
    assert stages_of(tmp_path) == 2 * (15 * 4 - 2 * len(given_up))
    assert best(points).accuracy == max(point.accuracy for point in points)


@pytest.mark.slow
def test_a_search_by_optuna_on_real_images_saves_work_and_can_be_stopped(tmp_path, monkeypatch):
    tuning = tuning_of("er", "lr=0.000001:0.1:log")
    observed = []
    observe = Learner.observe
    monkeypatch.setattr(Learner, "observe", lambda *given, **more: observed.append(1) or observe(*given, **more))

    def search(root, stop=lambda: False):
        engine = real(root, stop)
        return list(tuning.optuna(engine, root, 12, at_once=2)), engine.asked

    points, asked = search(tmp_path / "whole")
    steps, full = len(observed), 12 * 90
    assert any(point.given_up for point in points)
    assert steps == 18 * stages_of(tmp_path / "whole") < full
    assert max(point.values["lr"] for point in points if point.given_up) < best(points).values["lr"]
    assert len(asked) == len(set(asked))

    observed.clear()
    for part in (100, 300, 250):
        left = iter(range(part))
        with pytest.raises(Stopped):
            search(tmp_path / "parts", stop=lambda: next(left, None) is None)  # noqa: B023
    resumed, _ = search(tmp_path / "parts")
    assert resumed == points
    assert best(resumed) == best(points)
    assert records(tmp_path / "parts") == records(tmp_path / "whole")
    assert len(observed) == steps  # no step was made twice
    again, asked = search(tmp_path / "parts")
    assert (again, asked) == (points, [])
    assert len(observed) == steps


@pytest.mark.slow
def test_optuna_touches_no_test_image_either(tmp_path, monkeypatch):
    tuning = tuning_of("er", "lr=0.000001:0.1:log")
    open_eyed = list(tuning.optuna(real(tmp_path / "open"), tmp_path / "open", 7))
    touched = sealed(monkeypatch)
    points = list(tuning.optuna(real(tmp_path / "sealed"), tmp_path / "sealed", 7))
    assert points == open_eyed
    assert any(point.given_up for point in points)
    assert touched == []
    [outcome] = real(tmp_path)(tuning.specs(points[0].values, tested="test"), 1)
    assert "a test sample was touched" in outcome.sentence


@pytest.mark.slow
def test_a_point_that_optuna_proposes_twice_runs_once(tmp_path):
    tuning = tuning_of("er", "replay=5,10", stages=3)
    engine = Staged(tmp_path, lambda spec, _: spec.replay / 20)
    points = list(tuning.optuna(engine, tmp_path, 9, at_once=3))
    assert len(points) == 9
    assert len(engine.asked) == len(set(engine.asked)) <= 6
    assert best(points).values == {"replay": 10}


@pytest.mark.slow
def test_a_run_that_fails_ends_a_search_by_optuna_with_a_sentence(tmp_path):
    tuning = tuning_of("er", "replay=5:10", stages=3)

    def engine(specs, until):
        return [Failure(spec, "lost", "Its process died.") for spec in specs]

    with pytest.raises(errors.RunError, match=r"with replay = \d+ failed, so there is no choice: Its process died."):
        list(tuning.optuna(engine, tmp_path, 5))
    with pytest.raises(errors.InputError, match="number of --trials must be a whole number of at least 1"):
        list(tuning.optuna(engine, tmp_path, 0))


def test_without_optuna_its_search_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(errors.InputError, match=r"The search optuna needs Optuna: pip install 'evenhand\[sweep\]'."):
        list(tuning_of("er", "lr=0.1:0.2").optuna(real(tmp_path), tmp_path, 3))


def test_a_point_that_diverges_is_the_worst_and_does_not_end_the_search(tmp_path):
    tuning = tuning_of("er", "lr=0.1,1e30", stages=2)
    good, bad = tuning.grid(real(tmp_path))
    assert bad.accuracy == 0 < good.accuracy
    assert best([bad, good]) is good
