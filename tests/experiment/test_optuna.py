import sys

import pytest

from evenhand import errors, metrics
from evenhand.core import registry
from evenhand.core.learner import Learner
from evenhand.experiment.engine.queue import Failure
from evenhand.experiment.folder import Folder
from evenhand.experiment.search.tune import ENOUGH, Stopped, best
from experiment.folders import stage_of
from experiment.searches import real, records, sealed, stages_of, tuning_of


class Staged:
    """An engine that writes records instead of running.

    The accuracy of each stage is a function of spec and stage; where it says None the run diverges.
    """

    def __init__(self, root, accuracy):
        self.root, self.accuracy, self.asked = root, accuracy, []

    def __call__(self, specs, until):
        self.asked += [(spec, until) for spec in specs]
        return [self.outcome(spec, until) for spec in specs]

    def outcome(self, spec, until):
        folder = Folder(self.root, spec)
        reached = [self.accuracy(spec, stage) for stage in range(1, until + 1)]
        diverged = None in reached
        reached = reached[: reached.index(None)] if diverged else reached
        lines = [stage_of([accuracy] * stage) for stage, accuracy in enumerate(reached, 1)]
        timing = [{"train_seconds": 1.0, "test_seconds": 1.0}] * len(lines)
        with folder.locked():
            folder.publish({"metrics": lines, "timing": timing})
            if len(lines) == spec.stages:
                folder.complete(environment={}, hardware={}, classes=[])
        if diverged:
            return Failure(spec, "diverged", "The loss became nan.")
        return folder.result() or Failure(spec, "paused", f"Stage {until} has ended.")


@pytest.mark.slow
def test_optuna_proposes_within_the_ranges(tmp_path):
    axes = ["replay=2:9", "lr=1e-9:1e-7:log", "alpha=0:1", "augment=none,crop", "candidates=1:64:log"]
    tuning = tuning_of("mir+uer", *axes, stages=1)
    engine = Staged(tmp_path, lambda spec, _: spec.lr * 1e6)
    points = list(tuning.optuna(engine, tmp_path, 60, at_once=7))
    assert len(points) == 60
    columns = {name: [point.values[name] for point in points] for name in points[0].values}
    assert set(columns["replay"]) == set(range(2, 10))
    assert all(type(value) is int and 1 <= value <= 64 for value in columns["candidates"])
    assert all(1e-9 <= value <= 1e-7 for value in columns["lr"])
    assert any(value < 1e-8 for value in columns["lr"])
    assert len(set(columns["lr"])) > 30
    assert all(0 <= value <= 1 for value in columns["alpha"])
    assert len(set(columns["alpha"])) > 30
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
def test_runs_go_straight_to_the_end_until_one_can_be_given_up(tmp_path):
    tuning = tuning_of("er", "lr=0.01:1.0", stages=4)
    engine = Staged(tmp_path, lambda *_: 0.5)
    points = list(tuning.optuna(engine, tmp_path, 7))
    asked = {spec: [until for other, until in engine.asked if other == spec] for spec, _ in engine.asked}
    first, rest = points[:ENOUGH], points[ENOUGH:]
    assert [asked[spec] for point in first for spec in tuning.specs(point.values)] == [[4]] * ENOUGH
    assert [asked[spec] for point in rest for spec in tuning.specs(point.values)] == [[1, 2, 3, 4]] * 2


@pytest.mark.slow
def test_what_diverged_is_not_run_again_and_gives_nothing_up(tmp_path):
    tuning = tuning_of("er", "lr=0.01:1.0", stages=4)
    engine = Staged(tmp_path, lambda spec, stage: 0.5 if spec.lr < 0.5 or stage < 2 else None)
    points = list(tuning.optuna(engine, tmp_path, 30, at_once=3))
    asked = {spec: [until for other, until in engine.asked if other == spec] for spec, _ in engine.asked}
    assert [point.diverged for point in points] == [point.values["lr"] >= 0.5 for point in points]
    assert not any(point.given_up for point in points)
    lost = [asked[spec] for point in points if point.diverged for spec in tuning.specs(point.values)]
    assert {tuple(untils) for untils in lost} == {(4,), (1, 2)}  # before and after there were enough curves
    assert best(points).accuracy == 0.5


@pytest.mark.slow
def test_a_point_that_diverged_is_not_run_again_when_it_is_proposed_again(tmp_path):
    tuning = tuning_of("er", "replay=5,10", stages=3, seeds=2)
    engine = Staged(tmp_path, lambda spec, _: None if (spec.replay, spec.seed) == (5, 1) else 0.9)
    points = list(tuning.optuna(engine, tmp_path, 12))
    lost = [point for point in points if point.values == {"replay": 5}]
    assert len(lost) > 1
    assert all(point.diverged and point.accuracy == 0 for point in lost)
    assert [until for spec, until in engine.asked if spec.replay == 5] == [3, 3]  # once for each seed
    assert best(points).values == {"replay": 10}


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
    assert "a test sample was touched" in outcome.message


@pytest.mark.slow
def test_a_point_that_optuna_proposes_twice_runs_once(tmp_path):
    tuning = tuning_of("er", "replay=5,10", stages=3)
    engine = Staged(tmp_path, lambda spec, _: spec.replay / 20)
    points = list(tuning.optuna(engine, tmp_path, 9, at_once=3))
    assert len(points) == 9
    assert len(engine.asked) == len(set(engine.asked)) <= 6
    assert best(points).values == {"replay": 10}


@pytest.mark.slow
def test_points_that_train_alike_share_a_run_whose_tests_differ(tmp_path):
    tuning = tuning_of("uer+ema(by_row=False)", "decay=0.1,0.9,0.99", stages=2)
    engine = real(tmp_path)
    points = {point.values["decay"]: point for point in tuning.optuna(engine, tmp_path, 8, at_once=8)}
    [(run, _)] = engine.asked
    rows = {row.spec.method: metrics.average(row.accuracy) for row in Folder(tmp_path, run).result().rows()}
    assert len(set(rows.values())) > 1
    for decay, point in points.items():
        assert point.accuracy == pytest.approx(rows[registry.canonical(f"uer+ema(decay={decay}, by_row=False)")])


@pytest.mark.slow
def test_a_run_with_further_tests_answers_a_search_by_optuna(tmp_path):
    tuning = tuning_of("uer", "alpha=0.5,0.6", stages=2)
    [spec] = tuning.specs({"alpha": 0.5})
    [outcome] = real(tmp_path)([spec.model_copy(update={"tests": "ema"})], None)
    engine = real(tmp_path)
    points = list(tuning.optuna(engine, tmp_path, 6))
    assert all(spec.method != "uer" for spec, _ in engine.asked)
    assert {point.accuracy for point in points if point.values["alpha"] == 0.5} == {metrics.average(outcome.accuracy)}


@pytest.mark.slow
def test_a_shared_run_that_diverges_is_the_end_of_all_its_points(tmp_path):
    tuning = tuning_of("uer+ema", "decay=0.1,0.9", stages=2, lr=1e30)
    points = list(tuning.optuna(real(tmp_path), tmp_path, 4, at_once=4))
    assert [point.diverged for point in points] == [True] * 4


@pytest.mark.slow
def test_a_run_that_fails_ends_a_search_by_optuna_with_a_sentence(tmp_path):
    tuning = tuning_of("er", "replay=5:10", stages=3)

    def engine(specs, until):
        return [Failure(spec, "lost", "Its process died.") for spec in specs]

    with pytest.raises(errors.RunError, match=r"with replay = \d+ failed. Its process died."):
        list(tuning.optuna(engine, tmp_path, 5))
    with pytest.raises(errors.InputError, match="number of --trials must be a whole number of at least 1"):
        list(tuning.optuna(engine, tmp_path, 0))


def test_without_optuna_its_search_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        errors.InputError, match=r"The search optuna needs Optuna, which .* pip install 'evenhand\[sweep\]'."
    ):
        list(tuning_of("er", "lr=0.1:0.2").optuna(real(tmp_path), tmp_path, 3))
