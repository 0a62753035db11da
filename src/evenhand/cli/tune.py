"""`evenhand tune`: choose parameters by validation accuracy."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table

from evenhand.cli.options import EXECUTION, RUN_SETTINGS, Anyway, Execution, Json, Root, RunSettings, print_json
from evenhand.cli.prepare import load_dataset, use_data_dir
from evenhand.cli.tables import fitting, plus_minus, stdout
from evenhand.errors import InputError
from evenhand.metrics import percent

if TYPE_CHECKING:
    from evenhand.experiment.engine.queue import Outcome
    from evenhand.experiment.spec import Spec


def tune(
    method: str,
    *,
    field: list[str] | None = None,
    search: Literal["grid", "optuna"] = "grid",
    trials: int | None = None,
    seeds: int = 1,
    settings: RunSettings = RUN_SETTINGS,
    execution: Execution = EXECUTION,
    root: Root = Path("runs"),
    anyway: Anyway = False,
    json: Json = False,
) -> int:
    """Choose parameters of a method, or settings of its runs, by validation accuracy.

    A tenth of the training samples is held out for validation; test samples are never used. Repeat the command to
    resume an interrupted search.

    Parameters
    ----------
    method
        The method with its fixed parameters, e.g. uer or "mir(candidates=100)".
    field
        A parameter or setting with the values to try: alpha=0:1 (five points), lr=0.01:0.3:4:log or candidates=25,50;
        repeat it for several. Of a setting that takes whole numbers, such as replay, only whole values are tried,
        perhaps fewer.
    search
        Try all combinations of the points, or let Optuna propose points within the ranges and stop bad ones early.
    trials
        Number of points for Optuna to try. The default is 20.
    seeds
        Run each point with the seeds 0 to SEEDS - 1.
    """
    from evenhand.experiment.search import tune as tuning
    from evenhand.experiment.search.axis import Axis

    execution.check()
    axes = [Axis.parse(text) for text in field or []]
    if search == "grid" and trials is not None:
        raise InputError("--trials applies only to --search optuna: a grid tries every combination.")
    if search == "optuna" and (counted := [axis.name for axis in axes if axis.count]):
        raise InputError(f"Optuna may propose any value in a range. Remove the number of points from '{counted[0]}'.")
    if "tests" in settings.fields():
        raise InputError(
            "A search uses only the method's own test. Instead of --tests, add the test to the method: "
            f"evenhand tune {method}+ema."
        )
    tuner = tuning.Tuning(method, axes, settings.fields(), preset=settings.preset, seeds=seeds)
    use_data_dir(settings.data_dir)
    load_dataset(*tuner.specs({})[0].source)

    def run(specs: "list[Spec]", until: int | None) -> "Sequence[Outcome]":
        return execution.run(specs, root, anyway=anyway, until=until, patient=True)

    trials = 20 if trials is None else trials
    proposals = (
        tuner.grid(run) if search == "grid" else tuner.optuna(run, root, trials, execution.at_once(trials, seeds))
    )
    points = []
    try:
        for point in proposals:
            points.append(point)
            if search == "optuna":
                print(f"{len(points)}/{trials}: {point}", file=sys.stderr)
    except tuning.Stopped as stop:
        print(f"{stop} Repeat the command to resume the search.", file=sys.stderr)
        return 130
    choice = tuning.best(points)
    command = tuner.command(choice, root, settings.data_dir, **execution.changed())
    rows = [point.fields() for point in points]
    if json:
        print_json({"schema": 1, "points": rows, "choice": choice.values, "command": command})
        return 0
    stdout().print(tuning_table(rows, points.index(choice)))
    print(f"Chosen by validation accuracy: {tuning.spelled(choice.values)}.")
    print(f"To test it: {command}")
    return 0


def tuning_table(points: list[dict[str, Any]], chosen: int) -> Table:
    """One row and one bar per point, with the choice marked."""
    complete = [point["accuracy"] for point in points if not point["diverged"] and not point["given_up"]]
    low, high = min(complete), max(complete)  # a point given up early was tested on fewer classes

    def cells(number: int, point: dict[str, Any]) -> list[str]:
        accuracy, seeds = percent(point["accuracy"], unit=""), str(point["seeds"])
        if point["diverged"] or point["given_up"]:
            note = "diverged" if point["diverged"] else f"given up at stage {point['given_up']} with {accuracy}"
            return ["-", "-", seeds, note, ""]
        bar = "█" * (4 + round(12 * (point["accuracy"] - low) / ((high - low) or 1)))
        return [accuracy, plus_minus(point["interval"]), seeds, "chosen" * (number == chosen), bar]

    names = (*points[0]["values"], "accuracy", "95 % interval", "seeds", "note", "bar")
    rows = [[*map(str, point["values"].values()), *cells(number, point)] for number, point in enumerate(points)]
    table = fitting(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), ("note",), ("bar",))
    table.title = "Validation accuracy in %"
    return table
