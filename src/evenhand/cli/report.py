"""`evenhand report`: write a page about finished runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from evenhand.cli.options import Root
from evenhand.cli.runs import warn_skipped
from evenhand.errors import InputError


def report(
    root: Root = Path("runs"), *, output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("report.html")
) -> None:
    """Write a self-contained HTML report about all finished runs.

    Damaged and outdated runs are skipped.

    Parameters
    ----------
    output
        HTML file to write.
    """
    from evenhand import report as page
    from evenhand.experiment.records.inventory import inventory, results

    rows = inventory(root, with_results=True)
    warn_skipped(rows)
    finished = results(rows)
    if not finished:
        raise InputError(f"There is no finished run in {root}. Start one with evenhand run.")
    page.write(finished, output)
    count = len({result.key for result in finished})
    print(f"{output}: {count} run{'s' * (count != 1)}")
