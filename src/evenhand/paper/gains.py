"""What each method gains on ER, in the paper and here.

One seed gives all methods the same order of classes and the same weights to begin with, and a hard order lowers them
all. Gains are taken seed by seed, so most of that is gone.
"""

from evenhand.paper.comparison import Row, Section
from evenhand.paper.sheets import Sheet, with_interval
from evenhand.report.group import Estimate

BASE = "er"
COLUMNS = ("method", "paper", "ours, paired", "difference", "seeds")


def sheet(section: Section) -> Sheet | None:
    """The gains of one stream and memory; None where ER, or anything beside it, was not run."""
    base = next((row for row in section.rows if (row.method, row.order) == (BASE, "classes")), None)
    if base is None:
        return None
    lines = [line for row in section.rows if row is not base and (line := _line(row, base))]
    return Sheet(f"{section.title} ({base.kind.unit})", COLUMNS, tuple(lines)) if lines else None


def paired(row: Row, base: Row) -> Estimate | None:
    """The numbers of a row less those of another with the same seeds; None where they share none."""
    theirs = dict(zip(base.seeds, base.ours.values, strict=True)) if base.ours else {}
    ours = dict(zip(row.seeds, row.ours.values, strict=True)) if row.ours else {}
    values = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
    return Estimate(tuple(values)) if values else None


def _line(row: Row, base: Row) -> tuple[str, ...] | None:
    gain, kind = paired(row, base), row.kind
    if gain is None:
        return None
    published = None if row.published is None or base.published is None else row.published - base.published
    off = None if published is None else gain.mean - published
    ours = with_interval(gain.mean, gain.half, kind, sign=True)
    return row.name, kind.shown(published, sign=True), ours, kind.shown(off, sign=True), str(len(gain.values))
