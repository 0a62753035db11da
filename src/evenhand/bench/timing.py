"""Timing: workloads take turns in one process, and ratios within a round outlast a machine that slows down."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from evenhand.core.learner import Learner

STEPS = 2  # of each workload in a round
WARM_UP = 5
PEAK_SIDE = 1536

Workload = Callable[[], object]  # does one step of work


def time_in_turns(workloads: dict[str, Workload], rounds: int) -> dict[str, list[float]]:
    """Seconds per step of each workload in each round; every round starts with a different one."""
    names = list(workloads)
    for step in workloads.values():
        for _ in range(WARM_UP):
            step()
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter()
            for _ in range(STEPS):
                workloads[name]()
            times[name].append((time.perf_counter() - began) / STEPS)
    return times


def paired_ratio(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """The median of the ratios within a round, and its 95 % interval by order statistics."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    count = len(ratios)
    tails = itertools.accumulate(math.comb(count, below) / 2**count for below in range(count))
    cut = max(0, sum(tail <= 0.025 for tail in tails) - 1)  # ratios beyond the interval at either end
    return {"median": statistics.median(ratios), "low": ratios[cut], "high": ratios[-1 - cut]}


def gemm_peak(dtype: torch.dtype = torch.float32) -> float:
    """GFLOP/s of a large matrix product, the best of six."""
    a = torch.rand(PEAK_SIDE, PEAK_SIDE).to(dtype)
    best = 0.0
    for _ in range(6):
        began = time.perf_counter()
        a @ a
        best = max(best, 2 * PEAK_SIDE**3 / 1e9 / (time.perf_counter() - began))
    return best


def share_outside(learner: Learner, step: Workload, steps: int = 20) -> float:
    """The share of a step spent outside forward, backward and the optimizer."""
    inside, depth = 0.0, 0

    @contextmanager
    def clock() -> Iterator[None]:
        nonlocal inside, depth
        began, depth = time.perf_counter(), depth + 1
        yield
        depth -= 1
        inside += 0 if depth else time.perf_counter() - began  # nested calls count once

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with clock():
                return function(*arguments, **named)

        return call

    for name in ("features", "expect", "descend"):
        setattr(learner, name, timed(getattr(learner, name)))
    began = time.perf_counter()
    for _ in range(steps):
        step()
    total = time.perf_counter() - began
    for name in ("features", "expect", "descend"):
        delattr(learner, name)
    return 1 - inside / total
