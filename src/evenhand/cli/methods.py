"""`evenhand methods`: list the registered methods."""

import fnmatch
from typing import Any

from rich.console import Console
from rich.table import Table

from evenhand.cli.options import Json, print_json
from evenhand.cli.tables import print_line, stdout
from evenhand.errors import InputError


def methods(pattern: str = "*", *, json: Json = False) -> None:
    """List the methods, their training costs, and the slots in which they differ from ER.

    Parameters
    ----------
    pattern
        List only names that match; may contain * and ?.
    """
    from evenhand.core import catalogue

    rows = [row for row in catalogue.rows() if fnmatch.fnmatch(row["name"], pattern)]
    ways = [way for way in catalogue.ways() if rows or fnmatch.fnmatch(way["name"], pattern)]
    if not (rows or ways):
        raise InputError(f"No method matches '{pattern}'. Run evenhand methods to list all.")
    if json:
        print_json({"schema": 1, "methods": rows, "ways": ways})
    else:
        if rows:
            _print_methods(stdout(), rows)
        for way in ways:
            print_line(stdout(), f"+{way['call']}: {way['title']}")


def _print_methods(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(show_lines=True)
    for name in ("method", "C_D", "replaces", "+uer", "description"):
        table.add_column(name, justify="right" if name == "C_D" else "left")
    for row in rows:
        title = f"{row['title']} Needs to know where stages end." if row["needs_boundaries"] else row["title"]
        slots = "\n".join(row["slots"]) or "-"
        table.add_row(row["call"], f"{row['cost']:.2f}", slots, "yes" if row["composes"] else "no", title)
    console.print(table)
    print_line(
        console,
        "replaces: slots that differ from ER. C_D: training cost relative to ER. +uer: whether it combines with UER.",
    )
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row["composes"]:
            reasons.setdefault(row["why_not"], []).append(row["name"])
    for reason, names in reasons.items():
        print_line(console, f"No +uer for {', '.join(names)}: {reason}")
