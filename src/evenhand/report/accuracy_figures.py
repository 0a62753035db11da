"""Figures of accuracies: lines by stage, and one row per method."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Metric, difference, in_percent
from evenhand.report.scenarios import Scenario
from evenhand.report.styles import BAND_SEEDS, FONT, HEIGHT, INK, MUTED, PAPER, Panel, Styles, canvas, rows, short, svg

MIN_SPAN = 10.0  # points of accuracy on an axis
Curves = dict[str, list[Estimate | None]]


def by_stage(scenario: Scenario, styles: Styles, metric: Metric, title: str) -> Panel:
    """A metric after each stage: the mean over seeds, its interval as a band, each seed as a thin line."""
    figure, axes = _lines(scenario, styles, {group.label: group.by_stage(metric) for group in scenario.groups})
    axes.set_ylabel("accuracy in %")
    return title, svg(figure, title, f"{scenario.name}-{metric.__name__}")


def to_reference(scenario: Scenario, styles: Styles) -> Panel:
    """The challenger's average accuracy minus the reference's after each stage, paired by seed."""
    reference, challenger = scenario.compared
    gaps = [difference(challenger, reference, in_percent(metrics.average, stage)) for stage in range(scenario.stages)]
    figure, axes = _lines(scenario, styles, {challenger.label: gaps})
    axes.axhline(0, color=styles[reference.label].colour, linewidth=1.4)
    axes.set_ylabel(f"points above {short(reference.label)}")
    title = f"Accuracy of {challenger.label} minus that of {reference.label}"
    drawing = svg(figure, title, f"{scenario.name}-difference")
    return f"{challenger.label} minus {reference.label}, paired by seed", drawing


def _lines(scenario: Scenario, styles: Styles, curves: Curves) -> tuple[Figure, Axes]:
    figure, axes = canvas(max(HEIGHT, 0.145 * len(curves) + 0.9))
    shown = {group.label for group in scenario.detailed}
    ends = []
    for label in sorted(curves, key=lambda label: (styles[label].strong, label in shown)):  # the strong ones on top
        points = {stage: point for stage, point in enumerate(curves[label], 1) if point is not None}
        if points:
            _curve(axes, points, styles, label, label in shown)
            ends.append((label, points[max(points)].mean))
    axes.set_ylim(*_wide(*axes.get_ylim()))
    axes.set_xlim(0.8, scenario.stages + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
    axes.set_xlabel("stage")
    axes.grid(axis="y")
    _label_ends(axes, ends, scenario.stages, styles)
    return figure, axes


def _curve(axes: Axes, points: dict[int, Estimate], styles: Styles, label: str, detail: bool) -> None:
    style, stages = styles[label], list(points)
    seeds = list(zip(*(point.values for point in points.values()), strict=False))
    if detail and len(seeds) >= BAND_SEEDS:
        low, high = zip(*([min(max(end, -100), 100) for end in point.ends] for point in points.values()), strict=True)
        axes.fill_between(stages, low, high, color=style.colour, alpha=0.13, linewidth=0)
    if detail and len(seeds) > 1:
        for values in seeds:
            axes.plot(stages, values, color=style.colour, linewidth=0.7, alpha=0.5 if len(seeds) <= 5 else 0.25)
    means = [point.mean for point in points.values()]
    marker = style.marker if style.strong and len(stages) <= 20 else ""
    axes.plot(stages, means, color=style.colour, linewidth=1.9 if style.strong else 1.1, marker=marker, markersize=4.2)


def _label_ends(axes: Axes, ends: list[tuple[str, float]], stage: int, styles: Styles) -> None:
    """Write each label next to the end of its line, moved apart where labels would overlap."""
    low, high = axes.get_ylim()
    inches = axes.figure.get_figheight() - 0.6  # type: ignore[union-attr]
    ends = sorted(ends, key=lambda end: end[1])
    places = spread([(y - low) / (high - low) for _, y in ends], (FONT + 1.5) / 72 / inches)
    for (label, y), place in zip(ends, places, strict=True):
        style = styles[label]
        line = {"arrowstyle": "-", "color": style.colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 3}
        axes.annotate(
            short(label),
            xy=(stage, y),
            xytext=(1.045, place),
            textcoords=axes.transAxes,
            color=INK if style.strong else MUTED,
            fontsize=FONT - 0.5,
            fontweight="bold" if style.strong else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={**line, "relpos": (0, 0.5)},
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move sorted places apart until neighbours are at least `gap` away, each as little as possible, within 0 to 1.

    >>> spread([0.4, 0.5, 0.9, 0.9], 0.2)
    [0.35, 0.55, 0.8, 1.0]
    """
    blocks: list[tuple[float, int]] = []  # the mean of (place - rank * gap) and the size of neighbours that touch
    for rank, place in enumerate(places):
        mean, size = place - rank * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (mean * size + before * count) / (size + count), size + count
        blocks.append((mean, size))
    highest = 1 - gap * (len(places) - 1)
    starts = [max(0, min(mean, highest)) for mean, size in blocks for _ in range(size)]
    return [round(start + rank * gap, 6) for rank, start in enumerate(starts)]


def final(scenario: Scenario, styles: Styles) -> Panel:
    """The final accuracy of each method as a row: mean, interval, and a tick for every seed."""
    figure, axes = _rows(scenario)
    for row, group in enumerate(scenario.groups):
        style, colour = styles[group.label], styles[group.label].dark
        seeds = [100 * value for value in group.final.values]
        axes.plot(_within(group.final), [row, row], color=colour, linewidth=1.8, alpha=0.5)
        if len(seeds) > 1:
            axes.plot(seeds, [row] * len(seeds), "|", color=colour, markersize=9)
        axes.plot(100 * group.final.mean, row, style.marker, color=colour, markersize=6)
    axes.set_xlim(*_wide(*axes.get_xlim()))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.set_xlabel("final average accuracy in %")
    return "Final average accuracy", svg(figure, "Final average accuracy of each method", f"{scenario.name}-final")


def previous_current(scenario: Scenario, styles: Styles) -> Panel:
    """The accuracy on previous classes or stages (filled) and on current ones (hollow) after the last stage."""
    figure, axes = _rows(scenario)
    for row, group in enumerate(scenario.groups):
        colour = styles[group.label].dark
        previous, current = group.estimate(metrics.previous), group.estimate(metrics.current)
        if previous is None or current is None:
            continue
        ends = [100 * previous.mean, 100 * current.mean]
        axes.plot(ends, [row, row], color=colour, linewidth=2.4, alpha=0.4)
        if len(group.runs) >= BAND_SEEDS:
            axes.plot(_within(previous), [row + 0.24] * 2, color=colour, linewidth=0.9, alpha=0.7)
            axes.plot(_within(current), [row - 0.24] * 2, color=colour, linewidth=0.9, alpha=0.7)
        axes.plot(ends[0], row, "o", color=colour, markersize=7)
        axes.plot(ends[1], row, "o", color=colour, markerfacecolor=PAPER, markersize=7, markeredgewidth=1.7)
    axes.set_xlim(-4, 104)
    axes.set_xlabel("accuracy in %   (● previous, ○ current)")
    those = "stages" if scenario.at_once else "classes"
    drawing = svg(figure, f"Accuracy on previous and on current {those}", f"{scenario.name}-both")
    return "After the last stage", drawing


def _wide(low: float, high: float) -> tuple[float, float]:
    """Limits in percent, at least ten points apart so that noise does not look like a trend."""
    missing = max(0, MIN_SPAN - (high - low)) / 2
    return max(low - missing, -102), min(high + missing, 102)


def _within(estimate: Estimate) -> list[float]:
    """The ends of an interval of accuracies in percent, clipped to 0 and 100."""
    return [100 * min(max(end, 0), 1) for end in estimate.ends]


def _rows(scenario: Scenario) -> tuple[Figure, Axes]:
    """Axes with one row per group."""
    count = len(scenario.groups)
    figure, axes = canvas(0.65 + max(0.34 * min(count, 6), 0.21 * count, 0.5))
    rows(axes, [short(group.label, 20) for group in scenario.groups])
    return figure, axes
