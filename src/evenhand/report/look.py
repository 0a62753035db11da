"""How figures look: one colour for each method over the whole page, and SVG that follows the page's theme."""

import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenhand.report.collect import Section

INK, MUTED, LINE, QUIET, PAPER = "#1c2127", "#636b75", "#dde1e6", "#b9c0c8", "#fdfdfc"
# The first two are kept for UER and ER. After Okabe and Ito: told apart by colour-blind readers too.
PALETTE = ("#d55e00", "#0072b2", "#009e73", "#b5589a", "#c98a00", "#4aa8dc", "#5a4fa2")
MARKERS = "osD^vPX"
RESERVED = {"uer": 0, "er": 1}
VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line", QUIET: "--quiet", PAPER: "--paper"} | {
    colour: f"--m{i}" for i, colour in enumerate(PALETTE)
}
HEAT = (0x1B, 0x6C, 0xB0)
WIDTH = 3.9  # inches of a figure; a third of a wide page, or all of a phone's
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
class Look:
    """How a method is drawn: in a colour of its own, or, where there are too many methods, as one of the grey ones."""

    colour: str
    marker: str
    strong: bool = True

    @property
    def css(self) -> str:
        """The colour as the page knows it."""
        return f"var({VARIABLES[self.colour]})"


Looks = dict[str, Look]


def looks(sections: Sequence[Section]) -> Looks:
    """Give every label of the page its look: the compared methods first, then the best ones, then grey."""
    compared = [group.label for section in sections for group in reversed(section.focus)]
    ranked = [group.label for section in sections for group in section.groups]
    labels = list(dict.fromkeys(compared + ranked))
    strong = labels if len(labels) <= len(PALETTE) else labels[:6]
    kept = {label: RESERVED[label] for label in strong if label in RESERVED}
    rest = itertools.chain((i for i in range(len(PALETTE)) if i not in RESERVED.values()), RESERVED.values())
    free = (i for i in rest if i not in kept.values())
    numbers = {label: kept[label] if label in kept else next(free) for label in strong}
    given = {label: Look(PALETTE[i], MARKERS[i]) for label, i in numbers.items()}
    return {label: given.get(label, Look(QUIET, "o", strong=False)) for label in labels}


def canvas(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes, its margins fitted to its labels; use it inside `style`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


@contextmanager
def style() -> Iterator[None]:
    """Draw as this page does, whatever matplotlib is told elsewhere; all is as before afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


def svg(figure: Figure, title: str, name: str) -> Markup:
    """A figure as SVG to stand inside a page, in the page's fonts and colours.

    Parameters
    ----------
    title
        What a screen reader says.
    name
        Different for every figure of a page: keeps their inner references apart.
    """
    target = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has fonts of its own
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", lambda tag: _themed(tag[0]), text)  # tags alone: what users wrote stays as it is
    text = re.sub(r">\s+<", "><", text)
    width, height = (round(float(size) * 96) for size in figure.get_size_inches())
    label = Markup.escape(title)
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{label}" width="{width}" height="{height}"', 1))


def short(label: str, longest: int = LONGEST) -> str:
    """A label cut to what fits a figure."""
    label = " ".join(label.split())
    return label if len(label) <= longest else label[: longest - 1] + "…"


def _themed(tag: str) -> str:
    """One tag of matplotlib's SVG, with colours as variables and without what the page says or nobody reads."""
    if tag.startswith("<svg"):
        return re.sub(r' (xmlns(:xlink)?|version|width|height)="[^"]*"', "", tag)
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda hex: _variable(hex[0]), tag)
    return re.sub(r"(\.\d\d)\d+", r"\1", tag) if " d=" in tag else tag


def _variable(colour: str) -> str:
    return f"var({VARIABLES[colour]})" if colour in VARIABLES else colour
