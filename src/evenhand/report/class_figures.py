"""Figures by class: the head and the predictions in order of arrival, confusion and accuracy matrices as heat maps."""

from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from evenhand.experiment.estimate import Array, Group, is_probable
from evenhand.report.scenarios import Scenario
from evenhand.report.styles import BAND_SEEDS, FONT, HEAT, INK, LINE, MUTED, Panel, Styles, canvas, short, svg

SIDE = 2.9  # inches of a heat map
NAMED = 12  # class names that fit along an axis
ANNOTATED = 10  # cells along a side that leave room for numbers
UNITS = {"norm": "|w|", "bias": "b", "probability": "mean probability in %"}


def by_class(scenario: Scenario, styles: Styles, quantity: str, title: str) -> Panel:
    """A quantity of each class after the last stage, in order of arrival, its interval as a band."""
    figure, axes = canvas()
    shown = scenario.detailed
    groups = [group for group in scenario.groups if quantity != "probability" or is_probable(group.spec)]
    for group in sorted(groups, key=lambda group: (styles[group.label].strong, group in shown)):
        style = styles[group.label]
        points = {place: point for place, point in enumerate(group.by_class(quantity), 1) if point}
        places, mean = list(points), [point.mean for point in points.values()]
        if group in shown and len(group.runs) >= BAND_SEEDS:
            low, high = zip(*(point.ends for point in points.values()), strict=True)
            axes.fill_between(places, low, high, color=style.colour, alpha=0.13, linewidth=0)
        marker = style.marker if style.strong and len(mean) <= 20 else ""
        width = 1.6 if style.strong else 0.9
        axes.plot(places, mean, color=style.colour, linewidth=width, marker=marker, markersize=3.8)
    if quantity == "probability":
        _even_share(axes, scenario.bounds[-1])
    elif quantity == "bias":
        axes.axhline(0, color=MUTED, linewidth=0.8)
    _mark_stages(axes, scenario)
    axes.set_ylabel(UNITS[quantity])
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.grid(axis="y")
    return title, svg(figure, title, f"{scenario.name}-{quantity}")


def confusion(scenario: Scenario, group: Group, place: int) -> Markup:
    """The share of each class (row) predicted as each class (column); opacity is its square root."""
    table = group.confusion()
    figure, axes = canvas(SIDE, SIDE)
    ticks, labels, named = _class_ticks(scenario)
    _heat(axes, np.sqrt(table), np.where(table >= 0.005, table, np.nan), FONT - 3 if named else FONT - 2)
    for bound in scenario.bounds[:-1]:
        axes.axvline(bound - 0.5, color=MUTED, linewidth=0.5, alpha=0.45)
        axes.axhline(bound - 0.5, color=MUTED, linewidth=0.5, alpha=0.45)
    axes.set_xticks(ticks, labels, rotation=90 if named else 0)
    axes.set_yticks(ticks, labels)
    kind = "class, by stage" if scenario.growing and not named else "class"
    axes.set_xlabel(f"predicted {kind}")
    axes.set_ylabel(f"true {kind}")
    return svg(figure, f"Confusion matrix of {group.label}", f"{scenario.name}-confusion-{place}")


def matrix(scenario: Scenario, group: Group, place: int) -> Markup:
    """The accuracy on each stage's classes (column) after each stage (row)."""
    table = group.matrix()
    figure, axes = canvas(SIDE, SIDE)
    _heat(axes, np.nan_to_num(table), table, FONT - 2)
    ticks = range(0, len(table), -(-len(table) // 12))
    axes.set_xticks(ticks, [str(i + 1) for i in ticks])
    axes.set_yticks(ticks, [str(i + 1) for i in ticks])
    axes.set_xlabel("tested on stage")
    axes.set_ylabel("after stage")
    return svg(figure, f"Accuracy matrix of {group.label}", f"{scenario.name}-matrix-{place}")


def _heat(axes: Axes, opacity: Array, numbers: Array, size: float) -> None:
    """Draw cells of one colour whose opacity suits any background, with numbers where they fit."""
    cells = np.empty((*opacity.shape, 4))
    cells[..., :3] = np.array(HEAT) / 255
    cells[..., 3] = opacity.clip(0, 1)
    axes.imshow(cells, interpolation="none")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(LINE)
    if len(opacity) <= ANNOTATED:
        for (i, j), value in np.ndenumerate(numbers):
            if not np.isnan(value):
                colour = "white" if opacity[i, j] > 0.55 else INK
                number = axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize=size)
                number.set_in_layout(False)  # it is inside its cell anyway, and skipping it halves the time


def _class_ticks(scenario: Scenario) -> tuple[list[float], list[str], bool]:
    """Class names if runs share one order and there is room; else stages if all bring new ones, or every nth class."""
    size, stages = scenario.bounds[-1], scenario.stages
    if scenario.class_names is not None and size <= NAMED:
        return [float(i) for i in range(size)], [short(name, 12) for name in scenario.class_names[:size]], True
    if scenario.growing:
        edges, chosen = [0, *scenario.bounds], range(0, stages, -(-stages // 12))
        return [(edges[i] + edges[i + 1] - 1) / 2 for i in chosen], [str(i + 1) for i in chosen], False
    step = -(-size // 10)
    chosen = range(step - 1, size, step)
    return [float(i) for i in chosen], [str(i + 1) for i in chosen], False


def _mark_stages(axes: Axes, scenario: Scenario) -> None:
    """Shade every second stage, and label stages or classes along the axis."""
    edges = [0, *scenario.bounds]
    for i in range(1, scenario.stages, 2):
        axes.axvspan(edges[i] + 0.5, edges[i + 1] + 0.5, color=LINE, alpha=0.45, linewidth=0, zorder=0)
    ticks, labels, named = _class_ticks(scenario)
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if named else {}
    axes.set_xticks([tick + 1 for tick in ticks], labels, **turn)
    axes.set_xlim(0.5, edges[-1] + 0.5)
    if not named:
        axes.set_xlabel("classes, by the stage they arrived in" if scenario.growing else "class, by arrival")


def _even_share(axes: Axes, size: int) -> None:
    """Mark the probability of each class if none were preferred."""
    axes.axhline(100 / size, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        f"1/{size}",
        (1, 100 / size),
        xycoords=axes.get_yaxis_transform(),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        color=MUTED,
        fontsize=FONT - 1,
    )
