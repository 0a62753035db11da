"""The parts of the benchmark, each as plain data; `PARTS` lists them."""

import copy
import itertools
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from evenhand import errors, names
from evenhand.bench.service import service
from evenhand.bench.timing import Workload, gemm_peak, paired_ratio, share_outside, time_in_turns
from evenhand.bench.workloads import BATCH, CLASSES, MEMORY, MINI, full_learner, plain_loop, random_samples, step_of
from evenhand.core import registry
from evenhand.core.flops import count_flops
from evenhand.core.learner import Learner
from evenhand.core.precision import native
from evenhand.experiment.environment import environment, hardware

RUN_STEPS, RUN_IMAGES = 5000, 55_000  # learned and tested in a run of CIFAR-100 with ten stages
FEWEST = 6  # rounds, since the 95 % interval of a median needs as many
SETTING = f"Reduced ResNet18, {BATCH} + {BATCH} images, {CLASSES} classes, full memory of {MEMORY}"


def measure(parts: list[str], rounds: int, threads: int | None, methods: str | None = None) -> dict[str, Any]:
    """Run some parts of the benchmark on an otherwise idle machine."""
    errors.whole("The number of 'rounds'", rounds, FEWEST)
    for part in parts:
        if part not in PARTS:
            raise errors.unknown("part of the benchmark", part, PARTS)
    if threads is not None:
        errors.whole("The number of 'threads'", threads, 1, 1024)
    chosen = _method_names(methods or "all") if "methods" in parts else []
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    run = PARTS | {"methods": partial(method_costs, methods=chosen)}
    measured = {part: run[part](rounds) for part in parts}
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
        "er": full_learner("er"),
        "er, compiled": full_learner("er", compile=True),
        "uer, compiled": full_learner("uer", compile=True),
        "er, scr": full_learner("er", views="replace"),
        "er, paper's views": full_learner("er", views="concat"),
        "er, paper's views, compiled": full_learner("er", compile=True, views="concat"),
        "uer, paper's views, compiled": full_learner("uer", compile=True, views="concat"),
    }
    workloads: dict[str, Workload] = {
        "a plain eager loop": plain_loop(),
        "the same, channels last": plain_loop(layout=torch.channels_last),
        **{name: step_of(learner) for name, learner in learners.items()},
    }
    flops = {name: count_flops(workloads[name.replace(", compiled", "")]) for name in workloads if "uer" not in name}
    flops |= {name: flops[name.replace("uer", "er")] for name in workloads if "uer" in name}
    times = time_in_turns(workloads, rounds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peak = gemm_peak()
    rows = {}
    for name, taken in times.items():
        seconds = statistics.median(taken)
        gflops = flops[name] / 1e9 / seconds
        rows[name] = {
            "median_ms": 1e3 * seconds,
            "to_plain": paired_ratio(taken, times["a plain eager loop"]),
            "samples_per_second": BATCH / seconds,
            "gflops": gflops,
            "of_peak": gflops / peak,
            "outside": share_outside(learners[name], workloads[name]) if name in learners else None,
        }
    pairs = [("uer, compiled", "er, compiled"), ("uer, paper's views, compiled", "er, paper's views, compiled")]
    pairs += [("er, compiled", "er"), ("er, paper's views, compiled", "er, paper's views")]
    ratios = {f"{ours} / {theirs}": paired_ratio(times[ours], times[theirs]) for ours, theirs in pairs}
    return {"gemm_peak_gflops": peak, "rows": rows, "ratios": ratios, "peak_memory_mb": memory}


def precision(rounds: int) -> dict[str, Any]:
    """Steps in fp32 and bf16, raw and with the paper's views, and a whole run, with one thread and with all cores."""
    before = torch.get_num_threads()
    tables = {}
    for threads in dict.fromkeys((1, len(os.sched_getaffinity(0)))):
        torch.set_num_threads(threads)
        tables[f"{threads} thread{'s' if threads > 1 else ''}"] = _precision(rounds, compile=threads > 1)
    torch.set_num_threads(before)
    return tables


def _precision(rounds: int, compile: bool) -> dict[str, Any]:
    """Steps with the threads that are set, and the peaks they are compared with; without bf16 if it is emulated."""
    peaks = {"fp32": gemm_peak()}
    if native(torch.device("cpu")):
        peaks["bf16"] = gemm_peak(torch.bfloat16)
    learners: dict[str, Learner] = {}
    plain: dict[str, str] = {}  # the loop that a step is compared with
    workloads: dict[str, Workload] = {}
    for views, copies in (("none", 1), ("concat", 2)):
        loop = f"a plain eager loop, {2 * BATCH * copies} images"
        workloads[loop] = plain_loop(copies=copies)
        for method, compiled, name in itertools.product(("er", "uer"), (False, True)[: 1 + compile], peaks):
            title = f"{method}, {2 * BATCH * copies} images, {name}{', compiled' if compiled else ''}"
            learners[title] = full_learner(method, compile=compiled, views=views, precision=name)
            workloads[title], plain[title] = step_of(learners[title]), loop
    flops = {loop: count_flops(workloads[loop]) for loop in plain.values()}
    images = random_samples(500, CLASSES)[0]
    tested = next(iter(learners.values()))

    def test() -> None:
        tested.scores(images)

    times = time_in_turns({**workloads, "a test": test}, rounds)
    tests = RUN_IMAGES / len(images) * statistics.median(times.pop("a test"))
    rows = {}
    for title, taken in times.items():
        seconds, loop = statistics.median(taken), plain.get(title, title)
        rows[title] = {
            "median_ms": 1e3 * seconds,
            "to_plain": paired_ratio(taken, times[loop]),
            "of_peak": flops[loop] / 1e9 / seconds / peaks["bf16" if "bf16" in title else "fp32"],
            "outside": share_outside(learners[title], workloads[title]) if title in learners else None,
            "run_seconds": RUN_STEPS * seconds + tests if "40 images" in title else None,
        }
    pairs = [(title, title.replace("bf16", "fp32")) for title in learners if "bf16" in title]
    pairs += [(title, title.removeprefix("u")) for title in learners if title.startswith("uer")]
    ratios = {f"{ours} / {theirs}": paired_ratio(times[ours], times[theirs]) for ours, theirs in pairs}
    return {"gemm_peak_gflops": peaks, "rows": rows, "ratios": ratios}


def evaluation(rounds: int) -> dict[str, Any]:
    """Testing a thousand images: a learner's predictions against the plain network in evaluation mode."""
    learner, images = full_learner("er"), random_samples(1000, CLASSES)[0]
    plain = copy.deepcopy(learner.eval_copy()).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def eager(size: int) -> None:
        with torch.no_grad():
            for part in images.split(size):
                plain(part.float() / 255)

    def ours() -> None:
        learner.scores(images)

    workloads: dict[str, Workload] = {f"eager, batches of {size}": partial(eager, size) for size in (100, 256)}
    times = time_in_turns({**workloads, "ours": ours}, max(FEWEST, rounds // 2))
    first = next(iter(times))
    return {
        name: {"ms_per_1000": 1e3 * statistics.median(taken), "to_eager": paired_ratio(taken, times[first])}
        for name, taken in times.items()
    }


def scaling(rounds: int) -> dict[str, Any]:
    """How a step of ER grows with the memory, the classes and the size of the images."""
    small = step_of(full_learner("er"))
    sizes: dict[str, Callable[[], Workload]] = {
        **{f"memory {size:,}": partial(_sized, memory=size) for size in (10_000, 100_000, 1_000_000)},
        **{f"{count:,} classes": partial(_sized, classes=count) for count in (10, 1000, 10_000)},
        "images of 3x84x84": partial(_sized, shape=MINI),
        "a plain loop on images of 3x84x84": partial(plain_loop, MINI),
    }
    ratios = {}
    for name, build in sizes.items():  # one at a time: a million images are three gigabytes
        times = time_in_turns({"small": small, "large": build()}, rounds)
        ratios[name] = paired_ratio(times["large"], times["small"])
    return ratios


def _sized(**sizes: Any) -> Workload:
    return step_of(full_learner("er", **sizes))


def processes(rounds: int) -> dict[str, Any]:
    """Runs side by side: two processes with one thread each, against one process with two."""
    rates: dict[str, list[float]] = {"2 x 1": [], "1 x 2": [], "1 x 2, compiled": []}
    for _ in range(max(FEWEST, rounds // 10)):
        rates["2 x 1"].append(_steps_per_second(2, 1, False))
        rates["1 x 2"].append(_steps_per_second(1, 2, False))
        rates["1 x 2, compiled"].append(_steps_per_second(1, 2, True))
    return {
        "steps_per_second": {name: statistics.median(taken) for name, taken in rates.items()},
        "2 x 1 / 1 x 2": paired_ratio(rates["2 x 1"], rates["1 x 2"]),
        "2 x 1 / 1 x 2, compiled": paired_ratio(rates["2 x 1"], rates["1 x 2, compiled"]),
    }


def _steps_per_second(workers: int, threads: int, compile: bool) -> float:
    """Steps per second of several processes that run at the same time, all together."""
    command = [sys.executable, "-m", "evenhand.bench.worker", str(threads), str(int(compile))]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(workers)]
    for worker in running:  # all are warm before any starts
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in running:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return sum(float(worker.communicate()[0]) for worker in running)


def method_costs(rounds: int, methods: list[str]) -> dict[str, Any]:
    """Time and operations of methods' steps relative to ER's."""
    workloads = {name: step_of(full_learner(name)) for name in dict.fromkeys(["er", *methods])}
    flops = {name: count_flops(step) for name, step in workloads.items()}
    times = time_in_turns(workloads, rounds)
    return {
        name: {
            "time": paired_ratio(times[name], times["er"]),
            "c_d": flops[name] / flops["er"],
            "documented": registry.cost(name),
        }
        for name in workloads
    }


def _method_names(text: str) -> list[str]:
    """Split comma-separated names, or "all", and raise for an unknown one before anything is measured."""
    chosen = list(registry.recipes()) if text == "all" else names.listed(text)
    for name in chosen:
        registry.resolve(name)
    return chosen


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "steps": steps,
    "precision": precision,
    "evaluation": evaluation,
    "scaling": scaling,
    "processes": processes,
    "service": service,
    "methods": method_costs,
}
