"""`evenhand paper`: reproduce the tables and figures of the paper."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from rich.table import Table
from rich.text import Text

from evenhand import names
from evenhand.cli.options import EXECUTION, Anyway, DataDir, Execution, Flag, Json, print_json
from evenhand.cli.prepare import load_dataset, use_data_dir
from evenhand.cli.tables import OPEN, print_line, stdout, table_of
from evenhand.errors import EvenhandError, InputError, RunError

if TYPE_CHECKING:
    from evenhand.experiment.spec import Spec
    from evenhand.paper import Item, Rendering

RECORDS = Path("results/paper")


@Parameter(name="*", group=Group("Selection", sort_key=1))
@dataclass(frozen=True)
class Selection:
    """The part of an item to reproduce.

    Parameters
    ----------
    seeds
        Run the seeds 0 to SEEDS - 1 instead of the paper's ten.
    datasets
        Comma-separated datasets, e.g. cifar10,cifar100.
    memory
        Comma-separated memory sizes, e.g. 500,1000.
    methods
        Comma-separated methods, spelled as in the definition, e.g. er,uer,iid++.
    tests
        Comma-separated further ways to test every method, e.g. ema; each adds a row for the same training. Finished
        runs that were not tested in this way are trained again.
    """

    seeds: int | None = None
    datasets: str | None = None
    memory: str | None = None
    methods: str | None = None
    tests: str | None = None

    def apply(self, item: "Item") -> "Item":
        """The selected part of an item."""
        from evenhand.paper import select
        from evenhand.paper.selection import with_tests

        try:
            sizes = [int(word) for word in names.listed(self.memory)]
        except ValueError:
            raise InputError(
                f"The sizes of --memory must be comma-separated whole numbers. Got '{self.memory}' instead."
            ) from None
        chosen = select(item, self.seeds, names.listed(self.datasets), sizes, names.listed(self.methods))
        return with_tests(chosen, self.tests or "")


SELECTION = Selection()


def paper(
    item: str | None = None,
    *,
    selection: Selection = SELECTION,
    execution: Execution = EXECUTION,
    data_dir: DataDir = None,
    root: Path | None = None,
    records: Path | None = None,
    anyway: Anyway = False,
    no_run: Flag = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    json: Json = False,
) -> int:
    """Reproduce a table or figure of the paper, next to the published numbers.

    Finished runs are reused, interrupted ones resumed, missing ones started; damaged ones are reported and left
    alone.
    Without an item, list them all.

    Parameters
    ----------
    item
        table1, table2, table3, table4, analysis, stages, improvement, scale, balance; or the path of a definition.
    root
        Directory with one subfolder per run. The default is the root that the definition names, or else runs/paper.
    records
        Directory with further finished runs to reuse. The default is results/paper, if it exists.
    no_run
        Start no runs; show only finished ones.
    output
        Directory for ITEM.html, .md, .tex, .csv, .png and .svg.
    """
    from evenhand import files
    from evenhand.experiment.trainings import Archive
    from evenhand.paper import load_item

    if records is not None and not records.is_dir():
        raise InputError(f"The folder {records}, given as --records, does not exist.")
    records = records or (RECORDS if RECORDS.is_dir() else None)
    if item is None:
        unused = asdict(selection) | execution.changed()
        unused |= {"data-dir": data_dir, "anyway": anyway, "no-run": no_run, "output": output}
        _refuse(unused, "without an item. Name one, e.g. evenhand paper table2")
        return _list(root, records, json)
    execution.check()
    chosen = selection.apply(load_item(item))
    if chosen.source == "bench":
        unused = {name: value for name, value in execution.changed().items() if name != "threads"}
        unused |= {"seeds": selection.seeds, "anyway": anyway}
        _refuse(unused, f"for {chosen.slug}, which times steps and starts no runs")
    if output is not None:
        files.make_folder(output)  # before anything runs
    folders = _folders(chosen, root, records)
    use_data_dir(data_dir)
    archive = Archive(folders)
    missing = [run for run in chosen.missing(archive) if run not in archive.damaged]
    problems, stopped = list(archive.damaged.values()), False
    if not no_run:
        failed, stopped = _run(chosen, missing, folders[-1], execution, anyway)
        problems += failed
    problems += _show(chosen, folders, problems, output, json)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 130 if stopped else 1 if problems else 0


def _refuse(options: dict[str, Any], where: str) -> None:
    """Raise for an option that has no effect."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"--{name} has no effect {where}.")


def _folders(item: "Item", root: Path | None, records: Path | None) -> list[Path]:
    """Where the runs of an item may be; new ones go to the last."""
    return [*([records] if records else []), root or item.root]


# All items ------------------------------------------------------------------------------------------------------------


def _list(root: Path | None, records: Path | None, json: bool) -> int:
    """Print all items: how many of their runs are done, and how long the others would take."""
    from evenhand.experiment.trainings import Archive
    from evenhand.paper import all_items
    from evenhand.paper.definitions import duration

    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for item in all_items():
        archive = Archive(_folders(item, root, records))
        try:
            runs, left = item.runs, item.missing(archive)
        except RunError as error:  # the record of its steps
            runs, left = [], item.settings()
            problems.append(str(error))
        problems += archive.damaged.values()
        rows.append(
            {
                "item": item.slug,
                "title": item.title,
                "runs": len(runs),
                "done": len(runs) - len(left) if runs else 0,
                "hours_left": item.time.hours(left),
                "hardware": item.time.hardware,
            }
        )
    for problem in dict.fromkeys(problems):
        print(f"Skipped: {problem}", file=sys.stderr)
    if json:
        print_json({"schema": 1, "items": rows})
        return 0
    table = Table("item", "description")
    for name in ("runs", "done", "time left"):
        table.add_column(name, justify="right")
    for row in rows:
        counts = (str(row["runs"]), str(row["done"])) if row["runs"] else ("-", "-")
        table.add_row(row["item"], row["title"], *counts, duration(row["hours_left"]))
    stdout().print(table)
    print(f"Times are mostly estimates, for {rows[0]['hardware']}. Items share runs.")
    print("To run a part: evenhand paper table2 --datasets cifar100 --memory 1000 --methods er,uer --seeds 2")
    return 0


# One item -------------------------------------------------------------------------------------------------------------


def _run(
    item: "Item", missing: "Sequence[Spec]", root: Path, execution: Execution, anyway: bool
) -> tuple[list[str], bool]:
    """Run what is missing; return the problems, and whether the user stopped it."""
    from evenhand.experiment.engine.queue import Failure
    from evenhand.paper.steps import measure_steps

    if item.source == "bench":
        if missing:
            measure_steps([spec.method for spec in missing], root, execution.threads)
        return [], False
    specs, problems = _with_data(missing)
    if not specs:
        return problems, False
    outcomes = execution.run(specs, root, anyway=anyway, patient=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    problems += [f"{failure.spec.key}: {failure.message}" for failure in failures if failure.cause != "stopped"]
    return problems, any(failure.cause == "stopped" for failure in failures)


def _with_data(specs: "Sequence[Spec]") -> "tuple[list[Spec], list[str]]":
    """The runs whose dataset loads, and the problems of the other datasets."""
    problems: dict[tuple[str, int | None, bool, str], str] = {}
    for source in dict.fromkeys(spec.source for spec in specs):
        try:
            load_dataset(*source)
        except EvenhandError as error:
            problems[source] = str(error)
    return [spec for spec in specs if spec.source not in problems], list(problems.values())


def _show(item: "Item", folders: Sequence[Path], problems: Sequence[str], output: Path | None, json: bool) -> list[str]:
    """Print and write an item; return what could not be written."""
    from evenhand.experiment.trainings import Archive
    from evenhand.paper import Rendering

    rendering = Rendering(item, item.results(Archive(folders)), item.steps(folders))
    written, unwritten = rendering.write(output) if output else ([], "")
    more = [unwritten] if unwritten else []
    if json:
        print_json({**rendering.document(), "problems": [*problems, *more]})
    else:
        _print_rendering(rendering)
    if output:
        print(f"{output}: {', '.join(path.name for path in written)}", file=sys.stderr if json else sys.stdout)
    return more


def _print_rendering(rendering: "Rendering") -> None:
    """Print the tables that have results of ours, and the names of the others."""
    from evenhand.paper.tables import FLAG, NOT_RUN

    item, console, styles = rendering.item, stdout(), {FLAG: "red", NOT_RUN: "dim"}
    print_line(console, item.title, "bold")
    for table in rendering.text_tables():
        if table.has_runs:
            print_line(console, f"\n{table.title}", "italic")
            cells = [[Text(cell, styles.get(cell, "")) for cell in column] for column in zip(*table.rows, strict=True)]
            columns = dict(zip(table.columns, cells, strict=True))
            console.print(table_of(columns, texts=(), numbers=table.columns[1:], **OPEN))
    if missing := [table.title for table in rendering.compared if not table.has_runs]:
        print_line(console, f"Not run: {'; '.join(missing)}.", "dim")
    notes = [rendering.progress, item.note.strip()]
    if rendering.flagged:
        notes.append('Rows marked "differs" differ by more than two standard errors of the difference.')
    print_line(console, " ".join(filter(None, notes)))
