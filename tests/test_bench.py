import time
from xml.etree import ElementTree

import pytest

from evenhand.bench import contenders, flame, measures, show, timing


def test_ratios_are_taken_within_a_round():
    """A machine that slows down in half of the rounds changes no ratio."""
    theirs = [1.0, 1.0, 4.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0]
    found = timing.ratio([0.5 * t for t in theirs], theirs)
    assert found == {"median": 0.5, "low": 0.5, "high": 0.5}


def test_the_interval_covers_the_median_and_not_everything():
    ours = [1 + i / 100 for i in range(100)]
    found = timing.ratio(ours, [1.0] * 100)
    assert 1 < found["low"] < found["median"] < found["high"] < 1.99
    assert found["median"] == pytest.approx(1.495)


def test_a_slower_contender_is_measured_slower():
    times = timing.rotate({"fast": lambda: time.sleep(0.001), "slow": lambda: time.sleep(0.004)}, 6)
    assert timing.ratio(times["slow"], times["fast"])["low"] > 1.5


def test_the_plain_loop_does_the_same_work():
    flops = {
        "eager": timing.flops(contenders.eager()),
        "er": timing.flops(contenders.stepper(contenders.learner("er"))),
    }
    assert flops["er"] == pytest.approx(flops["eager"], rel=0.001)


@pytest.mark.parametrize("name", ["er", "uer"])
def test_a_learner_to_be_timed_knows_all_classes_and_is_full(name):
    learner = contenders.learner(name, memory=300, classes=40)
    assert len(learner.labels) == 40
    assert len(learner.memory) == 300
    assert 0 < timing.outside(learner, contenders.stepper(learner), steps=2) < 0.5
    assert "descend" not in vars(learner)


def test_a_flame_graph_has_the_parts_of_a_step_and_their_operations(tmp_path):
    top = flame.Frame(
        "step", 100.0, {"update": flame.Frame("update", 60.0), "objective": flame.Frame("objective", 39.9)}
    )
    top.inner["objective"].inner["conv<2d>"] = flame.Frame("conv<2d>", 20.0)
    top.inner["tiny"] = flame.Frame("tiny", 0.01)
    picture = ElementTree.fromstring(flame.draw(top, "One step"))
    boxes = list(picture.iter("{http://www.w3.org/2000/svg}g"))
    titles = [box[0].text.partition(":")[0] for box in boxes]
    assert titles == ["step", "update", "objective", "conv<2d>"]  # by their time; what is too narrow is left out
    widths = [float(box[1].get("width")) for box in boxes]
    assert widths == pytest.approx([1200, 720, 478.8, 240], abs=0.1)
    places = [float(box[1].get("x")) for box in boxes]
    assert places == pytest.approx([0, 0, 720, 720], abs=0.1)


@pytest.mark.slow
def test_every_part_of_the_benchmark_gives_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "WARM_UP", 1)
    monkeypatch.setattr(timing, "STEPS", 1)
    monkeypatch.setattr(measures, "learner", lambda *a, **k: contenders.learner(*a, **{**k, "compile": False}))
    measured = measures.measure(["steps", "evaluation"], 3, 1)
    rows = measured["steps"]["rows"]
    assert len(rows) == 9
    assert all(0 < row["of_peak"] < 1.2 for row in rows.values())
    assert all(0 < row["outside"] < 0.5 for row in rows.values() if row["outside"] is not None)
    paper, raw = rows["er, paper's views"]["to_plain"]["median"], rows["er"]["to_plain"]["median"]
    assert 1.3 < paper / raw < 2.6  # twice the images
    assert measured["evaluation"]["ours"]["to_eager"]["median"] < 1.5
    show(measured)
    flame.draw_step(tmp_path / "step.svg", 1, "er")
    drawn = (tmp_path / "step.svg").read_text()
    for word in ("retrieval", "objective", "update", "storage", "convolution_backward"):
        assert word in drawn
