"""Draw the README's figure: accuracy on the newest and on all earlier classes, ER and UER, from committed records.

    python scripts/readme_figure.py [docs/figures/bias.svg]

Reads `results/demo` (memory 50, six seeds) and needs the `report` extra. Lines are means, bands 95 % intervals.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenhand import metrics

ROOT = Path(__file__).parents[1]
SEEDS, STAGES = 6, 5
INK, MUTED, NEW, OLD = "#1c2127", "#636b75", "#d55e00", "#0072b2"  # the last two after Okabe and Ito


def matrices(method: str) -> list[metrics.Matrix]:
    """The accuracy matrix of every seed."""
    files = sorted((ROOT / "results/demo").glob(f"{method}-fashion-cut-m50-s*/metrics.jsonl"))
    assert len(files) == SEEDS, f"expected {SEEDS} runs of {method}, found {len(files)}"
    return [[json.loads(line)["accuracy"] for line in file.read_text().splitlines()] for file in files]


def panel(axes: Axes, method: str, title: str) -> None:
    """One method: a line with its band for the newest classes, one for all earlier ones."""
    runs = matrices(method)
    ends = {}
    for label, metric, colour in (("newest classes", metrics.current, NEW), ("earlier classes", metrics.previous, OLD)):
        samples = [[100 * (metric(run[: i + 1]) or 0) for run in runs] for i in range(1, STAGES)]
        means = [metrics.mean(values) for values in samples]
        halves = [metrics.interval(values) or 0 for values in samples]
        seen = [2 * (i + 1) for i in range(1, STAGES)]  # two new classes in each stage
        axes.plot(seen, means, color=colour, marker="o", markersize=4.5, linewidth=2)
        low, high = zip(*((m - h, m + h) for m, h in zip(means, halves, strict=True)), strict=True)
        axes.fill_between(seen, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.text(10.25, means[-1], f"{label}\n{means[-1]:.0f} ± {halves[-1]:.0f} %", color=colour, va="center")
        ends[label] = means[-1]
    gap = ends["newest classes"] - ends["earlier classes"]
    axes.set_title(f"{title}: {gap:.0f} points apart at the end", loc="left", color=INK, fontsize=11, pad=10)
    axes.set(xticks=[4, 6, 8, 10], xlim=(3.8, 10.2), ylim=(25, 103), xlabel="classes seen")


def draw(path: Path) -> None:
    """Write the figure in the format that the file's suffix names."""
    style: dict[Any, Any] = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "bias",
    }
    colours: dict[Any, Any] = {
        "axes.edgecolor": "#b9c0c8",
        "axes.labelcolor": MUTED,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
    }
    with mpl.rc_context({**style, **colours}):
        figure = Figure(figsize=(9, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        panel(left, "er", "ER")
        panel(right, "uer", "UER")
        left.set_ylabel("accuracy in %")
        for axes in (left, right):
            axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/figures/bias.svg")
