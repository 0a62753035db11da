"""The benchmark: a step of ours against a plain PyTorch loop that does the same work, and against the machine's peak.

All contenders take turns in one process; what counts are medians, and ratios within a round.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from evenhand import draws, errors, registry
from evenhand.backbones import ReducedResNet18
from evenhand.batch import Batch
from evenhand.experiment.process import environment, hardware
from evenhand.learner import Learner
from evenhand.show import stdout

SHAPE, BATCH, CLASSES, MEMORY = (3, 32, 32), 10, 100, 1000
STEPS = 2  # of each contender in a round
WARM_UP = 5
PEAK_SIDE = 1536

Stepper = Callable[[], None]


def measure(rounds: int = 30, threads: int | None = None) -> dict[str, Any]:
    """Time everything; leave the machine alone meanwhile."""
    errors.whole("The number of 'rounds'", rounds, 3)
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    learners = {name: _learner(name) for name in ("er", "uer")}
    steppers: dict[str, Stepper] = {"eager": _eager(), **{name: _stepper(it) for name, it in learners.items()}}
    flops = {name: _flops(step) for name, step in steppers.items()}
    times = _rotate(steppers, rounds)
    peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peak = max(_peak() for _ in range(5))
    sizes = {
        "memory 1e3": _stepper(learners["er"]),
        "memory 1e5": _stepper(_learner("er", memory=100_000)),
        "classes 10": _stepper(_learner("er", classes=10)),
        "classes 1000": _stepper(_learner("er", classes=1000)),
    }
    scaling = _rotate(sizes, rounds)
    return {
        "schema": 1,
        "setting": f"Reduced ResNet18, {BATCH} + {BATCH} images of 3x32x32, {CLASSES} classes, full memory of {MEMORY}",
        "rounds": rounds,
        "environment": {**environment(), **hardware()},
        "gemm_peak_gflops": peak,
        "steps": {
            name: {
                "median_ms": 1e3 * statistics.median(taken),
                "gflop": flops[name] / 1e9,
                "gflops": flops[name] / 1e9 / statistics.median(taken),
                "of_peak": flops[name] / 1e9 / statistics.median(taken) / peak,
            }
            for name, taken in times.items()
        },
        "ratios": {
            "er / eager": _ratio(times["er"], times["eager"]),
            "uer / eager": _ratio(times["uer"], times["eager"]),
            "uer / er": _ratio(times["uer"], times["er"]),
            "memory 1e5 / 1e3": _ratio(scaling["memory 1e5"], scaling["memory 1e3"]),
            "classes 1000 / 10": _ratio(scaling["classes 1000"], scaling["classes 10"]),
        },
        "outside": {name: _outside(it) for name, it in learners.items()},
        "peak_memory_mb": peak_memory,
    }


def show(measured: dict[str, Any]) -> None:
    """Print what `measure` returned."""
    console, where = stdout(), measured["environment"]
    table = Table(title=measured["setting"], title_justify="left")
    for name in ("step", "median ms", "GFLOP", "GFLOP/s", "of GEMM peak"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for name, row in measured["steps"].items():
        numbers = (f"{row['median_ms']:.1f}", f"{row['gflop']:.2f}", f"{row['gflops']:.1f}", f"{row['of_peak']:.0%}")
        table.add_row("a plain eager loop" if name == "eager" else name, *numbers)
    console.print(table)
    ratios = Table()
    for name in ("ratio of step times", "median", "95 % interval"):
        ratios.add_column(name, justify="left" if name.startswith("ratio") else "right")
    for name, row in measured["ratios"].items():
        ratios.add_row(name, f"{row['median']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}")
    console.print(ratios)
    outside = ", ".join(f"{name} {share:.1%}" for name, share in measured["outside"].items())
    console.print(f"Outside forward, backward and optimizer: {outside}.", highlight=False)
    console.print(
        f"GEMM peak {measured['gemm_peak_gflops']:.0f} GFLOP/s, peak memory {measured['peak_memory_mb']:.0f} MB, "
        f"{measured['rounds']} rounds, {where['threads']} threads, {where['processor']} ({where['capability']}), "
        f"torch {where['torch']}.",
        highlight=False,
    )


def measure_methods(names: str, rounds: int = 30, threads: int | None = None) -> dict[str, Any]:
    """Time the steps of methods against ER's, and count their operations; names by commas, or "all"."""
    errors.whole("The number of 'rounds'", rounds, 3)
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    chosen = list(registry.recipes()) if names == "all" else [name.strip() for name in names.split(",")]
    learners = {name: _learner(name) for name in dict.fromkeys(["er", *chosen])}
    steppers = {name: _stepper(learner) for name, learner in learners.items()}
    flops = {name: _flops(step) for name, step in steppers.items()}
    times = _rotate(steppers, rounds)
    documented = {name: registry.terms(name)[0][0].cost for name in learners}
    return {
        "schema": 1,
        "setting": f"Reduced ResNet18, {BATCH} + {BATCH} images of 3x32x32, {CLASSES} classes, full memory of {MEMORY}",
        "rounds": rounds,
        "environment": {**environment(), **hardware()},
        "methods": {
            name: {
                "time": _ratio(times[name], times["er"]),
                "c_d": flops[name] / flops["er"],
                "documented": documented[name],
            }
            for name in learners
        },
    }


def show_methods(measured: dict[str, Any]) -> None:
    """Print what `measure_methods` returned."""
    table = Table(title=measured["setting"], title_justify="left")
    for name in ("method", "time / ER's", "95 % interval", "C_D counted", "C_D documented", "time / C_D counted"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for name, row in measured["methods"].items():
        took = row["time"]
        numbers = took["median"], row["c_d"], row["documented"], took["median"] / row["c_d"]
        first, *others = (f"{number:.2f}" for number in numbers)
        table.add_row(name, first, f"{took['low']:.2f} to {took['high']:.2f}", *others)
    stdout().print(table)


def _eager() -> Stepper:
    """The loop that one would write by hand: NCHW, one joint pass, a reservoir."""
    with draws.seeded(0, "init"):
        model = nn.Sequential(ReducedResNet18(SHAPE), nn.Linear(160, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stream = _samples(BATCH, CLASSES)
    memory_x, memory_y = _samples(MEMORY, CLASSES)
    offered = 10 * MEMORY

    def step() -> None:
        nonlocal offered
        x, y = stream
        slots = torch.randperm(MEMORY)[:BATCH]
        inputs = torch.cat([x, memory_x[slots]]).float() / 255
        logits = model(inputs)
        loss = F.cross_entropy(logits[:BATCH], y) + F.cross_entropy(logits[BATCH:], memory_y[slots])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for i in range(BATCH):
            offered += 1
            slot = int(torch.randint(offered, (1,)))
            if slot < MEMORY:
                memory_x[slot], memory_y[slot] = x[i], y[i]

    return step


def _learner(name: str, memory: int = MEMORY, classes: int = CLASSES) -> Learner:
    """A learner that knows all classes and whose memory is full."""
    with draws.seeded(0, "init"):
        learner = Learner(ReducedResNet18(SHAPE), name, memory=memory, replay=BATCH, device="cpu")
    plain = set(learner.method.changes(registry.resolve("er"))) <= {"scoring"}
    x, y = _samples(classes if plain else max(memory, classes), classes)
    y[:classes] = torch.arange(classes)
    learner.observe(x, y)
    learner.boundary()
    if plain:  # the others store more than samples, so they have observed a whole memory at once
        learner.memory.write(torch.arange(memory), Batch(*_samples(memory, classes)))
    learner.memory.offered = 10 * memory
    return learner


def _stepper(learner: Learner) -> Stepper:
    x, y = _samples(BATCH, len(learner.labels))
    return lambda: learner.observe(x, y)


def _samples(count: int, classes: int) -> tuple[Tensor, Tensor]:
    drawn = draws.generator(count, "bench")
    x = torch.randint(256, (count, *SHAPE), generator=drawn, dtype=torch.uint8)
    return x, torch.randint(classes, (count,), generator=drawn)


def _rotate(steppers: dict[str, Stepper], rounds: int) -> dict[str, list[float]]:
    """Seconds a step of each, round by round; each round begins with another one."""
    names = list(steppers)
    for step in steppers.values():
        for _ in range(WARM_UP):
            step()
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter()
            for _ in range(STEPS):
                steppers[name]()
            times[name].append((time.perf_counter() - began) / STEPS)
    return times


def _ratio(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """The median of the ratios within a round, and its 95 % interval by order statistics."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    reach = 0.98 * len(ratios) ** 0.5
    low, high = int(len(ratios) / 2 - reach), int(len(ratios) / 2 + reach)
    return {
        "median": statistics.median(ratios),
        "low": ratios[max(0, low)],
        "high": ratios[min(len(ratios) - 1, high)],
    }


def _flops(step: Stepper) -> int:
    step()
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def _peak() -> float:
    """GFLOP/s of a large product of matrices."""
    a = torch.rand(PEAK_SIDE, PEAK_SIDE)
    a @ a
    began = time.perf_counter()
    a @ a
    return 2 * PEAK_SIDE**3 / 1e9 / (time.perf_counter() - began)


def _outside(learner: Learner, steps: int = 20) -> float:
    """The share of a step that is spent neither in forward, backward nor the optimizer."""
    step, inside = _stepper(learner), 0.0

    @contextmanager
    def clock() -> Iterator[None]:
        nonlocal inside
        began = time.perf_counter()
        yield
        inside += time.perf_counter() - began

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
