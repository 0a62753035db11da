"""The benchmark: steps of ours against plain PyTorch loops that do the same work, and against the machine's peak."""

from evenhand.bench.measures import PARTS, measure
from evenhand.bench.shown import show

__all__ = ["PARTS", "measure", "show"]
