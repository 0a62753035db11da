"""Pictures: the paper's figures from our runs, and tables as our numbers beside the paper's; files of their own."""

import io
import itertools
import math
from collections.abc import Sequence

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from evenhand.paper.comparison import Section
from evenhand.paper.curves import IMPROVED, PLAIN, Curve, Panel
from evenhand.paper.rendering import Rendering
from evenhand.report.figures import BANDED
from evenhand.report.look import FONT, INK, LINE, MARKERS, MUTED, PALETTE, PAPER, QUIET, WIDTH, Look, Looks, style, svg

ACROSS = 3  # panels beside each other
HEIGHT = 2.6  # inches of a panel
DOTS = 160  # of a PNG, per inch
# As in the report, the first two colours are those of UER and ER.
RESERVED = {"UER": 0, "ER": 1, IMPROVED: 0, PLAIN: 1, "all": 0, "current": 1, "previous": 2}


def picture(rendering: Rendering, kind: str) -> bytes:
    """A PNG or SVG file that stands alone; the same runs give the same bytes."""
    target = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with style(), mpl.rc_context({"svg.hashsalt": rendering.item.slug}):
        figure(rendering).savefig(target, format=kind, dpi=DOTS, facecolor=PAPER, metadata=metadata)
    return target.getvalue()


def embedded(rendering: Rendering) -> Markup:
    """The same inside a page, in its colours."""
    with style():
        return svg(figure(rendering), rendering.item.title, rendering.item.slug)


def figure(rendering: Rendering) -> Figure:
    """Draw an item; use it inside `style`."""
    if rendering.panels:
        return _curves(rendering.panels)
    return _comparison([section for section in rendering.sections if section.run])


def looks(names: Sequence[str]) -> Looks:
    """A look for each name: its reserved colour, then those that are free, then grey."""
    given = {name: RESERVED[name] for name in names if name in RESERVED}
    free = (i for i in range(len(PALETTE)) if i not in given.values())
    numbers = {name: given[name] if name in given else next(free, None) for name in dict.fromkeys(names)}
    return {
        name: Look(QUIET, "o", strong=False) if number is None else Look(PALETTE[number], MARKERS[number])
        for name, number in numbers.items()
    }


def _curves(panels: Sequence[Panel]) -> Figure:
    made, axes, titles = _axes([panel.title for panel in panels], HEIGHT)
    look = looks([curve.name for panel in panels for curve in panel.curves])
    for one, title, panel in zip(axes, titles, panels, strict=True):
        for curve in panel.curves:
            _curve(one, panel, curve, look[curve.name])
        one.set_title(title, fontsize=FONT, color=INK, loc="left")
        one.set_xlabel(panel.x)
        one.set_ylabel(panel.y)
        one.grid(axis="y")
        one.yaxis.set_major_locator(MaxNLocator(nbins=6))
        if panel.x == "stage":
            one.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        if panel.split:
            one.axvspan(panel.split + 0.5, panel.xs[-1] + 0.5, color=LINE, alpha=0.45, linewidth=0, zorder=0)
            one.set_xlim(0.5, panel.xs[-1] + 0.5)
            if panel.y == "%":  # where all classes would lie if none were preferred
                one.axhline(100 / len(panel.xs), color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    handles = [Line2D([], [], color=one.colour, marker=one.marker, linewidth=1.9) for one in look.values()]
    return _with_legend(made, handles, list(look), len(panels))


def _curve(axes: Axes, panel: Panel, curve: Curve, look: Look) -> None:
    """The means; by stage or alpha also their intervals as a band, or of one and two seeds thin lines."""
    points = [(x, point) for x, point in zip(panel.xs, curve.points, strict=True) if point is not None]
    xs = [x for x, _ in points]
    if panel.split or not points:
        axes.plot(xs, [point.mean for _, point in points], color=look.colour, linewidth=1.4)
        return
    if all(len(point.values) >= BANDED for _, point in points):
        low, high = zip(*([min(max(end, 0), 100) for end in point.ends] for _, point in points), strict=True)
        axes.fill_between(xs, low, high, color=look.colour, alpha=0.13, linewidth=0)
    else:
        for values in itertools.zip_longest(*(point.values for _, point in points), fillvalue=math.nan):
            axes.plot(xs, values, color=look.colour, linewidth=0.7, alpha=0.5)
    width, marker = (1.9, look.marker) if look.strong else (1.1, "")
    axes.plot(xs, [point.mean for _, point in points], color=look.colour, linewidth=width, marker=marker, markersize=4)


def _comparison(sections: Sequence[Section]) -> Figure:
    most = max(len(section.rows) for section in sections)
    made, axes, titles = _axes([section.title for section in sections], 0.8 + 0.23 * most)
    for one, title, section in zip(axes, titles, sections, strict=True):
        _rows(one, section)
        one.set_title(title, fontsize=FONT, color=INK, loc="left")
    handles = {
        "paper": Line2D([], [], color=MUTED, marker="o", markerfacecolor=PAPER, linewidth=1.8),
        "ours": Line2D([], [], color=PALETTE[0], marker="o", linewidth=1.8),
    }
    if any(row.ours and len(row.ours.values) > 1 for section in sections for row in section.rows):
        handles["each seed"] = Line2D([], [], color=PALETTE[0], marker="|", linewidth=0, markersize=9)
    return _with_legend(made, list(handles.values()), list(handles), len(sections))


def _rows(axes: Axes, section: Section) -> None:
    """A row for each method: the paper's number hollow above, ours filled below."""
    rows, kind = section.rows, section.rows[0].kind
    centres = [row.published for row in rows if row.published is not None]
    centres += [row.ours.mean for row in rows if row.ours is not None]
    margin = 0.25 * ((max(centres) - min(centres)) or abs(centres[0]) or 1)
    low, high = min(centres) - margin, max(centres) + margin  # the wide intervals of few seeds are cut
    for place, row in enumerate(rows):
        if row.published is not None:
            half = row.interval or 0
            ends = [row.published - half, row.published + half]
            axes.plot(ends, [place - 0.17] * 2, color=MUTED, linewidth=1.8, alpha=0.6)
            axes.plot(row.published, place - 0.17, "o", color=MUTED, markerfacecolor=PAPER, markersize=5)
        if row.ours is not None:
            seeds = list(row.ours.values)
            if row.between or len(seeds) >= BANDED:
                axes.plot(row.between or row.ours.ends, [place + 0.17] * 2, color=PALETTE[0], linewidth=1.8, alpha=0.35)
            if len(seeds) > 1:
                axes.plot(seeds, [place + 0.17] * len(seeds), "|", color=PALETTE[0], markersize=7)
            axes.plot(row.ours.mean, place + 0.17, "o", color=PALETTE[0], markersize=5)
    axes.set_xlim(low, high)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], color=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.hlines(range(len(rows)), 0, 1, transform=axes.get_yaxis_transform(), color=LINE, linewidth=0.7, zorder=0)
    axes.set_xlabel(kind.unit)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def _axes(titles: Sequence[str], height: float) -> tuple[Figure, list[Axes], list[str]]:
    """A figure with axes for all titles, a few beside each other; what all titles begin with stands above them."""
    count = len(titles)
    across = 2 if count == 4 else min(count, ACROSS)
    down = -(-count // across)
    made = Figure(figsize=(WIDTH * across, height * down + 0.4), layout="constrained")
    begins = {title.partition(": ")[0] for title in titles}
    if count > 1 and len(begins) == 1:
        made.suptitle(begins.pop(), x=0.01, ha="left", fontsize=FONT + 1, fontweight="bold", color=INK)
        titles = [title.partition(": ")[2] for title in titles]
    return made, [made.add_subplot(down, across, place + 1) for place in range(count)], list(titles)


def _with_legend(made: Figure, handles: Sequence[Line2D], names: list[str], panels: int) -> Figure:
    """The figure with one legend for all panels below them."""
    columns = 3 * min(panels, ACROSS)
    made.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK, fontsize=FONT)
    return made
