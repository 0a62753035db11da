"""What is measured, each as plain data: steps, evaluation, scaling, processes, methods; load.py has one more."""

import copy
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from evenhand import errors, registry
from evenhand.bench.contenders import BATCH, CLASSES, MEMORY, MINI, eager, learner, samples, stepper
from evenhand.bench.load import load
from evenhand.bench.timing import Stepper, flops, outside, peak, ratio, rotate
from evenhand.experiment.process import environment, hardware

SETTING = f"Reduced ResNet18, {BATCH} + {BATCH} images, {CLASSES} classes, full memory of {MEMORY}"


def measure(parts: list[str], rounds: int, threads: int | None, methods: str | None = None) -> dict[str, Any]:
    """Time the parts that are asked for; leave the machine alone meanwhile."""
    errors.whole("The number of 'rounds'", rounds, 3)
    for part in parts:
        if part not in PARTS:
            raise errors.unknown("part of the benchmark", part, PARTS)
    if threads is not None:
        errors.whole("The number of 'threads'", threads, 1)
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    measured = {part: PARTS[part](rounds) for part in parts if part != "methods"}
    if "methods" in parts:
        measured["methods"] = method_costs(rounds, methods or "all")
    return {
        "schema": 2,
        "setting": SETTING,
        "rounds": rounds,
        "environment": {**environment(), **hardware()},
        **measured,
    }


def steps(rounds: int) -> dict[str, Any]:
    """A step of ER and UER, plain and compiled, raw and with the paper's views, against plain loops and the peak."""
    learners = {
        "er": learner("er"),
        "er, compiled": learner("er", compile=True),
        "uer, compiled": learner("uer", compile=True),
        "er, scr": learner("er", views="replace"),
        "er, paper's views": learner("er", views="concat"),
        "er, paper's views, compiled": learner("er", compile=True, views="concat"),
        "uer, paper's views, compiled": learner("uer", compile=True, views="concat"),
    }
    steppers: dict[str, Stepper] = {
        "a plain eager loop": eager(),
        "the same, channels last": eager(layout=torch.channels_last),
        **{name: stepper(made) for name, made in learners.items()},
    }
    counted = {name: flops(steppers[name.replace(", compiled", "")]) for name in steppers if "uer" not in name}
    counted |= {name: counted[name.replace("uer", "er")] for name in steppers if "uer" in name}
    times = rotate(steppers, rounds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    best = peak()
    rows = {}
    for name, taken in times.items():
        seconds = statistics.median(taken)
        rows[name] = {
            "median_ms": 1e3 * seconds,
            "to_plain": ratio(taken, times["a plain eager loop"]),
            "samples_per_second": BATCH / seconds,
            "gflops": counted[name] / 1e9 / seconds,
            "of_peak": counted[name] / 1e9 / seconds / best,
            "outside": outside(learners[name], steppers[name]) if name in learners else None,
        }
    pairs = [("uer, compiled", "er, compiled"), ("uer, paper's views, compiled", "er, paper's views, compiled")]
    pairs += [("er, compiled", "er"), ("er, paper's views, compiled", "er, paper's views")]
    ratios = {f"{ours} / {theirs}": ratio(times[ours], times[theirs]) for ours, theirs in pairs}
    return {"gemm_peak_gflops": best, "rows": rows, "ratios": ratios, "peak_memory_mb": memory}


def evaluation(rounds: int) -> dict[str, Any]:
    """Testing a thousand images: as predictions do it, against the network in evaluation mode."""
    made, images = learner("er"), samples(1000, CLASSES)[0]
    plain = copy.deepcopy(made.frozen()).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def eager(size: int) -> Stepper:
        def step() -> None:
            with torch.no_grad():
                for part in images.split(size):
                    plain(part.float() / 255)

        return step

    contenders: dict[str, Stepper] = {f"eager, batches of {size}": eager(size) for size in (100, 256)}

    def ours() -> None:
        made.scores(images)

    contenders["ours"] = ours
    times = rotate(contenders, max(3, rounds // 2))
    first = next(iter(contenders))
    return {
        name: {"ms_per_1000": 1e3 * statistics.median(taken), "to_eager": ratio(taken, times[first])}
        for name, taken in times.items()
    }


def scaling(rounds: int) -> dict[str, Any]:
    """How a step of ER grows with the memory, the classes and the size of the images."""
    small = stepper(learner("er"))
    sizes: dict[str, Callable[[], Stepper]] = {
        **{f"memory {size:,}": partial(_sized, memory=size) for size in (10_000, 100_000, 1_000_000)},
        **{f"{count:,} classes": partial(_sized, classes=count) for count in (10, 1000, 10_000)},
        "images of 3x84x84": partial(_sized, shape=MINI),
        "a plain loop on images of 3x84x84": partial(eager, MINI),
    }
    found = {}
    for name, build in sizes.items():  # one at a time: a million images are three gigabytes
        times = rotate({"small": small, "large": build()}, rounds)
        found[name] = ratio(times["large"], times["small"])
    return found


def _sized(**sizes: Any) -> Stepper:
    return stepper(learner("er", **sizes))


def processes(rounds: int) -> dict[str, Any]:
    """Runs side by side: two processes with one thread each, against one process with two."""
    rates: dict[str, list[float]] = {"2 x 1": [], "1 x 2": [], "1 x 2, compiled": []}
    for _ in range(max(3, rounds // 10)):
        rates["2 x 1"].append(sum(_crew(2, 1, False)))
        rates["1 x 2"].append(sum(_crew(1, 2, False)))
        rates["1 x 2, compiled"].append(sum(_crew(1, 2, True)))
    return {
        "steps_per_second": {name: statistics.median(taken) for name, taken in rates.items()},
        "2 x 1 / 1 x 2": ratio(rates["2 x 1"], rates["1 x 2"]),
        "2 x 1 / 1 x 2, compiled": ratio(rates["2 x 1"], rates["1 x 2, compiled"]),
    }


def _crew(workers: int, threads: int, compile: bool) -> list[float]:
    """The steps per second of processes that work at the same time."""
    command = [sys.executable, "-m", "evenhand.bench.worker", str(threads), str(int(compile))]
    crew = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    for worker in crew:  # all are warm before any begins
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in crew:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [float(worker.communicate()[0]) for worker in crew]


def work(threads: int, compile: bool, seconds: float = 8) -> None:
    """Be one of the processes: warm up, wait, and step for some seconds with the paper's views."""
    torch.set_num_threads(threads)
    step = stepper(learner("er", compile=compile, views="concat"))
    for _ in range(5):
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step()
        count += 1
    print(count / (time.perf_counter() - began), flush=True)


def method_costs(rounds: int, names: str) -> dict[str, Any]:
    """The steps of methods against ER's, and their operations; names by commas, or "all"."""
    chosen = list(registry.recipes()) if names == "all" else [name.strip() for name in names.split(",")]
    learners = {name: learner(name) for name in dict.fromkeys(["er", *chosen])}
    steppers = {name: stepper(made) for name, made in learners.items()}
    counted = {name: flops(step) for name, step in steppers.items()}
    times = rotate(steppers, rounds)
    return {
        name: {
            "time": ratio(times[name], times["er"]),
            "c_d": counted[name] / counted["er"],
            "documented": registry.terms(name)[0][0].cost,
        }
        for name in learners
    }


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "steps": steps,
    "evaluation": evaluation,
    "scaling": scaling,
    "processes": processes,
    "load": load,
    "methods": method_costs,
}
