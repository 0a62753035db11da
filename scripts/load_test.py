"""Load tests: many tiny runs, a long stream and the cost of checkpoints, printed as one JSON document.

python scripts/load_test.py > results/bench/load.json
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evenhand.backbones import MLP
from evenhand.bench.service import resident_mb
from evenhand.bench.workloads import full_learner
from evenhand.core.learner import Learner
from evenhand.experiment.engine.dispatch import run_all
from evenhand.experiment.environment import environment, hardware
from evenhand.experiment.folder import Folder
from evenhand.experiment.records.inventory import inventory
from evenhand.experiment.spec import Spec

RUNS, WORKERS = 500, 2
SAMPLES, BATCH, FEATURES, KEPT = 1_000_000, 100, 16, 1000
CHECKPOINT_SECONDS = 60  # between two checkpoints of a run
CHECKPOINTS = 10  # timed for each memory size


def grid(runs: int = RUNS) -> dict[str, Any]:
    """Tiny runs in two processes, compared with a tenth of them run one after another in this process."""
    specs = [Spec.make(method="er", backbone="mlp(hidden=8)", memory=20, batch=50, seed=seed) for seed in range(runs)]
    few = specs[: max(1, runs // 10)]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        run_all(specs[:2], root / "warm-up", engine="inline", threads=1)
        inline = _seconds(lambda: run_all(few, root / "inline", engine="inline", threads=1)) / len(few)
        total = _seconds(lambda: run_all(specs, root / "all", engine="processes", workers=WORKERS, threads=1))
        whole = sum(entry.state == "done" for entry in inventory(root / "all"))
    per_run = total * WORKERS / runs  # of a worker's time, including its start
    return {
        "runs": runs,
        "whole": whole,
        "seconds": total,
        "worker_ms_per_run": 1e3 * per_run,
        "inline_ms_per_run": 1e3 * inline,
        "overhead_ms_per_run": 1e3 * (per_run - inline),
    }


def stream(samples: int = SAMPLES) -> dict[str, Any]:
    """A stream of vectors through one learner: resident memory and speed after each tenth."""
    generator = torch.Generator().manual_seed(0)
    learner = Learner(MLP((FEATURES,), hidden=64), "uer", memory=KEPT, device="cpu")
    tenths, resident, full = [], [], 0.0
    steps = samples // BATCH
    began = time.perf_counter()
    for step in range(1, steps + 1):
        y = torch.randint(50, (BATCH,), generator=generator)
        x = torch.randn(BATCH, FEATURES, generator=generator) + y[:, None] / 10
        learner.observe(x, y)
        if not full and len(learner.memory) == KEPT:
            full = resident_mb()
        if step % (steps // 10) == 0:
            tenths.append((steps // 10) / (time.perf_counter() - began))
            resident.append(resident_mb())
            began = time.perf_counter()
    return {
        "samples": steps * BATCH,
        "steps_per_second": tenths,
        "last_to_first": tenths[-1] / tenths[0],
        "resident_mb_when_full": full,
        "resident_mb": resident,
        "growth": resident[-1] / full - 1,
    }


def checkpoints() -> dict[str, Any]:
    """What a checkpoint of a CIFAR-100 run costs, as a share of the minute between two of them."""
    rows = {}
    for size in (1000, 5000, 10_000):
        learner = full_learner("er", memory=size)
        with tempfile.TemporaryDirectory(dir=".") as root:  # on the disk where runs are stored, not a RAM disk
            folder = Folder(Path(root), Spec.make(method="er", data="cifar100", memory=size))
            folder.path.mkdir()

            def save(folder: Folder = folder, learner: Learner = learner) -> None:
                facts = {"learner": learner.facts(), "metrics": [], "timing": []}
                folder.checkpoint(learner.state_dict(), facts)

            seconds = statistics.median(_seconds(save) for _ in range(CHECKPOINTS))
            megabytes = folder.state.stat().st_size / 1e6
        share = seconds / CHECKPOINT_SECONDS
        rows[f"memory {size:,}"] = {"ms": 1e3 * seconds, "megabytes": megabytes, "share": share}
    return rows


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    load = {"grid": grid(), "stream": stream(), "checkpoints": checkpoints()}
    print(json.dumps({"schema": 2, "environment": {**environment(), **hardware()}, "load": load}, indent=2))
