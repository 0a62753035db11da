"""`evenhand grid`: run every combination in a grid file."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import EXECUTION, Anyway, DataDir, Execution, Flag, Json, Track, print_json
from evenhand.cli.prepare import load_missing, trackers, use_data_dir
from evenhand.cli.run import conclude
from evenhand.cli.tables import fitting, stdout

if TYPE_CHECKING:
    from evenhand.experiment.spec import Spec

ACTIONS = {"done": "reuse", "running": "wait", "stopped": "resume", "failed": "retry", "damaged": "fail"}


def grid(
    file: Path,
    *,
    root: Path | None = None,
    execution: Execution = EXECUTION,
    track: Track = None,
    data_dir: DataDir = None,
    anyway: Anyway = False,
    dry_run: Flag = False,
    json: Json = False,
) -> int:
    """Run every combination in a grid file.

    Finished runs are reused, interrupted ones resumed, missing ones started; a failure does not stop the others.

    Several commands can work on one grid at the same time, also on machines that share the root: they never start the
    same run twice, and take over the runs of a command that died.

    Parameters
    ----------
    file
        A TOML file in which every list is an axis: methods = ["er", "uer"], memory = [200, 1000], seeds = 3.
    root
        Directory with one subfolder per run. The default is the root that the file names, or else runs.
    dry_run
        Show what would be done, and do nothing.
    """
    from evenhand.experiment import grid as grids

    plan = grids.read_grid(file)
    root = root or plan.root or Path("runs")
    execution.check()
    tracked = trackers(track)
    use_data_dir(data_dir)
    if dry_run:
        _show_plan(plan.specs, root, json)
        return 0
    load_missing(plan.specs, root)
    outcomes = execution.run(plan.specs, root, anyway=anyway, track=tracked, patient=True)
    code = conclude(outcomes, json)
    return 1 if code == 2 else code


def _show_plan(specs: "Sequence[Spec]", root: Path, json: bool) -> None:
    """Print the state of every run and what would be done with it."""
    from evenhand.experiment.records import inventory
    from evenhand.experiment.spec import titles
    from evenhand.experiment.trainings import plan as planned

    runs = planned(specs, [root])
    plan: list[dict[str, Any]] = []
    for spec, title in zip(specs, titles(specs), strict=True):
        key = runs[spec].key
        row = inventory.read_entry(root / key) if (root / key / "spec.json").exists() else None
        state, stage = (row.state, row.stage) if row else ("missing", 0)
        plan.append({"key": key, "run": title, "state": state, "stage": stage})
    if json:
        print_json({"schema": 1, "root": str(root), "runs": plan})
        return
    columns = {
        "run": [line["run"] for line in plan],
        "state": [line["state"] for line in plan],
        "stages": [f"{line['stage']}/{spec.stages}" for spec, line in zip(specs, plan, strict=True)],
        "action": [ACTIONS.get(line["state"], "start") for line in plan],
        "key": [line["key"] for line in plan],
    }
    stdout().print(fitting(columns, texts=("run",), optional=("key",)))
    states = {line["key"]: line["state"] for line in plan}
    counts = ", ".join(f"{count} {state}" for state, count in Counter(states.values()).items())
    print(f"{len(states)} run{'s' * (len(states) != 1)} in {root}: {counts}.")
