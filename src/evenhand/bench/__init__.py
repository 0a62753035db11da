"""Benchmark: a learner's steps against plain PyTorch loops that do the same work, and against the machine's peak."""

from evenhand.bench.suite import PARTS, measure

__all__ = ["PARTS", "measure"]
