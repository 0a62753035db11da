"""The commands about runs that are there: `evenhand runs`, `runs compare`, `runs prune`."""

import csv as csv_module
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evenhand.cli_options import Flag, print_json
from evenhand.errors import InputError, RunError

if TYPE_CHECKING:
    from evenhand.experiment.inventory import Row

runs = App(name="runs", help="List the runs below a root, compare them, clean up.")
Where = Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)]
Sort = Annotated[str, Parameter(allow_leading_hyphen=True)]


@runs.default
def listing(
    root: Path = Path("runs"),
    *,
    where: Where = None,
    sort: Sort = "data,memory,method,seed",
    json: Flag = False,
    csv: Flag = False,
) -> None:
    """List the runs below a root: what they are, their state, and their accuracy so far.

    Parameters
    ----------
    root
        The folder with the runs.
    where
        Only those with e.g. state=done, "accuracy > 0.7" or "method != *uer"; repeated, all must hold.
    sort
        Fields with commas between; -accuracy has the best first.
    json
        Print one JSON document.
    csv
        Print comma-separated values.
    """
    from evenhand import show, show_runs
    from evenhand.experiment.conditions import choose, order
    from evenhand.experiment.inventory import inventory

    _either(json, csv)
    found = inventory(root)
    rows = order(choose(found, where or ()), sort)
    if json:
        print_json({"schema": 1, "runs": [row.fields() for row in rows]})
    elif csv:
        _print_csv([row.fields() for row in rows], list(found[0].fields()))
    elif rows:
        show_runs.print_runs(show.stdout(), rows)
    else:
        print(f"None of the {len(found)} runs in {root} is like that.")


@runs.command
def compare(
    root: Path = Path("runs"), *, to: str = "er", where: Where = None, json: Flag = False, csv: Flag = False
) -> None:
    """Compare methods with a reference on the same stream and memory, paired by seed.

    Parameters
    ----------
    root
        The folder with the runs.
    to
        The reference method.
    where
        Only runs with e.g. memory=50 or "lr < 0.1"; repeated, all must hold.
    json
        Print one JSON document.
    csv
        Print comma-separated values.
    """
    from evenhand import show, show_runs
    from evenhand.experiment.conditions import choose
    from evenhand.experiment.inventory import inventory, results
    from evenhand.registry import canonical

    _either(json, csv)
    chosen = choose(inventory(root), where or ())
    name_left_out(chosen)
    found = results(chosen)
    if not found:
        raise InputError(f"There is no finished run in {root}{' that is like that' if where else ''}.")
    reference = canonical(to)
    rows = show_runs.comparison(found, reference)
    if json:
        print_json({"schema": 1, "reference": reference, "comparisons": rows})
    elif csv:
        _print_csv(rows, list(rows[0]))
    else:
        show_runs.print_comparison(show.stdout(), rows, reference)


@runs.command
def prune(root: Path = Path("runs"), *, where: Where = None, states: Flag = False, yes: Flag = False) -> int:
    """Say what could go: failed runs, those of older revisions, leftovers, stale locks. With --yes, remove it.

    Parameters
    ----------
    root
        The folder with the runs.
    where
        Only from runs with e.g. state=failed or data=cifar10; repeated, all must hold.
    states
        The states of done runs as well; their records stay.
    yes
        Remove it.
    """
    from evenhand import show, show_runs
    from evenhand.experiment import prune as pruning
    from evenhand.experiment.conditions import choose
    from evenhand.experiment.inventory import inventory

    rows = choose(inventory(root), where or ())
    for row in rows:
        if row.state in ("damaged", "running"):
            print(f"Left alone: {row.sentence}")
    removals = [removal for row in rows if (removal := pruning.plan(row, states))]
    if not removals:
        print(f"There is nothing to remove in {root}.")
        return 0
    show_runs.print_removals(show.stdout(), removals)
    if not yes:
        size = show_runs.room(sum(sum(removal.sizes.values()) for removal in removals))
        whole = sum(removal.whole for removal in removals)
        print(f"Whole runs: {whole}; runs that lose files alone: {len(removals) - whole}; together {size}.")
        print("Nothing was removed; --yes removes it.")
        return 0
    freed, problems = 0, []
    for removal in removals:
        try:
            freed += pruning.prune(removal, states)
        except RunError as error:  # one that cannot go does not keep the others
            problems.append(str(error))
    print(f"Removed {show_runs.room(freed)}.")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


def name_left_out(rows: "Sequence[Row]") -> None:
    """Say which runs are not shown though they may be finished."""
    for row in rows:
        if row.state in ("damaged", "outdated"):
            print(f"Left out: {row.sentence}", file=sys.stderr)


def _either(json: bool, csv: bool) -> None:
    if json and csv:
        raise InputError("Use either --json or --csv.")


def _print_csv(rows: Sequence[dict[str, Any]], columns: list[str]) -> None:
    writer = csv_module.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in row.items()})
