"""Records: finished runs and measured steps, looked up in several folders so that nothing is computed twice."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from evenhand import errors, files
from evenhand.experiment.estimate import grouped
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

STEPS_FILE = "table3.json"
ROUNDS = 12
REMEDY = "Remove it to measure again."
Steps = dict[str, dict[str, float]]  # method -> measure -> number


def trainings(specs: Iterable[Spec]) -> list[list[Spec]]:
    """Group specs that share one training, simplest method first; only Table 1 has groups of two."""
    groups = grouped(dict.fromkeys(specs), lambda spec: spec.training).values()
    return [sorted(group, key=lambda spec: len(spec.method)) for group in groups]


def finished(specs: Sequence[Spec], folders: Sequence[Path], others: Sequence[Spec] = ()) -> list[Result]:
    """Load the finished runs of these specs, from the first folder that has them; `others` may share their training."""
    found = {result.spec: result for group in _wanted(specs, others) for result in _results(group, folders)}
    return [found[spec] for spec in dict.fromkeys(specs) if spec in found]


def missing(specs: Sequence[Spec], folders: Sequence[Path], others: Sequence[Spec] = ()) -> list[Spec]:
    """List the runs that these specs still need; `others` may share their training."""
    return [group[0] for group in _wanted(specs, others) if not _results(group, folders)]


def _wanted(specs: Sequence[Spec], others: Sequence[Spec]) -> list[list[Spec]]:
    wanted = set(specs)
    return [group for group in trainings([*specs, *others]) if not wanted.isdisjoint(group)]


def _results(group: Sequence[Spec], folders: Sequence[Path]) -> list[Result]:
    """Load the results of specs that share a training: each its own, else another's tested in the form it needs."""
    own: dict[Spec, Result] = {}
    for spec in group:
        key = spec.key
        candidates = (Folder(root, spec).result() for root in folders if (root / key).is_dir())
        if result := next(filter(None, candidates), None):
            own[spec] = result
    donor = next(iter(own.values()), None)
    return [own.get(spec) or donor.tested_as(spec) for spec in group] if donor else []


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
