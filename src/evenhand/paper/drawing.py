"""PNG, SVG and HTML of an item: the paper's figures from our runs, and tables as our numbers next to the paper's."""

import io
import itertools
import math
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from evenhand import __version__
from evenhand.paper.comparison import ComparedTable
from evenhand.paper.curves import IMPROVED, PLAIN, Curve, Panel
from evenhand.paper.definitions import duration
from evenhand.paper.rendering import Rendering
from evenhand.paper.tables import FLAG, NOT_RUN
from evenhand.report import styles
from evenhand.report.styles import BAND_SEEDS, FONT, INK, LINE, MUTED, PALETTE, PAPER, WIDTH, Style

COLUMNS = 3  # panels next to each other
PANEL_HEIGHT = 2.6  # inches
DPI = 160
# As in the report, the first two colours are those of UER and ER.
METHODS = ("UER", "ER", "SCR", "ER-ACE", "ER-WA", "SS-IL", "OBC")  # in the same colours in every figure
RESERVED = {**{name: i for i, name in enumerate(METHODS)}, IMPROVED: 0, PLAIN: 1, "all": 0, "current": 1, "previous": 2}


def picture(rendering: Rendering, kind: str) -> bytes:
    """Draw a PNG or SVG file; the same runs give the same bytes."""
    return _file(lambda: _figure(rendering), rendering.item.slug, kind)


def panels_picture(panels: Sequence[Panel], name: str, kind: str) -> bytes:
    """The same for panels of one's own."""
    return _file(lambda: _curves(panels), name, kind)


def html(rendering: Rendering) -> str:
    """Render a self-contained page in the look of the report."""
    embedded = ""
    if rendering.drawable:
        with styles.page_style():
            embedded = styles.svg(_figure(rendering), rendering.item.title, rendering.item.slug)
    return styles.template("item.html", "evenhand.paper").render(
        version=__version__,
        rendering=rendering,
        picture=embedded,
        judged=any(row.flagged is not None for row in rendering.rows),
        hours=duration(rendering.item.hours()),
        marks={FLAG: "flag", NOT_RUN: "none"},
    )


def _file(draw: Callable[[], Figure], name: str, kind: str) -> bytes:
    target = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with styles.page_style(), mpl.rc_context({"svg.hashsalt": name}):
        draw().savefig(target, format=kind, dpi=DPI, facecolor=PAPER, metadata=metadata)
    return target.getvalue()


def _figure(rendering: Rendering) -> Figure:
    """Draw an item; call it inside `page_style`."""
    if rendering.panels:
        return _curves(rendering.panels)
    return _comparison([table for table in rendering.compared if table.has_runs])


def _curves(panels: Sequence[Panel]) -> Figure:
    figure, all_axes = _axes([panel.title for panel in panels], PANEL_HEIGHT)
    by_curve = styles.assign([curve.name for panel in panels for curve in panel.curves], RESERVED)
    for axes, panel in zip(all_axes, panels, strict=True):
        for curve in panel.curves:
            _curve(axes, panel, curve, by_curve[curve.name])
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        if panel.x == "stage":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        if panel.split:
            axes.axvspan(panel.split + 0.5, panel.xs[-1] + 0.5, color=LINE, alpha=0.45, linewidth=0, zorder=0)
            axes.set_xlim(0.5, panel.xs[-1] + 0.5)
            if panel.y == "%":  # the level of all classes if the head preferred none
                axes.axhline(100 / len(panel.xs), color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    handles = {
        name: Line2D([], [], color=style.colour, marker=style.marker, linewidth=1.9)
        for name, style in by_curve.items()
        if style.strong
    }
    if len(handles) < len(by_curve):
        handles["others"] = Line2D([], [], color=styles.GREY.colour, linewidth=1.1)
    return _with_legend(figure, handles, len(panels))


def _curve(axes: Axes, panel: Panel, curve: Curve, style: Style) -> None:
    """Draw the means; by stage or alpha also their intervals as a band, or every seed as a thin line if few."""
    points = [(x, point) for x, point in zip(panel.xs, curve.points, strict=True) if point is not None]
    xs, means = [x for x, _ in points], [point.mean for _, point in points]
    if panel.split or not points:
        axes.plot(xs, means, color=style.colour, linewidth=1.4)
        return
    if all(len(point.values) >= BAND_SEEDS for _, point in points):
        low, high = zip(*([min(max(end, 0), 100) for end in point.ends] for _, point in points), strict=True)
        axes.fill_between(xs, low, high, color=style.colour, alpha=0.13, linewidth=0)
    else:
        for values in itertools.zip_longest(*(point.values for _, point in points), fillvalue=math.nan):
            axes.plot(xs, values, color=style.colour, linewidth=0.7, alpha=0.5)
    width, marker = (1.9, style.marker) if style.strong else (1.1, "")
    axes.plot(xs, means, color=style.colour, linewidth=width, marker=marker, markersize=4)


def _comparison(tables: Sequence[ComparedTable]) -> Figure:
    most = max(len(table.rows) for table in tables)
    figure, all_axes = _axes([table.title for table in tables], 0.8 + 0.23 * most)
    for axes, table in zip(all_axes, tables, strict=True):
        _rows(axes, table)
    handles = {
        "paper": Line2D([], [], color=MUTED, marker="o", markerfacecolor=PAPER, linewidth=1.8),
        "ours": Line2D([], [], color=PALETTE[0], marker="o", linewidth=1.8),
    }
    if any(row.estimate and len(row.estimate.values) > 1 for table in tables for row in table.rows):
        handles["each seed"] = Line2D([], [], color=PALETTE[0], marker="|", linewidth=0, markersize=9)
    return _with_legend(figure, handles, len(tables))


def _rows(axes: Axes, table: ComparedTable) -> None:
    """Draw a line for each row: the paper's number hollow above, ours filled below."""
    rows = table.rows
    centres = [row.paper for row in rows if row.paper is not None]
    centres += [row.ours for row in rows if row.ours is not None]
    margin = 0.25 * ((max(centres) - min(centres)) or abs(centres[0]) or 1)
    for y, row in enumerate(rows):
        if row.paper is not None:
            half = row.paper_interval or 0
            ends = [row.paper - half, row.paper + half]
            axes.plot(ends, [y - 0.17] * 2, color=MUTED, linewidth=1.8, alpha=0.6)
            axes.plot(row.paper, y - 0.17, "o", color=MUTED, markerfacecolor=PAPER, markersize=5)
        if row.estimate is not None:
            seeds = list(row.estimate.values)
            if row.between or len(seeds) >= BAND_SEEDS:
                axes.plot(row.between or row.estimate.ends, [y + 0.17] * 2, color=PALETTE[0], linewidth=1.8, alpha=0.35)
            if len(seeds) > 1:
                axes.plot(seeds, [y + 0.17] * len(seeds), "|", color=PALETTE[0], markersize=7)
            axes.plot(row.estimate.mean, y + 0.17, "o", color=PALETTE[0], markersize=5)
    axes.set_xlim(min(centres) - margin, max(centres) + margin)  # cuts the wide intervals of few seeds
    styles.rows(axes, [row.name for row in rows])
    axes.set_xlabel(rows[0].kind.unit)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))


def _axes(titles: Sequence[str], height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure with titled axes; a beginning that all titles share becomes the title of the figure."""
    count = len(titles)
    columns = 2 if count == 4 else min(count, COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH * columns, height * rows + 0.4), layout="constrained")
    beginnings = {title.partition(": ")[0] for title in titles}
    if count > 1 and len(beginnings) == 1:
        figure.suptitle(beginnings.pop(), x=0.01, ha="left", fontsize=FONT + 1, fontweight="bold", color=INK)
        titles = [title.partition(": ")[2] for title in titles]
    all_axes = [figure.add_subplot(rows, columns, index + 1) for index in range(count)]
    for axes, title in zip(all_axes, titles, strict=True):
        axes.set_title(title, fontsize=FONT, color=INK, loc="left")
    return figure, all_axes


def _with_legend(figure: Figure, handles: dict[str, Line2D], panels: int) -> Figure:
    """Add one legend for all panels, below them."""
    look = {"ncols": 3 * min(panels, COLUMNS), "frameon": False, "labelcolor": INK, "fontsize": FONT}
    figure.legend(handles.values(), handles, loc="outside lower center", **look)
    return figure
