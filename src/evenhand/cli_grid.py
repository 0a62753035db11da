"""The commands about many runs: `evenhand grid`, `evenhand tune`."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evenhand.cli_data import prepare, use
from evenhand.cli_options import COMPILE, PLACE, SETTING, Compile, Flag, Place, Setting, print_json
from evenhand.errors import RunError

if TYPE_CHECKING:
    from evenhand.experiment.engine import Outcome
    from evenhand.experiment.spec import Spec

THEN = {"done": "read", "running": "wait", "stopped": "go on", "failed": "try again", "damaged": "fail"}


def grid(
    file: Path,
    *,
    root: Path | None = None,
    place: Place = PLACE,
    compile: Compile = "auto",
    track: str = "",
    data_dir: Path | None = None,
    anyway: Flag = False,
    dry_run: Flag = False,
    json: Flag = False,
) -> int:
    """Run all that a grid file names: what is missing is run, what was stopped goes on, a failure stops nothing.

    Several commands may work on one grid at once, on machines that share the root: none makes a run that another one
    is making, and the runs of one that died are taken over.

    Parameters
    ----------
    file
        A TOML file: every list in it is an axis, e.g. methods = ["er", "uer"], memory = [200, 1000], seeds = 3.
    root
        The folder below which every run has its own; as the file says, or runs.
    compile
        Make the network faster with torch.compile; auto does so in runs that are long enough to pay for it.
    track
        Tell others of the records as well, with commas between: tensorboard, mlflow, wandb, module:attribute.
    data_dir
        Where datasets lie; EVENHAND_DATA says the same.
    anyway
        Go on with runs that were begun under other versions or threads, though their bits may then differ.
    dry_run
        Say what would be done, and do nothing.
    json
        Print one JSON document and nothing else.
    """
    from evenhand.experiment import grid as grids

    read = grids.read(file)
    root = root or read.root or Path("runs")
    place.check()
    tracked = sinks(track)
    use(data_dir)
    if dry_run:
        _show_plan(read.specs, root, json)
        return 0
    ready(read.specs, root)
    outcomes = place.run(read.specs, root, anyway=anyway, compile=COMPILE[compile], track=tracked, patient=True)
    code = conclude(outcomes, json)
    return 1 if code == 2 else code


def tune(
    method: str,
    *,
    field: list[str] | None = None,
    search: Literal["grid", "optuna"] = "grid",
    trials: int | None = None,
    seeds: int = 1,
    setting: Setting = SETTING,
    place: Place = PLACE,
    root: Path = Path("runs"),
    anyway: Flag = False,
    json: Flag = False,
) -> int:
    """Choose parameters of a method, or of its runs, by a tenth of the training samples held out for it.

    No test sample is touched. The same command goes on with a search that was stopped.

    Parameters
    ----------
    method
        Its name, with the parameters that are fixed.
    field
        What to choose: alpha=0:1 (five points), lr=0.01:0.3:4:log, candidates=25,50; once for each field. Where a
        field takes whole numbers, as replay does, a range has whole points only, perhaps fewer.
    search
        All combinations of the points, or Optuna's proposals within the ranges, where hopeless ones end early.
    trials
        Points that Optuna may try (20).
    seeds
        Run each point with the seeds 0 to K - 1.
    root
        The folder below which every run has its own.
    anyway
        Go on with runs that were begun under other versions or threads.
    json
        Print one JSON document and nothing else.
    """
    from evenhand import errors, show
    from evenhand.experiment import tune as tuning
    from evenhand.experiment.axis import Axis
    from evenhand.experiment.engine import Outcome
    from evenhand.experiment.spec import Spec

    place.check()
    axes = [Axis.parse(text) for text in field or []]
    if search == "grid" and trials is not None:
        raise errors.InputError("A grid tries every combination: use --trials with --search optuna.")
    if search == "optuna" and (counted := [axis.name for axis in axes if axis.count]):
        raise errors.InputError(f"Optuna proposes any value of a range: leave out how many points '{counted[0]}' has.")
    found = tuning.Tuning(method, axes, setting.fields(), preset=setting.preset, seeds=seeds)
    setting.prepare()

    def run(specs: list[Spec], until: int | None) -> Sequence[Outcome]:
        return place.run(specs, root, anyway=anyway, until=until, patient=True)

    trials = 20 if trials is None else trials
    at_once = place.at_once(trials, seeds)
    asked = found.grid(run) if search == "grid" else found.optuna(run, root, trials, at_once)
    points = []
    try:
        for point in asked:
            points.append(point)
            if search == "optuna":
                print(f"{len(points)}/{trials}: {point}", file=sys.stderr)
    except tuning.Stopped as request:
        print(f"{request} The same command goes on with the search.", file=sys.stderr)
        return 130
    choice = tuning.best(points)
    command = found.command(choice, root, setting.data_dir)
    if json:
        document = {"schema": 1, "points": [point.fields() for point in points], "choice": choice.values}
        print_json({**document, "command": command})
        return 0
    show.stdout().print(show.tuning_table([point.fields() for point in points], points.index(choice)))
    print(f"Chosen by held-out training samples: {tuning.spelled(choice.values)}.")
    print(f"The final test: {command}")
    return 0


def ready(specs: "Sequence[Spec]", root: Path) -> None:
    """Make the data ready of runs that are not done, so that from then on they load at once."""
    from evenhand.experiment.folder import Folder

    def done(spec: "Spec") -> bool:
        with suppress(RunError):  # what is damaged is named when its run is tried
            return Folder(root, spec).result() is not None
        return False

    for kind in dict.fromkeys(spec.source for spec in specs if not done(spec)):
        prepare(*kind)


def conclude(outcomes: "Sequence[Outcome]", json: bool) -> int:
    """Print what came of many runs; the exit code."""
    from evenhand import show
    from evenhand.experiment.engine import Failure
    from evenhand.experiment.result import Result, by_setting, summarise
    from evenhand.experiment.spec import titles

    done = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    groups = by_setting(done)
    summaries = [summarise(group) for group in groups]
    if json:
        failed = [
            {"key": failure.spec.key, "cause": failure.cause, "sentence": failure.sentence} for failure in failures
        ]
        print_json({"schema": 1, "results": summaries, "failures": failed})
    elif summaries:
        names = titles([group[0].spec for group in groups], seeds=False)
        show.stdout().print(show.results_table(summaries, names))
    for failure in failures:
        print(failure.trace, end="", file=sys.stderr)
    causes = {failure.cause for failure in failures}
    return 1 if causes & {"fault", "lost"} else 130 if "stopped" in causes else 2 if causes else 0


def sinks(names: str) -> tuple[str, ...]:
    """The names of sinks in a text with commas; a wrong one is named before anything has run."""
    from evenhand.experiment.tracking import Tracker

    given = tuple(name.strip() for name in names.split(",") if name.strip())
    Tracker(given)
    return given


def _show_plan(specs: "Sequence[Spec]", root: Path, json: bool) -> None:
    """Print what there is of each run, and what would be done."""
    from rich.markup import escape
    from rich.table import Table

    from evenhand import show
    from evenhand.experiment import inventory
    from evenhand.experiment.spec import titles

    rows = [inventory.read(root / spec.key) if (root / spec.key / "spec.json").exists() else None for spec in specs]
    plan = [
        {"key": spec.key, "run": name, "state": row.state if row else "missing", "stage": row.stage if row else 0}
        for spec, name, row in zip(specs, titles(specs), rows, strict=True)
    ]
    if json:
        print_json({"schema": 1, "root": str(root), "runs": plan})
        return
    table = Table("run", "there is", "stages", "then", "key")
    for spec, line in zip(specs, plan, strict=True):
        stages = f"{line['stage']}/{spec.stages}"
        table.add_row(
            escape(str(line["run"])), str(line["state"]), stages, THEN.get(str(line["state"]), "run"), spec.key
        )
    show.stdout().print(table)
    counts = Counter(str(line["state"]) for line in plan)
    print(f"{len(plan)} runs below {root}: {', '.join(f'{count} {state}' for state, count in counts.items())}.")
