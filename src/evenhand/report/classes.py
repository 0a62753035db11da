"""Figures by class: the head and the predictions in order of arrival, confusion and accuracy matrices as heat maps."""

from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from evenhand import metrics
from evenhand.report.collect import Section
from evenhand.report.figures import BANDED, HEIGHT, detailed
from evenhand.report.group import Array, Group
from evenhand.report.look import FONT, HEAT, INK, LINE, MUTED, Looks, canvas, short, svg

SIDE = 2.9  # inches of a heat map
NAMED = 12  # classes whose names fit along an axis
ANNOTATED = 10  # cells along a side that leave room for numbers
UNITS = {"norm": "|w|", "bias": "b", "probability": "mean probability in %"}


def by_class(section: Section, looks: Looks, quantity: str, title: str, name: str) -> Markup:
    """A quantity of each class after the last stage, in order of arrival, its interval as a band."""
    factor = 100 if quantity == "probability" else 1
    figure, axes = canvas(HEIGHT)
    shown = detailed(section)
    for group in sorted(section.groups, key=lambda group: (looks[group.label].strong, group in shown)):
        look, table = looks[group.label], factor * group.by_class(quantity)
        mean, places = np.nanmean(table, axis=0), np.arange(1, table.shape[1] + 1)
        if group in shown and len(table) >= BANDED:
            half = np.array([metrics.interval(values[~np.isnan(values)].tolist()) or 0 for values in table.T])
            axes.fill_between(places, mean - half, mean + half, color=look.colour, alpha=0.13, linewidth=0)
        marker = look.marker if look.strong and len(mean) <= 20 else ""
        width = 1.6 if look.strong else 0.9
        axes.plot(places, mean, color=look.colour, linewidth=width, marker=marker, markersize=3.8)
    if quantity == "probability":
        _even_share(axes, section.bounds[-1])
    elif quantity == "bias":
        axes.axhline(0, color=MUTED, linewidth=0.8)
    _mark_stages(axes, section)
    axes.set_ylabel(UNITS[quantity])
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.grid(axis="y")
    return svg(figure, title, name)


def confusion(section: Section, group: Group, name: str) -> Markup:
    """Which class (column) the samples of each class (row) are taken for; opacity is the square root of the share."""
    table = group.confusion()
    figure, axes = canvas(SIDE, SIDE)
    ticks, labels, named = _class_ticks(section)
    _heat(axes, np.sqrt(table), np.where(table >= 0.005, table, np.nan), FONT - 3 if named else FONT - 2)
    for bound in section.bounds[:-1]:
        axes.axvline(bound - 0.5, color=MUTED, linewidth=0.5, alpha=0.45)
        axes.axhline(bound - 0.5, color=MUTED, linewidth=0.5, alpha=0.45)
    axes.set_xticks(ticks, labels, rotation=90 if named else 0)
    axes.set_yticks(ticks, labels)
    kind = "class" if named or section.stages == 1 else "class, by stage"
    axes.set_xlabel(f"predicted {kind}")
    axes.set_ylabel(f"true {kind}")
    return svg(figure, f"Confusion matrix of {group.label}", name)


def matrix(group: Group, name: str) -> Markup:
    """The accuracy on each stage's classes (column) after each stage (row)."""
    table = group.matrix()
    figure, axes = canvas(SIDE, SIDE)
    _heat(axes, np.nan_to_num(table), table, FONT - 2)
    ticks = range(0, len(table), -(-len(table) // 12))
    axes.set_xticks(ticks, [str(i + 1) for i in ticks])
    axes.set_yticks(ticks, [str(i + 1) for i in ticks])
    axes.set_xlabel("tested on stage")
    axes.set_ylabel("after stage")
    return svg(figure, f"Accuracy matrix of {group.label}", name)


def _heat(axes: Axes, opacity: Array, numbers: Array, size: float) -> None:
    """Cells of one colour, the more opaque the higher, so that they suit any background; numbers where they fit."""
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
                number.set_in_layout(False)  # it is inside its cell anyway; saves half the time


def _class_ticks(section: Section) -> tuple[list[float], list[str], bool]:
    """Names where there is one order of arrival and room for them; else stages, or every so many classes."""
    size, stages = section.bounds[-1], section.stages
    if section.names is not None and size <= NAMED:
        return [float(i) for i in range(size)], [short(name, 12) for name in section.names[:size]], True
    if stages > 1:
        edges, chosen = [0, *section.bounds], range(0, stages, -(-stages // 12))
        return [(edges[i] + edges[i + 1] - 1) / 2 for i in chosen], [str(i + 1) for i in chosen], False
    step = -(-size // 10)
    chosen = range(step - 1, size, step)
    return [float(i) for i in chosen], [str(i + 1) for i in chosen], False


def _mark_stages(axes: Axes, section: Section) -> None:
    """Shade every second stage, and name stages or classes along the axis."""
    edges = [0, *section.bounds]
    for i in range(1, section.stages, 2):
        axes.axvspan(edges[i] + 0.5, edges[i + 1] + 0.5, color=LINE, alpha=0.45, linewidth=0, zorder=0)
    ticks, labels, named = _class_ticks(section)
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if named else {}
    axes.set_xticks([tick + 1 for tick in ticks], labels, **turn)
    axes.set_xlim(0.5, edges[-1] + 0.5)
    if not named:
        axes.set_xlabel("classes, by the stage they arrived in" if section.stages > 1 else "class, by arrival")


def _even_share(axes: Axes, size: int) -> None:
    """The line on which all classes would lie if none were preferred."""
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
