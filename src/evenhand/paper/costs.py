"""What a step of a method costs next to ER's: operations are counted, times are read from a record or taken."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand import errors, files
from evenhand.experiment.spec import Spec
from evenhand.paper.definitions import Item

NAME = "table3.json"
ROUNDS = 12
ANEW = "Remove it to measure anew."
Steps = dict[str, dict[str, float]]  # by method and measure


def recorded(folders: Sequence[Path]) -> Steps:
    """What the records in folders say; of two about one method the first counts."""
    paths = [path for folder in reversed(folders) if (path := folder / NAME).exists()]
    return {method: row for path in paths for method, row in _read(files.read_json(path, then=ANEW), path).items()}


def missing(item: Item, folders: Sequence[Path]) -> list[Spec]:
    """The settings of an item whose steps have no record."""
    known = recorded(folders)
    return [spec for spec in item.settings() if spec.method not in known]


def steps(item: Item, folders: Sequence[Path]) -> Steps:
    """What the records say of an item's steps; of those that have none, C_D alone."""
    return counted([spec.method for spec in missing(item, folders)]) | recorded(folders)


def counted(methods: Sequence[str]) -> Steps:
    """C_D alone, by torch's counter: no clock is involved."""
    from evenhand.bench.contenders import CLASSES, learner, stepper
    from evenhand.bench.timing import flops

    if not methods:
        return {}
    # A small memory is full soon, and a step takes as many operations as with a large one.
    operations = {name: flops(stepper(learner(name, memory=CLASSES))) for name in dict.fromkeys(["er", *methods])}
    return {name: {"c_d": operations[name] / operations["er"]} for name in methods}


def measure(specs: Sequence[Spec], root: Path, threads: int | None) -> None:
    """Count and time steps, and add them to the record below the root; leave the machine alone meanwhile."""
    from evenhand import bench

    path = root / NAME
    before = files.read_json(path, then=ANEW)["methods"] if recorded([root]) else {}
    record = bench.measure(["methods"], ROUNDS, threads, ",".join(spec.method for spec in specs))
    files.make(root)
    files.write_json(path, {**record, "methods": {**before, **record["methods"]}})


def _read(record: Any, path: Path) -> Steps:
    try:
        rows: Mapping[str, Any] = record["methods"]
        return {name: {"c_d": float(row["c_d"]), **_time(row["time"])} for name, row in rows.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise errors.RunError(f"{path} holds no record of evenhand bench --methods ... --json.") from None


def _time(row: Mapping[str, Any]) -> dict[str, float]:
    return {"time": float(row["median"]), "time_low": float(row["low"]), "time_high": float(row["high"])}
