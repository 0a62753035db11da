"""Figures by class: the head and the predictions in order of arrival, confusion and accuracy matrices as heat maps."""

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from evenhand import metrics
from evenhand.report.collect import Array, Group, Section
from evenhand.report.figures import detailed
from evenhand.report.look import FONT, HEAT, INK, LINE, MUTED, Looks, canvas, short, style, svg

SMALL = 2.9  # inches of a heat map
NAMED = 12  # classes whose names fit along an axis
ANNOTATED = 10  # cells along a side that leave room for numbers
UNITS = {"norm": "|w|", "bias": "b", "probability": "mean probability in %"}


def by_class(section: Section, looks: Looks, quantity: str, title: str, name: str) -> Markup:
    """A quantity of each class after the last stage, in order of arrival; stages alternate in shade."""
    factor = 100 if quantity == "probability" else 1
    with style():
        figure, axes = canvas(2.9)
        bands = [group.label for group in detailed(section) if len(group.runs) > 2]
        for group in sorted(section.groups, key=lambda group: looks[group.label].strong):
            look, table = looks[group.label], factor * group.by_class(quantity)
            mean, places = np.nanmean(table, axis=0), np.arange(1, table.shape[1] + 1)
            if group.label in bands:
                half = np.array([metrics.interval(list(column[~np.isnan(column)])) or 0 for column in table.T])
                axes.fill_between(places, mean - half, mean + half, color=look.colour, alpha=0.13, linewidth=0)
            mark = {"marker": look.marker, "markersize": 3.8} if look.strong and len(mean) <= 20 else {}
            axes.plot(places, mean, color=look.colour, linewidth=1.6 if look.strong else 0.9, **mark)  # type: ignore[arg-type]
        if quantity == "probability":
            _even_share(axes, section.bounds[-1])
        elif quantity == "bias":
            axes.axhline(0, color=MUTED, linewidth=0.8)
        _shade(axes, section)
        axes.set_ylabel(UNITS[quantity])
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.grid(axis="y")
        return svg(figure, title, name)


def confusion(section: Section, group: Group, name: str) -> Markup:
    """Which class (column) the samples of each class (row) are taken for; opacity is the square root of the share."""
    table = group.confusion()
    size = len(table)
    with style():
        figure, axes = canvas(SMALL, SMALL)
        _heat(axes, np.sqrt(table), np.where(table >= 0.005, table, np.nan))
        for bound in section.bounds[:-1]:
            axes.axvline(bound - 0.5, color=MUTED, linewidth=0.6)
            axes.axhline(bound - 0.5, color=MUTED, linewidth=0.6)
        ticks, labels = _class_ticks(section, size)
        turned = section.names is not None and size <= NAMED
        axes.set_xticks(ticks, labels, rotation=90 if turned else 0)
        axes.set_yticks(ticks, labels)
        kind = "class" if turned else "stage of class" if section.stages > 1 else "class, by arrival"
        axes.set_xlabel(f"predicted {kind}")
        axes.set_ylabel(f"true {kind}")
        return svg(figure, f"Confusion matrix of {group.label}", name)


def matrix(group: Group, name: str) -> Markup:
    """The accuracy on each stage's classes (column) after each stage (row)."""
    table = group.matrix()
    with style():
        figure, axes = canvas(SMALL, SMALL)
        _heat(axes, np.nan_to_num(table), table)
        for ticks in (axes.set_xticks, axes.set_yticks):
            shown = range(0, len(table), max(1, -(-len(table) // 12)))
            ticks(shown, [str(i + 1) for i in shown])
        axes.set_xlabel("tested on stage")
        axes.set_ylabel("after stage")
        return svg(figure, f"Accuracy matrix of {group.label}", name)


def _heat(axes: Axes, opacity: Array, numbers: Array) -> None:
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
                axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize=FONT - 2)


def _class_ticks(section: Section, size: int) -> tuple[list[float], list[str]]:
    """Names where there is one order of arrival and room; else the stages; else every so many classes."""
    if section.names is not None and size <= NAMED:
        return [float(i) for i in range(size)], [short(name, 12) for name in section.names[:size]]
    if section.stages > 1:
        edges = [0, *section.bounds]
        step = -(-section.stages // 12)
        chosen = range(0, section.stages, step)
        return [(edges[i] + edges[i + 1] - 1) / 2 for i in chosen], [str(i + 1) for i in chosen]
    step = max(1, -(-size // 10))
    chosen = range(step - 1, size, step)
    return [float(i) for i in chosen], [str(i + 1) for i in chosen]


def _shade(axes: Axes, section: Section) -> None:
    """Mark the stages, and name them or the classes along the axis."""
    size = section.bounds[-1]
    edges = [0, *section.bounds]
    for i in range(1, section.stages, 2):
        axes.axvspan(edges[i] + 0.5, edges[i + 1] + 0.5, color=LINE, alpha=0.45, linewidth=0, zorder=0)
    ticks, labels = _class_ticks(section, size)
    named = section.names is not None and size <= NAMED
    axes.set_xticks(
        [tick + 1 for tick in ticks], labels, rotation=45 if named else 0, ha="right" if named else "center"
    )
    axes.set_xlim(0.5, size + 0.5)
    kind = "stages shaded in turn" if section.stages > 1 else "by arrival"
    axes.set_xlabel("" if named else "stage in which the class arrived" if section.stages > 1 else f"class, {kind}")


def _even_share(axes: Axes, size: int) -> None:
    axes.axhline(100 / size, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        f"1/{size}", (1, 100 / size), xycoords=axes.get_yaxis_transform(), ha="left", va="center",
        xytext=(3, 0), textcoords="offset points", color=MUTED, fontsize=FONT - 1,
    )  # fmt: skip
