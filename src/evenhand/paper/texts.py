"""Text formats: Markdown, LaTeX and CSV, and the tables of a terminal."""

import csv
import io
import re
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from evenhand.paper.sheets import FLAG, NOT_RUN, Sheet

STYLES = {FLAG: "red", NOT_RUN: "dim"}
LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "|": r"\textbar{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}
COMPARED = ("name", "method", "order", "data", "memory", "measure", "paper", "paper_interval", "ours", "interval",
            "between", "difference", "seeds", "flagged")  # fmt: skip
DRAWN = ("panel", "name", "x", "at", "mean", "interval", "seeds")


def terminal(sheet: Sheet) -> Table:
    """A sheet as a terminal shows it, without its title."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, name in enumerate(sheet.columns):
        table.add_column(Text(name), justify="right" if place else "left", no_wrap=True)
    for row in sheet.rows:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    return table


def markdown(sheet: Sheet) -> str:
    """A sheet as a table in Markdown, without its title."""
    lines = [sheet.columns, ("---", *("---:" for _ in sheet.columns[1:])), *sheet.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines) + "\n"


def latex(sheet: Sheet) -> str:
    """A sheet as a tabular."""
    lines = [" & ".join(map(escaped, line)) + r" \\" for line in (sheet.columns, *sheet.rows)]
    body = "\n".join([lines[0], r"\hline", *lines[1:]])
    kinds = "l" + "r" * (len(sheet.columns) - 1)
    return f"% {sheet.title}\n\\begin{{tabular}}{{{kinds}}}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}\n"


def escaped(text: str) -> str:
    r"""A text as LaTeX takes it.

    >>> print(escaped("er_ace ± 5 %"))
    er\_ace $\pm$ 5 \%
    """
    return re.sub(r"[\\±→|~^&%$#_{}]", lambda mark: LATEX[mark[0]], text)


def comma_separated(document: dict[str, Any]) -> str:
    """The rows of a table, or the points of a figure, one in each line."""
    rows = [row for section in document["sections"] for row in section["rows"]]
    points = [
        {"panel": panel["title"], "name": curve["name"], "x": panel["x"], "at": at, **_at(curve, place)}
        for panel in document["panels"]
        for curve in panel["curves"]
        for place, at in enumerate(panel["at"])
    ]
    target = io.StringIO()
    writer = csv.DictWriter(target, DRAWN if document["kind"] == "figure" else COMPARED, lineterminator="\n")
    writer.writeheader()
    for row in points or rows:
        writer.writerow({key: " ".join(map(str, v)) if isinstance(v, (list, tuple)) else v for key, v in row.items()})
    return target.getvalue()


def _at(curve: dict[str, Any], place: int) -> dict[str, Any]:
    return {key: curve[key][place] for key in ("mean", "interval", "seeds")}
