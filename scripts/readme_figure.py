"""Draw the README's figure: accuracy on the newest and on all earlier classes, ER and UER, from committed records.

    python scripts/readme_figure.py [docs/figures/bias.svg]

Reads `results/demo` (memory 50, six seeds) and needs the `report` extra. Lines are means, bands 95 % intervals.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenhand import metrics
from evenhand.experiment.estimate import Group
from evenhand.experiment.records.inventory import inventory, results
from evenhand.experiment.result import by_setting
from evenhand.report.styles import INK, MUTED, PALETTE, QUIET

ROOT = Path(__file__).parents[1]
METRICS = {"newest classes": (metrics.current, PALETTE[0]), "earlier classes": (metrics.previous, PALETTE[1])}


def panel(axes: Axes, group: Group, title: str) -> None:
    """One method: a line with its band for the newest classes, one for all earlier ones."""
    ends = {}
    for label, (metric, colour) in METRICS.items():
        points = [point for point in group.by_stage(metric)[1:] if point]
        seen = [2 * stage for stage in range(2, len(points) + 2)]  # two new classes in each stage
        last = points[-1]
        axes.plot(seen, [point.mean for point in points], color=colour, marker="o", markersize=4.5, linewidth=2)
        low, high = zip(*(point.ends for point in points), strict=True)
        axes.fill_between(seen, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.text(10.25, last.mean, f"{label}\n{last.mean:.0f} ± {last.half:.0f} %", color=colour, va="center")
        ends[label] = last.mean
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
        "axes.edgecolor": QUIET,
        "axes.labelcolor": MUTED,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
    }
    found = by_setting(results(inventory(ROOT / "results/demo", with_results=True)))
    groups = {runs[0].spec.method: Group("", tuple(runs)) for runs in found if runs[0].spec.memory == 50}
    with mpl.rc_context({**style, **colours}):
        figure = Figure(figsize=(9, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        panel(left, groups["er"], "ER")
        panel(right, groups["uer"], "UER")
        left.set_ylabel("accuracy in %")
        for axes in (left, right):
            axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/figures/bias.svg")
