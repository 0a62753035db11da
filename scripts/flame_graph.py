"""Draw a flame graph of one step: how much time each operation takes, below the part of the method that called it.

python scripts/flame_graph.py docs/step.svg
"""

import argparse
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from evenhand.bench.workloads import full_learner, step_of
from evenhand.core.method import Method

STEPS = 20
WIDTH, ROW, HEAD = 1200, 20, 34
NARROWEST = 0.7  # pixels; narrower boxes are not drawn
COLOURS = {"conv": "#d9822b", "norm": "#6b8e5a", "add": "#8d7bb5", "part": "#4a6fa5"}


@dataclass
class Frame:
    """An operation: its time in all steps, and the operations it called."""

    name: str
    time: float = 0.0
    inner: dict[str, "Frame"] = field(default_factory=dict)

    def add(self, event: Any) -> None:
        """Add an event of the profiler and everything it called."""
        name = event.name.removeprefix("aten::").removeprefix("autograd::engine::evaluate_function: ")
        frame = self.inner.setdefault(name, Frame(name))
        frame.time += event.cpu_time_total
        for child in event.cpu_children:
            frame.add(child)


def profile_step(name: str) -> Frame:
    """Profile some steps of a method with the paper's views."""
    learner = full_learner(name, views="concat")
    learner.method = _labelled(learner.method)
    step = step_of(learner)
    for _ in range(5):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(STEPS):
            with record_function("step"):
                step()
    root = Frame("all")
    for event in profiler.events() or ():
        if event.name == "step":
            root.add(event)
    return root.inner["step"]


def draw(top: Frame, title: str) -> str:
    """The graph as SVG: time from left to right, callers above what they call."""
    boxes: list[str] = []
    depth = _boxes(top, 0.0, 0, WIDTH / top.time, boxes)
    height = HEAD + ROW * depth + 8
    style = "text{font:12px sans-serif;fill:#222} rect{stroke:#fff;stroke-width:0.6}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<style>{style}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="6" y="20" style="font-size:15px">{escape(title)}</text>{"".join(boxes)}</svg>'
    )


def _boxes(frame: Frame, left: float, level: int, scale: float, boxes: list[str]) -> int:
    """Append the boxes of a frame and everything below it; return the depth reached."""
    width = frame.time * scale
    if width < NARROWEST:
        return level
    top, room = HEAD + ROW * level, int(width / 6.6)
    label = frame.name if len(frame.name) <= room else frame.name[: max(0, room - 1)] + "…" if room > 3 else ""
    boxes.append(
        f'<g><title>{escape(frame.name)}: {frame.time / STEPS / 1e3:.2f} ms</title><rect x="{left:.1f}" y="{top}" '
        f'width="{width:.1f}" height="{ROW}" fill="{_colour(frame.name, level)}" fill-opacity="0.75"/>'
        f'<text x="{left + 3:.1f}" y="{top + 14}">{escape(label)}</text></g>'
    )
    deepest = level + 1
    for inner in sorted(frame.inner.values(), key=lambda child: -child.time):
        deepest = max(deepest, _boxes(inner, left, level + 1, scale, boxes))
        left += inner.time * scale
    return deepest


def _colour(name: str, level: int) -> str:
    if level < 2:
        return COLOURS["part"]
    return next((colour for word, colour in COLOURS.items() if word in name.lower()), "#b8b8b8")


def _labelled(method: Method) -> Method:
    """The same method, with its parts recorded in the profile under their names."""

    def recorded(name: str, part: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with record_function(name):
                return part(*arguments)

        return call

    slots = ("retrieval", "objective", "update", "storage")
    return method.but(**{slot: recorded(slot, getattr(method, slot)) for slot in slots})


def main() -> None:
    """Profile one method and write the graph."""
    parser = argparse.ArgumentParser(description="Draw a flame graph of one step.")
    parser.add_argument("output", type=Path, help="SVG file to write")
    parser.add_argument("--method", default="uer")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    top = profile_step(arguments.method)
    title = f"One step of {arguments.method}: {top.time / STEPS / 1e3:.0f} ms, {arguments.threads} threads"
    arguments.output.write_text(draw(top, title))


if __name__ == "__main__":
    main()
