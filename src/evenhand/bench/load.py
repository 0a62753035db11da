"""Load: many tiny runs, a stream without end, and what checkpoints cost."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evenhand.backbones import MLP
from evenhand.bench.contenders import learner
from evenhand.experiment.engine import run_all
from evenhand.experiment.folder import Folder
from evenhand.experiment.inventory import inventory, results
from evenhand.experiment.spec import Spec
from evenhand.learner import Learner

RUNS, WORKERS = 500, 2
SAMPLES, BATCH, FEATURES, KEPT = 1_000_000, 100, 16, 1000
CHECKPOINT_SECONDS = 60  # between two checkpoints of a run


def load(rounds: int) -> dict[str, Any]:
    """All three; the grid and the stream once, the checkpoints in rounds."""
    return {"grid": grid(), "stream": stream(), "checkpoints": checkpoints(rounds)}


def grid(runs: int = RUNS) -> dict[str, Any]:
    """Tiny runs in two processes, against a tenth of them one after the other in this one."""
    specs = [Spec.make(method="er", backbone="mlp(hidden=8)", memory=20, batch=50, seed=seed) for seed in range(runs)]
    with tempfile.TemporaryDirectory() as place:
        run_all(specs[:2], Path(place) / "warm", engine="inline", threads=1)
        few = specs[: max(1, runs // 10)]
        alone = _seconds(lambda: run_all(few, Path(place) / "alone", engine="inline", threads=1)) / len(few)
        root = Path(place) / "all"
        took = _seconds(lambda: run_all(specs, root, engine="processes", workers=WORKERS, threads=1))
        whole = len(results(inventory(root)))
    share = took * WORKERS / runs  # of a worker's time, its start included
    return {
        "runs": runs,
        "whole": whole,
        "seconds": took,
        "worker_ms_per_run": 1e3 * share,
        "inline_ms_per_run": 1e3 * alone,
        "overhead_ms_per_run": 1e3 * (share - alone),
    }


def stream(samples: int = SAMPLES) -> dict[str, Any]:
    """A stream of vectors through one learner: its resident memory and speed, by tenths."""
    drawn = torch.Generator().manual_seed(0)
    made = Learner(MLP((FEATURES,), hidden=64), "uer", memory=KEPT, device="cpu")
    tenths, resident, full = [], [], 0.0
    steps = samples // BATCH
    began = time.perf_counter()
    for step in range(1, steps + 1):
        y = torch.randint(50, (BATCH,), generator=drawn)
        x = torch.randn(BATCH, FEATURES, generator=drawn) + y[:, None] / 10
        made.observe(x, y)
        if not full and len(made.memory) == KEPT:
            full = _resident()
        if step % (steps // 10) == 0:
            tenths.append((steps // 10) / (time.perf_counter() - began))
            resident.append(_resident())
            began = time.perf_counter()
    return {
        "samples": steps * BATCH,
        "steps_per_second": tenths,
        "last_to_first": tenths[-1] / tenths[0],
        "resident_mb_when_full": full,
        "resident_mb": resident,
        "growth": resident[-1] / full - 1,
    }


def checkpoints(rounds: int) -> dict[str, Any]:
    """What a checkpoint of a CIFAR-100 run takes, as a share of the minute between two of them."""
    found = {}
    for size in (1000, 5000, 10_000):
        made = learner("er", memory=size)
        with tempfile.TemporaryDirectory(dir=".") as place:  # the disk where runs live, and no RAM disk
            folder = Folder(Path(place), Spec.make(method="er", data="cifar100", memory=size))
            folder.path.mkdir()

            def save(folder: Folder = folder, made: Learner = made) -> None:
                facts = {"learner": made.facts(), "metrics": [], "timing": []}
                folder.checkpoint(made.state_dict(), facts)

            seconds = statistics.median(_seconds(save) for _ in range(max(3, rounds // 3)))
            megabytes = folder.state.stat().st_size / 1e6
        share = seconds / CHECKPOINT_SECONDS
        found[f"memory {size:,}"] = {"ms": 1e3 * seconds, "megabytes": megabytes, "share": share}
    return found


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
