"""Figures of accuracies: lines by stage, and a row for each method."""

from collections.abc import Callable, Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evenhand import metrics
from evenhand.metrics import Matrix
from evenhand.report.collect import Estimate, Group, Section, difference
from evenhand.report.look import FONT, INK, LINE, MUTED, PAPER, QUIET, Look, Looks, canvas, short, style, svg

StageMetric = Callable[[Matrix, int], float | None]
FEW = 4  # methods whose seeds and intervals fit into one plot; of more, only the compared ones show theirs


def detailed(section: Section) -> list[Group]:
    """The groups whose seeds and intervals are drawn."""
    return list(section.groups if len(section.groups) <= FEW else section.focus)


def by_stage(section: Section, looks: Looks, metric: StageMetric, title: str, name: str) -> Markup:
    """A metric after each stage: the mean over seeds, its interval as a band, each seed as a thin line."""
    curves = {}
    for group in section.groups:
        points = [group.estimate(lambda a, i=i: metric(a, i)) for i in range(section.stages)]
        curves[group.label] = points
    return _lines(section, looks, curves, title, name, limits=(0, 100))


def to_reference(section: Section, looks: Looks, name: str) -> Markup:
    """The average accuracy after each stage minus that of the reference, paired by seed."""
    reference = section.focus[0]
    curves = {}
    for group in section.groups:
        if group is not reference:
            points = [difference(group, reference, lambda a, i=i: metrics.average(a, i)) for i in range(section.stages)]
            curves[group.label] = points
    return _lines(
        section, looks, curves, f"Accuracy minus that of {reference.label}", name, zero=short(reference.label)
    )


def _lines(
    section: Section,
    looks: Looks,
    curves: dict[str, list[Estimate | None]],
    title: str,
    name: str,
    limits: tuple[float, float] | None = None,
    zero: str = "",
) -> Markup:
    height = max(2.9, 0.145 * len(curves) + 0.9)
    shown = {group.label for group in detailed(section)}
    with style():
        figure, axes = canvas(height)
        ends = []
        # the strong ones last, so that they lie on top
        for label in sorted(curves, key=lambda label: (looks[label].strong, label in shown)):
            points = {stage: point for stage, point in enumerate(curves[label], 1) if point is not None}
            if points:
                _curve(axes, points, looks[label], label in shown)
                ends.append((label, 100 * points[max(points)].mean))
        if limits:
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, limits[0] - 2), min(high, limits[1] + 2))
        if zero:
            axes.axhline(0, color=MUTED, linewidth=0.9)
        axes.set_xlim(0.8, section.stages + 0.2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        axes.set_xlabel("stage")
        axes.set_ylabel(f"points above {zero}" if zero else "accuracy in %")
        axes.grid(axis="y")
        _label_ends(axes, ends, section.stages, looks, height - 0.6)
        return svg(figure, title, name)


def _curve(axes: Axes, points: dict[int, Estimate], look: Look, detail: bool) -> None:
    stages = list(points)
    if detail:
        low, high = zip(*(point.ends for point in points.values()), strict=True)
        axes.fill_between(
            stages, [100 * v for v in low], [100 * v for v in high], color=look.colour, alpha=0.13, linewidth=0
        )
        for values in zip(*(point.values for point in points.values()), strict=False):
            axes.plot(stages, [100 * v for v in values], color=look.colour, linewidth=0.6, alpha=0.45)
    means = [100 * point.mean for point in points.values()]
    mark = {"marker": look.marker, "markersize": 4.2} if look.strong and len(stages) <= 20 else {}
    axes.plot(stages, means, color=look.colour, linewidth=1.9 if look.strong else 1.1, **mark)  # type: ignore[arg-type]


def _label_ends(axes: Axes, ends: list[tuple[str, float]], stage: int, looks: Looks, inches: float) -> None:
    """Write each label beside the end of its line, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: end[1])
    places = spread([(y - low) / (high - low) for _, y in ends], (FONT + 1.5) / 72 / inches)
    for (label, y), place in zip(ends, places, strict=True):
        look = looks[label]
        axes.annotate(
            short(label),
            xy=(stage, y),
            xytext=(1.045, place),
            textcoords=axes.transAxes,
            color=INK if look.strong else MUTED,
            fontsize=FONT - 0.5,
            fontweight="bold" if look.strong else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": look.colour, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 3},
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move sorted places apart until neighbours are at least `gap` away, each as little as can be.

    >>> spread([0.0, 0.1, 0.9], 0.2)
    [-0.05, 0.15, 0.9]
    """
    blocks: list[tuple[float, int]] = []  # the mean of (place - rank * gap) and the size of neighbours that touch
    for rank, place in enumerate(places):
        mean, size = place - rank * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (mean * size + before * count) / (size + count), size + count
        blocks.append((mean, size))
    starts = [mean for mean, size in blocks for _ in range(size)]
    return [round(start + rank * gap, 6) for rank, start in enumerate(starts)]


def final(section: Section, looks: Looks, name: str) -> Markup:
    """The final accuracy of each method as a row: mean, interval, and a tick for every seed."""
    with style():
        figure, axes = _rows(section)
        for row, group in enumerate(section.groups):
            look, final = looks[group.label], group.final
            colour = look.colour if look.strong else MUTED
            axes.plot([100 * v for v in final.ends], [row, row], color=colour, linewidth=1.6, alpha=0.75)
            axes.plot([100 * v for v in final.values], [row] * len(final.values), "|", color=colour, markersize=8)
            axes.plot(100 * final.mean, row, look.marker, color=colour, markersize=6)
        axes.set_xlabel("final average accuracy in %")
        return svg(figure, "Final average accuracy of each method", name)


def previous_current(section: Section, looks: Looks, name: str) -> Markup:
    """The accuracy on previous classes (filled) and on current ones (hollow) after the last stage."""
    with style():
        figure, axes = _rows(section)
        for row, group in enumerate(section.groups):
            look = looks[group.label]
            colour = look.colour if look.strong else MUTED
            previous, current = group.estimate(metrics.previous), group.estimate(metrics.current)
            if previous is None or current is None:
                continue
            left, right = 100 * previous.mean, 100 * current.mean
            axes.plot([left, right], [row, row], color=colour, linewidth=2.2, alpha=0.4)
            for estimate, offset in ((previous, 0.2), (current, -0.2)):
                ends = [min(max(100 * v, 0), 100) for v in estimate.ends]
                axes.plot(ends, [row + offset] * 2, color=colour, linewidth=0.8, alpha=0.6)
            axes.plot(left, row, "o", color=colour, markersize=7)
            axes.plot(right, row, "o", markeredgecolor=colour, markerfacecolor=PAPER, markersize=7, markeredgewidth=1.6)
        axes.set_xlim(-4, 104)
        axes.set_xlabel("accuracy in %   (● previous, ○ current)")
        return svg(figure, "Accuracy on previous and on current classes", name)


def _rows(section: Section) -> tuple[Figure, Axes]:
    figure, axes = canvas(max(2.9, 0.21 * len(section.groups) + 0.7))
    rows = range(len(section.groups))
    axes.set_yticks(rows, [short(group.label, 20) for group in section.groups], color=INK)
    axes.set_ylim(max(len(rows), 4) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.hlines(rows, 0, 1, transform=axes.get_yaxis_transform(), color=LINE, linewidth=0.7)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    return figure, axes
