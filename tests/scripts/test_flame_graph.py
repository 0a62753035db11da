import sys
from xml.etree import ElementTree

import flame_graph
import pytest
from flame_graph import Frame


def test_a_flame_graph_has_the_parts_of_a_step_and_their_operations():
    top = Frame("step", 100.0, {"update": Frame("update", 60.0), "objective": Frame("objective", 39.9)})
    top.inner["objective"].inner["conv<2d>"] = Frame("conv<2d>", 20.0)
    top.inner["tiny"] = Frame("tiny", 0.01)
    picture = ElementTree.fromstring(flame_graph.draw(top, "One step"))
    boxes = list(picture.iter("{http://www.w3.org/2000/svg}g"))
    titles = [box[0].text.partition(":")[0] for box in boxes]
    assert titles == ["step", "update", "objective", "conv<2d>"]  # by their time; too narrow ones are left out
    widths = [float(box[1].get("width")) for box in boxes]
    assert widths == pytest.approx([1200, 720, 478.8, 240], abs=0.1)
    places = [float(box[1].get("x")) for box in boxes]
    assert places == pytest.approx([0, 0, 720, 720], abs=0.1)


def operations(frame):
    """The names of a frame and of everything below it."""
    return {frame.name}.union(*map(operations, frame.inner.values()))


@pytest.mark.slow
def test_the_profile_has_the_parts_of_a_step_and_the_script_draws_it(tmp_path, monkeypatch):
    profiled = []
    monkeypatch.setattr(flame_graph, "STEPS", 2)
    monkeypatch.setattr(sys, "argv", ["flame_graph.py", str(tmp_path / "step.svg"), "--method", "er", "--threads", "1"])
    draw = flame_graph.draw
    monkeypatch.setattr(flame_graph, "draw", lambda top, title: profiled.append(top) or draw(top, title))
    flame_graph.main()
    (top,) = profiled
    assert {"retrieval", "objective", "update", "storage"} <= set(top.inner)
    assert "convolution_backward" in operations(top.inner["update"])
    drawn = (tmp_path / "step.svg").read_text()
    assert "One step of er: " in drawn
    assert "convolution_backward" in drawn
