"""Measured steps, looked up in several folders so that nothing is measured twice."""

from collections.abc import Sequence
from pathlib import Path

from evenhand import errors, files

STEPS_FILE = "table3.json"
ROUNDS = 12
REMEDY = "Remove it to measure again."
Steps = dict[str, dict[str, float]]  # method -> measure -> number


def recorded_steps(folders: Sequence[Path]) -> Steps:
    """Read the measured steps in these folders; the first that has a method wins."""
    paths = [path for folder in reversed(folders) if (path := folder / STEPS_FILE).exists()]
    return {method: row for path in paths for method, row in _read_steps(path).items()}


def counted_steps(methods: Sequence[str]) -> Steps:
    """Count the operations of a step relative to ER (C_D), without timing anything."""
    from evenhand.bench.workloads import CLASSES, full_learner, step_of
    from evenhand.core.flops import count_flops

    if not methods:
        return {}
    # A small memory fills soon, and a step takes as many operations as with a large one.
    steps = {name: step_of(full_learner(name, memory=CLASSES)) for name in dict.fromkeys(["er", *methods])}
    flops = {name: count_flops(step) for name, step in steps.items()}
    return {name: {"c_d": flops[name] / flops["er"]} for name in methods}


def measure_steps(methods: Sequence[str], root: Path, threads: int | None) -> None:
    """Count and time steps, and add them to the record in a folder; needs an otherwise idle machine."""
    from evenhand import bench

    path = root / STEPS_FILE
    before = files.read_json(path, then=REMEDY)["methods"] if recorded_steps([root]) else {}
    record = bench.measure(["methods"], ROUNDS, threads, ",".join(methods))
    files.make_folder(root)
    files.write_json(path, {**record, "methods": {**before, **record["methods"]}})


def _read_steps(path: Path) -> Steps:
    record = files.read_json(path, then=REMEDY)
    steps: Steps = {}
    try:
        for name, row in record["methods"].items():
            low, time, high = (float(row["time"][end]) for end in ("low", "median", "high"))
            steps[name] = {"c_d": float(row["c_d"]), "time": time, "time_low": low, "time_high": high}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise errors.RunError(f"{path} is not a record of evenhand bench --methods ... --json.") from None
    return steps
