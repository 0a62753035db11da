"""The benchmark: steps of ours against plain PyTorch loops that do the same work, and against the machine's peak."""

from evenhand.bench.flame import draw_step
from evenhand.bench.measures import PARTS, measure
from evenhand.bench.shown import show

__all__ = ["PARTS", "draw_step", "measure", "show"]
