"""Tables of text: comparisons and figures as cells, and the formats that show them."""

import csv
import io
import re
from dataclasses import dataclass
from typing import Any

from evenhand.experiment.estimate import Estimate
from evenhand.paper.comparison import ComparedRow, ComparedTable
from evenhand.paper.curves import Panel

NOT_RUN, FLAG = "not run", "differs"
COLUMNS = ("method", "paper", "ours", "difference", "seeds", "")
MOST_POINTS = 12  # of a curve that fit next to each other
LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "|": r"\textbar{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}
POINT_FIELDS = ("panel", "name", "x", "at", "mean", "interval", "seeds")


@dataclass(frozen=True)
class TextTable:
    """A table of text: the first column aligned left, all others right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_runs: bool = True

    def markdown(self) -> str:
        """The table in Markdown, below its title."""
        lines = [self.columns, ("---", *("---:" for _ in self.columns[1:])), *self.rows]
        text = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
        title = self.title.replace("|", r"\|")
        return f"**{title}**\n\n{text}\n"

    def latex(self) -> str:
        """The table as a LaTeX tabular."""
        header, *body = [" & ".join(map(escape_latex, line)) + r" \\" for line in (self.columns, *self.rows)]
        lines = [
            f"% {self.title}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            *(r"\hline", header, r"\hline", *body, r"\hline"),
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    r"""Escape a text for LaTeX.

    >>> print(escape_latex("er_ace ± 5 %"))
    er\_ace $\pm$ 5 \%
    """
    return re.sub(r"[\\±→|~^&%$#_{}]", lambda mark: LATEX[mark[0]], text)


def comparison_table(table: ComparedTable) -> TextTable:
    """The paper's numbers, ours, and their difference."""
    title = f"{table.title} ({table.rows[0].kind.unit})"
    return TextTable(title, COLUMNS, tuple(map(_cells, table.rows)), table.has_runs)


def _cells(row: ComparedRow) -> tuple[str, ...]:
    text = row.kind.format
    paper = text(row.paper, row.paper_interval)
    if row.estimate is None:
        return row.name, paper, NOT_RUN, "", "", ""
    ours = text(row.ours, row.interval)
    if row.between:
        ours += " ({} to {})".format(*map(text, row.between))
    difference = "" if row.difference is None else text(row.difference, signed=True)
    return row.name, paper, ours, difference, str(len(row.seeds) or ""), FLAG if row.flagged else ""


def panel_table(panel: Panel) -> TextTable:
    """The means of a figure: by point, or over previous and current classes."""
    last = len(panel.xs) - 1
    shown = sorted({*range(0, last, -(-len(panel.xs) // MOST_POINTS)), last})
    columns = ["previous classes", "current classes"] if panel.split else [f"{panel.xs[i]:g}" for i in shown]
    digits = 1 if "%" in panel.y and not panel.split else 3
    rows = []
    for curve in panel.fields()["curves"]:
        means = curve["mean"]
        halves = Estimate.of(means[: panel.split]), Estimate.of(means[panel.split :])
        chosen = [half and half.mean for half in halves] if panel.split else [means[i] for i in shown]
        few, most = (pick(filter(None, curve["seeds"]), default=0) for pick in (min, max))
        cells = ["-" if mean is None else f"{mean:.{digits}f}" for mean in chosen]
        rows.append((curve["name"], *cells, str(most) if few == most else f"{few} to {most}"))
    title = f"{panel.title} ({panel.y})" + ("" if panel.split else f", by {panel.x}")
    return TextTable(title, ("", *columns, "seeds"), tuple(rows))


def as_csv(document: dict[str, Any]) -> str:
    """The rows of a table, or the points of a figure, as CSV."""
    rows = [row for section in document["sections"] for row in section["rows"]]
    rows += [
        {"panel": panel["title"], "name": curve["name"], "x": panel["x"], "at": at}
        | {key: curve[key][index] for key in ("mean", "interval", "seeds")}
        for panel in document["panels"]
        for curve in panel["curves"]
        for index, at in enumerate(panel["at"])
    ]
    target = io.StringIO()
    writer = csv.DictWriter(target, list(rows[0]) if rows else POINT_FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: " ".join(map(str, v)) if isinstance(v, tuple) else v for key, v in row.items()})
    return target.getvalue()
