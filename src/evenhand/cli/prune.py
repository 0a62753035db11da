"""`evenhand runs prune`: remove what is no longer needed."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from evenhand.cli.options import Flag, Root
from evenhand.cli.runs import Where
from evenhand.cli.tables import OPEN, stdout, table_of
from evenhand.errors import RunError

if TYPE_CHECKING:
    from evenhand.experiment.records.prune import Removal


def prune(root: Root = Path("runs"), *, where: Where = None, states: Flag = False, yes: Flag = False) -> int:
    """Find failed and outdated runs, leftover files and stale locks; remove them with --yes.

    Parameters
    ----------
    states
        Also remove the saved states of finished runs; their records stay.
    yes
        Remove everything that is listed.
    """
    from evenhand.experiment.records import prune as pruning
    from evenhand.experiment.records.filters import select
    from evenhand.experiment.records.inventory import inventory

    rows = select(inventory(root), where or ())
    for row in rows:
        if row.state in ("damaged", "running"):
            print(f"Skipped: {row.message}")
    removals = [removal for row in rows if (removal := pruning.plan(row, states))]
    if not removals:
        print(f"Nothing to remove in {root}.")
        return 0
    print_removals(stdout(), removals)
    if not yes:
        whole, size = sum(removal.whole for removal in removals), _size(sum(removal.size for removal in removals))
        print(f"Runs to remove: {whole}; other runs with files to remove: {len(removals) - whole}; total: {size}.")
        print("Nothing was removed. Use --yes to remove all of it.")
        return 0
    freed, problems = 0, []
    for removal in removals:
        try:
            freed += pruning.prune(removal, states)
        except RunError as error:
            problems.append(str(error))
    print(f"Removed {_size(freed)}.")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


def print_removals(console: Console, removals: "Sequence[Removal]") -> None:
    """Print what would be removed."""
    columns: dict[str, list[str | Text]] = {
        "run": [removal.entry.key for removal in removals],
        "remove": [Text(removal.what, "red" if removal.whole else "") for removal in removals],
        "size": [_size(removal.size) for removal in removals],
    }
    console.print(table_of(columns, ("run", "remove"), ("size",), **OPEN))


def _size(count: int) -> str:
    return decimal(count).replace(" bytes", " B")
