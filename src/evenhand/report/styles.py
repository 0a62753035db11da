"""Styles: one per method for the whole page, and SVG that follows its theme."""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenhand.report.scenarios import Scenario

INK, MUTED, LINE, QUIET, PAPER = "#1c2127", "#636b75", "#dde1e6", "#b9c0c8", "#fdfdfc"
# The first two are reserved for UER and ER. After Okabe and Ito, so that colour-blind readers can distinguish them.
PALETTE = ("#d55e00", "#0072b2", "#009e73", "#b5589a", "#c98a00", "#4aa8dc", "#5a4fa2")
MARKERS = "osD^vPX"
RESERVED = {"uer": 0, "er": 1}
GREYS = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)", QUIET: "var(--quiet)", PAPER: "var(--paper)"}
VARIABLES = GREYS | {colour: f"var(--m{i})" for i, colour in enumerate(PALETTE)}
HEAT = (0x1B, 0x6C, 0xB0)
WIDTH, HEIGHT = 3.9, 2.9  # inches of a figure: a third of a wide page, or the width of a phone's
BAND_SEEDS = 3  # from which on intervals are drawn as bands; that of two seeds would cover the plot
FONT = 9.0
LONGEST = 16  # characters of a label inside a figure; the legend has it in full
RC: dict[Any, Any] = {
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that the layout is the same everywhere
    "font.size": FONT,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": MUTED,
    "axes.labelsize": FONT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": FONT - 0.5,
    "ytick.labelsize": FONT - 0.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Style:
    """How a method is drawn: in its own colour, or in grey if there are too many methods."""

    colour: str
    marker: str
    strong: bool = True

    @property
    def css(self) -> str:
        """The colour as a CSS variable of the page."""
        return VARIABLES[self.colour]

    @property
    def dark(self) -> str:
        """Its colour beside its label, which identifies it, so that grey can be darker than in lines."""
        return self.colour if self.strong else MUTED


Styles = dict[str, Style]
Panel = tuple[str, Markup]  # a heading and a drawing
GREY = Style(QUIET, "o", strong=False)


def assign(names: Iterable[str], reserved: Mapping[str, int], first: int = 0) -> Styles:
    """Give each name its reserved colour, else the next free one, beginning with the `first`, else grey."""
    names = dict.fromkeys(names)
    taken = {reserved[name] for name in names if name in reserved}
    free = (i for i in (*range(first, len(PALETTE)), *range(first)) if i not in taken)
    places = {name: reserved[name] if name in reserved else next(free, None) for name in names}
    return {name: GREY if i is None else Style(PALETTE[i], MARKERS[i]) for name, i in places.items()}


def assign_styles(scenarios: Sequence[Scenario]) -> Styles:
    """Give every label of the page its style: colours for the compared methods, then the best ones; then grey."""
    compared = [group.label for scenario in scenarios for group in reversed(scenario.compared)]
    ranked = [group.label for scenario in scenarios for group in scenario.groups]
    labels = list(dict.fromkeys(compared + ranked))
    strong = labels if len(labels) <= len(PALETTE) else labels[:6]
    return dict.fromkeys(labels, GREY) | assign(strong, RESERVED, first=len(RESERVED))


def canvas(height: float = HEIGHT, width: float = WIDTH) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes, its margins fitted to its labels; use it inside `page_style`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def rows(axes: Axes, labels: Sequence[str]) -> None:
    """Make the axes a list, from top to bottom: a label and a thin line for each row."""
    axes.set_yticks(range(len(labels)), labels, color=INK)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.hlines(range(len(labels)), 0, 1, transform=axes.get_yaxis_transform(), color=LINE, linewidth=0.7, zorder=0)
    axes.spines["left"].set_visible(False)


def template(name: str, package: str = "evenhand.report") -> Template:
    """A page's template of a package; it can include those of the report."""
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("evenhand.report")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


@contextmanager
def page_style() -> Iterator[None]:
    """Draw in the style of the page, whatever matplotlib's settings are, and restore them afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


def svg(figure: Figure, title: str, name: str) -> Markup:
    """A figure as inline SVG in the page's fonts and colours, for which a screen reader says the title.

    The name must be unique on the page: it keeps the inner references of figures apart.
    """
    target = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has its own fonts
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", lambda tag: _themed(tag[0]), text)  # only tags: text that users wrote stays as it is
    text = re.sub(r">\s+<", "><", text)
    width, height = (round(float(size) * 96) for size in figure.get_size_inches())
    label = Markup.escape(title)
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{label}" width="{width}" height="{height}"', 1))


def short(label: str, longest: int = LONGEST) -> str:
    """A label, cut to fit into a figure."""
    label = " ".join(label.split())
    return label if len(label) <= longest else label[: longest - 1] + "…"


def _themed(tag: str) -> str:
    """One tag of matplotlib's SVG, with CSS variables as colours and without redundant attributes."""
    if tag.startswith("<svg"):
        return re.sub(r' (xmlns(:xlink)?|version|width|height)="[^"]*"', "", tag)
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda hex: VARIABLES.get(hex[0], hex[0]), tag)
    return re.sub(r"(\.\d\d)\d+", r"\1", tag) if " d=" in tag else tag
