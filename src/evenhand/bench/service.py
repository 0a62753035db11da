"""A learner in service: threads that predict single samples while one learns, and a stream of single samples."""

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evenhand.backbones import MLP, SmallCNN
from evenhand.bench.workloads import BATCH, CIFAR, random_samples
from evenhand.core.learner import Learner

ASKERS, SINGLES = 8, 1_000_000


def service(rounds: int) -> dict[str, Any]:
    """Load on one learner; with 30 rounds, a minute of predictions and a million single samples."""
    learner, seconds = Learner(SmallCNN(CIFAR), memory=1000, device="cpu"), 2 * rounds
    x, y = random_samples(BATCH, 10)
    learner.observe(x, y)
    single, several = x[:1], x[:ASKERS]
    alone = _loaded(learner, (x, y), seconds / 4)
    beside = _loaded(learner, (x, y), seconds, [lambda: learner.predict(single)] * ASKERS)
    together = _loaded(learner, (x, y), seconds / 2, [lambda: learner.predict(several)])
    times = sorted(beside["times"])
    return {
        "threads": ASKERS,
        "errors": beside["errors"] + together["errors"],
        "p50_ms": 1e3 * statistics.median(times),
        "p99_ms": 1e3 * times[int(0.99 * len(times))],
        "predictions_per_second": len(times) / seconds,
        "predictions_per_second_in_batches": ASKERS * len(together["times"]) / (seconds / 2),
        "learning_beside_them": beside["rate"] / alone["rate"],
        "learning_beside_batches": together["rate"] / alone["rate"],
        "singles": _singles(SINGLES * rounds // 30),
    }


def _loaded(
    learner: Learner, batch: Any, seconds: float, asks: list[Callable[[], object]] | None = None
) -> dict[str, Any]:
    """Learn for some seconds while threads ask: steps per second, the time of every prediction, and failures."""
    times: list[float] = []
    failures: list[BaseException] = []
    end = time.perf_counter() + seconds

    def ask(predict: Callable[[], object]) -> None:
        while (start := time.perf_counter()) < end:
            try:
                predict()
            except Exception as error:
                failures.append(error)
            times.append(time.perf_counter() - start)

    threads = [threading.Thread(target=ask, args=(each,)) for each in asks or ()]
    for thread in threads:
        thread.start()
    steps = 0
    while time.perf_counter() < end:
        learner.observe(*batch)
        steps += 1
    for thread in threads:
        thread.join()
    return {"rate": steps / seconds, "times": times, "errors": len(failures)}


def _singles(count: int) -> dict[str, Any]:
    """A stream of single samples, and the memory of the process after a tenth of it and at its end, in MB."""
    learner = Learner(MLP((16,), hidden=32), memory=1000, device="cpu")
    x, y = torch.rand(1000, 16), [number % 10 for number in range(1000)]
    early, threads = 0.0, torch.get_num_threads()
    torch.set_num_threads(1)  # more would only get in each other's way
    for number in range(count):
        learner.observe(x[number % 1000].unsqueeze(0), [y[number % 1000]])
        if number == count // 10:
            early = resident_mb()
    torch.set_num_threads(threads)
    return {"count": count, "early_mb": early, "late_mb": resident_mb()}


def resident_mb() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
