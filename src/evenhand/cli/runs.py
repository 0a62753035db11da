"""`evenhand runs`: list the runs in a directory."""

import csv as csv_module
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evenhand.cli.options import Flag, Json, Root, print_json
from evenhand.cli.tables import OPEN, print_line, stdout, table_of, width
from evenhand.errors import InputError
from evenhand.metrics import percent

if TYPE_CHECKING:
    from evenhand.experiment.records.inventory import RunEntry

runs = App(name="runs", help="List, compare and clean up runs.")
Where = Annotated[
    list[str] | None,
    Parameter(
        negative=(),
        allow_leading_hyphen=True,
        help='Only runs that match, e.g. state=done, "accuracy > 0.7", "method != *uer"; repeat it to combine several.',
    ),
]
Csv = Annotated[Flag, Parameter(help="Print comma-separated values.")]

STYLES = {"running": "cyan", "stopped": "yellow", "failed": "red", "damaged": "red", "outdated": "magenta"}
OPTIONAL = ("key", "touched", "seconds", "forgetting")  # in a narrow terminal keys are cut first, the others omitted
NARROW = 18  # characters of a wrapped text there
MAIN = ("method", "data", "memory", "seed")  # fields of a spec that get their own column
NUMBERS = ("memory", "seed", "stages", "accuracy", "forgetting", "seconds")
COLUMNS: "dict[str, Callable[[RunEntry], str]]" = {
    "stages": lambda row: "-" if row.spec is None else f"{row.stage}/{row.spec.stages}",
    "accuracy": lambda row: percent(row.accuracy, unit=""),
    "forgetting": lambda row: percent(row.forgetting, unit=""),
    "seconds": lambda row: "-" if row.seconds is None else f"{row.seconds:.0f}",
    "touched": lambda row: "-" if row.touched is None else f"{row.touched:%Y-%m-%d %H:%M}",
    "key": lambda row: row.key,
}


@runs.default
def listing(
    root: Root = Path("runs"),
    *,
    where: Where = None,
    sort: Annotated[str, Parameter(allow_leading_hyphen=True)] = "data,memory,method,seed",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List the runs in a directory: settings, state, and accuracy so far.

    Parameters
    ----------
    sort
        Comma-separated fields to sort by; a minus puts the largest first, e.g. -accuracy.
    """
    from evenhand.experiment.records.filters import select, sort_entries
    from evenhand.experiment.records.inventory import inventory

    check_format(json, csv)
    everything = inventory(root)
    rows = sort_entries(select(everything, where or ()), sort)
    if json:
        print_json({"schema": 1, "runs": [row.fields() for row in rows]})
    elif csv:
        print_csv([row.fields() for row in rows], list(everything[0].fields()))
    elif rows:
        print_runs(stdout(), rows)
    else:
        print(f"No run in {root} matches ({len(everything)} in all).")


def check_format(json: bool, csv: bool) -> None:
    """Raise if both formats are requested."""
    if json and csv:
        raise InputError("Use either --json or --csv, not both.")


def print_csv(rows: Sequence[dict[str, Any]], columns: list[str]) -> None:
    """Print rows as comma-separated values; a list becomes its items separated by spaces."""
    writer = csv_module.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in row.items()})


def warn_skipped(rows: "Sequence[RunEntry]") -> None:
    """Print which runs are not evaluated although they may be finished."""
    for row in rows:
        if row.state in ("damaged", "outdated"):
            print(f"Skipped: {row.message}", file=sys.stderr)


def print_runs(console: Console, rows: "Sequence[RunEntry]") -> None:
    """Print the table of runs, then what it omits, and the problems of single runs."""
    usual, varying = _fields(rows)
    omitted: list[str] = []
    while width(console, table := _table(rows, usual, varying, omitted)) > console.width:
        if len(omitted) == len(OPTIONAL):
            break
        omitted.append(OPTIONAL[len(omitted)])
    console.print(table)
    counts = Counter(row.state for row in rows)
    shared = [f"{name} {usual[name]}" for name in ("data", "memory") if usual and name not in varying]
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    print_line(console, ". ".join([states, *([f"All with {', '.join(shared)}"] if shared else []), "Accuracies in %."]))
    if fast := sum(row.precision == "bf16" for row in rows):
        print_line(console, f"{'All' if fast == len(rows) else fast} in bf16.")
    if other := [f"{name} {_shown(usual[name])}" for name in varying if name not in MAIN]:
        print_line(console, f"Settings, unless the table says otherwise: {', '.join(other)}.")
    if omitted:
        hidden = f"; omitted: {', '.join(omitted[1:])}" if omitted[1:] else ""
        print_line(console, f"Narrow terminal: keys are shortened{hidden}. See --json or --csv for everything.")
    if counts["outdated"]:
        print_line(console, "Outdated runs used an older definition of their method; evenhand runs prune removes them.")
    for row in rows:
        if row.note and row.state != "outdated":
            print_line(console, row.message, STYLES.get(row.state))


def _fields(rows: "Sequence[RunEntry]") -> tuple[dict[str, Any], list[str]]:
    """The most frequent value of every field of a spec, and the fields in which runs differ, except the stages."""
    specs = [row.spec.model_dump() for row in rows if row.spec is not None]
    counts = {name: Counter(spec[name] for spec in specs) for name in (specs[0] if specs else ())}
    usual = {name: count.most_common(1)[0][0] for name, count in counts.items()}
    return usual, [name for name, count in counts.items() if len(count) > 1 and name != "stages"]


def _table(rows: "Sequence[RunEntry]", usual: dict[str, Any], varying: Sequence[str], omitted: Sequence[str]) -> Table:
    columns: dict[str, Sequence[str | Text]] = {
        name: [_shown(row.value(name)) for row in rows] for name in MAIN if name in ("method", "seed", *varying)
    }
    if others := [name for name in varying if name not in MAIN]:
        columns["setting"] = [_setting({name: usual[name] for name in others}, row) for row in rows]
    columns["state"] = [Text(row.state, STYLES.get(row.state, "")) for row in rows]
    columns |= {name: [cell(row) for row in rows] for name, cell in COLUMNS.items() if name not in omitted[1:]}
    if omitted:
        columns["key"] = [_short_key(row.key) for row in rows]
    texts = ("method", "data", "setting") if omitted else ("method", "data", "setting", "key")
    return table_of(columns, texts, NUMBERS, NARROW if omitted else None, **OPEN)


def _shown(value: Any) -> str:
    return "-" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _short_key(key: str) -> str:
    """The digits of a key, or the start of another name."""
    from evenhand.experiment.records.inventory import KEY

    if KEY.fullmatch(key):
        return key.rpartition("-")[2]
    return key if len(key) <= 12 else f"{key[:11]}…"


def _setting(usual: dict[str, Any], row: "RunEntry") -> str:
    """The fields in which a run differs from most others."""
    if row.spec is None:
        return "-"
    return ", ".join(f"{name} {_shown(row.value(name))}" for name in usual if row.value(name) != usual[name])
