"""What a step of a method costs next to ER's: operations are counted, times are read from a record or taken."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand import errors, files
from evenhand.paper.definitions import Item

NAME = "table3.json"
ROUNDS = 12
Steps = dict[str, dict[str, float]]  # by method and measure


def recorded(folders: Sequence[Path]) -> Steps:
    """What the first record says that a folder has, else nothing."""
    for path in (folder / NAME for folder in folders):
        if path.exists():
            return _read(files.read_json(path), path)
    return {}


def counted(methods: Sequence[str]) -> Steps:
    """C_D alone, by torch's counter: no clock is involved."""
    from evenhand.bench.contenders import CLASSES, learner, stepper
    from evenhand.bench.timing import flops

    # A small memory is full soon, and a step takes as many operations as with a large one.
    operations = {name: flops(stepper(learner(name, memory=CLASSES))) for name in dict.fromkeys(["er", *methods])}
    return {name: {"c_d": operations[name] / operations["er"]} for name in methods}


def measure(item: Item, root: Path, threads: int | None) -> None:
    """Count and time the steps of an item, and leave the record below the root; leave the machine alone meanwhile."""
    from evenhand import bench

    names = ",".join(dict.fromkeys(spec.method for spec in item.specs))
    record = bench.measure(["methods"], ROUNDS, threads, names)
    root.mkdir(parents=True, exist_ok=True)
    files.write_json(root / NAME, record)


def _read(record: Any, path: Path) -> Steps:
    try:
        rows: Mapping[str, Any] = record["methods"]
        return {name: {"c_d": float(row["c_d"]), "time": float(row["time"]["median"])} for name, row in rows.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise errors.RunError(f"{path} holds no record of evenhand bench --methods ... --json.") from None
