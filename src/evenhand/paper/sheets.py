"""Sheets: sections and panels as cells of text, which every text format writes in its own way."""

from dataclasses import dataclass

from evenhand.paper.comparison import Row, Section
from evenhand.paper.curves import Curve, Panel
from evenhand.paper.measures import Measure
from evenhand.report.group import Estimate

NOT_RUN = "not run"
FLAG = "differs"
COLUMNS = ("method", "paper", "ours", "difference", "seeds", "")
MOST = 12  # points of a curve that fit beside each other


@dataclass(frozen=True)
class Sheet:
    """A table of texts, the first column to the left and all others to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    run: bool = True


def of_section(section: Section) -> Sheet:
    """The paper's numbers, ours, and their difference."""
    return Sheet(f"{section.title} ({section.rows[0].kind.unit})", COLUMNS, tuple(map(_row, section.rows)), section.run)


def of_panel(panel: Panel) -> Sheet:
    """The means of a figure: point by point, or over previous and current classes."""
    digits = 1 if "%" in panel.y and not panel.split else 3
    if panel.split:
        columns = ["previous classes", "current classes"]
        cells = [_halves(curve, panel.split) for curve in panel.curves]
    else:
        last = len(panel.xs) - 1
        chosen = sorted({*range(0, last, -(-len(panel.xs) // MOST)), last})
        columns = [f"{panel.xs[i]:g}" for i in chosen]
        cells = [[_mean(curve.points[i]) for i in chosen] for curve in panel.curves]
    rows = [
        (curve.name, *("-" if value is None else f"{value:.{digits}f}" for value in values), _seeds(curve))
        for curve, values in zip(panel.curves, cells, strict=True)
    ]
    title = f"{panel.title} ({panel.y})" + ("" if panel.split else f", by {panel.x}")
    return Sheet(title, ("", *columns, "seeds"), tuple(rows))


def with_interval(mean: float | None, half: float | None, kind: Measure, sign: bool = False) -> str:
    """A mean with half its interval."""
    return kind.shown(mean, sign) + ("" if half is None else f" ± {kind.shown(half)}")


def _row(row: Row) -> tuple[str, ...]:
    kind = row.kind
    paper = with_interval(row.published, row.interval, kind)
    if row.ours is None:
        return row.name, paper, NOT_RUN, "", "", ""
    less = "" if row.difference is None else kind.shown(row.difference, sign=True)
    seeds = str(len(row.seeds)) if row.seeds else ""
    ours = with_interval(row.ours.mean, row.ours.half, kind)
    if row.between:
        ours += " ({} to {})".format(*map(kind.shown, row.between))
    return row.name, paper, ours, less, seeds, FLAG if row.flagged else ""


def _mean(point: Estimate | None) -> float | None:
    return None if point is None else point.mean


def _halves(curve: Curve, split: int) -> list[float | None]:
    """The means over previous and over current classes."""
    parts = (curve.points[:split], curve.points[split:])
    found = [[point.mean for point in part if point is not None] for part in parts]
    return [sum(values) / len(values) if values else None for values in found]


def _seeds(curve: Curve) -> str:
    counts = {count for count in curve.seeds if count}
    few, many = min(counts, default=0), max(counts, default=0)
    return str(many) if few == many else f"{few} to {many}"
