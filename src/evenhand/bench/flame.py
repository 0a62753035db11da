"""A flame graph of one step: which operation takes how much of it, below which part of the method, as SVG."""

import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from evenhand import errors, files
from evenhand.bench.contenders import learner, stepper
from evenhand.method import Method

STEPS = 20
WIDTH, ROW, HEAD = 1200, 20, 34
NARROWEST = 0.7  # pixels; what is narrower is not drawn
COLOURS = {"conv": "#d9822b", "norm": "#6b8e5a", "add": "#8d7bb5", "part": "#4a6fa5"}


@dataclass
class Frame:
    """An operation below others: its time in all steps, and what it called."""

    name: str
    time: float = 0.0
    inner: dict[str, "Frame"] = field(default_factory=dict)

    def add(self, event: Any) -> None:
        """Count an event of the profiler and all that it called."""
        name = event.name.removeprefix("aten::").removeprefix("autograd::engine::evaluate_function: ")
        frame = self.inner.setdefault(name, Frame(name))
        frame.time += event.cpu_time_total
        for child in event.cpu_children:
            frame.add(child)


def draw_step(path: Path, threads: int | None = None, name: str = "uer") -> None:
    """Profile some steps of a method with the paper's views, and draw them."""
    if threads is not None:
        errors.whole("The number of 'threads'", threads, 1)
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    made = learner(name, views="concat")
    made.method = _named(made.method)
    step = stepper(made)
    for _ in range(5):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(STEPS):
            with record_function("step"):
                step()
    root = Frame("all")
    for event in profiler.events():
        if event.name == "step":
            root.add(event)
    top = root.inner["step"]
    title = f"One step of {name}: {top.time / STEPS / 1e3:.0f} ms, {torch.get_num_threads()} threads"
    files.write(path, draw(top, title).encode())


def draw(top: Frame, title: str) -> str:
    """The picture: time from left to right, callers above what they call."""
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
    """Append the boxes of a frame and of what is in it; return how deep they go."""
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


def _named(method: Method) -> Method:
    """The same method, whose parts show in the profile under their names."""

    def watched(name: str, part: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with record_function(name):
                return part(*arguments)

        return call

    return method.but(
        **{name: watched(name, getattr(method, name)) for name in ("retrieval", "objective", "update", "storage")}
    )
