"""What the terminal shows: progress of one piece of work, and tables."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

STDOUT_WIDTH = 140  # of tables that do not go to a terminal


class Work:
    """A bar for one piece of work on a terminal; elsewhere nothing but what it has to say. On stderr."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.console = Console(stderr=True)
        self.tasks: dict[str, TaskID] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:.0f} %"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how much is done."""
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(f"{self.name}: {what}")
        self.bars.update(self.tasks[what], completed=done, total=total)

    def say(self, sentence: str) -> None:
        """Print a sentence above the bar."""
        self.console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def datasets_table(rows: list[dict[str, Any]]) -> Table:
    """The table of `evenhand data`."""
    table = Table()
    for name in ("name", "what it is", "classes", "training", "test", "shape", "found, or fetched from"):
        table.add_column(name, justify="right" if name in ("classes", "training", "test") else "left")
    for row in rows:
        shape = "x".join(map(str, row["shape"]))
        where = row["found"] or f"not found; {', '.join(row['origins']) or 'cannot be fetched'}"
        counts = (str(row["classes"]), str(row["train"]), str(row["test"]))
        table.add_row(row["name"], row["title"], *counts, shape, where)
    return table


def results_table(summaries: list[dict[str, Any]], names: list[str]) -> Table:
    """The table that ends `evenhand run`; one row for each setting, by its name."""
    places = sorted({f"{s['data']}, memory {s['memory']}" for s in summaries})
    table = Table(title=f"Final average accuracy in %: {escape('; '.join(places))}", title_justify="left")
    table.add_column("method", no_wrap=True)
    for name in ("accuracy", "95 % interval", "previous", "current", "forgetting", "seconds", "seeds"):
        table.add_column(name, justify="right")
    for s, name in zip(summaries, names, strict=True):
        table.add_row(
            escape(name),
            percent(s["final_accuracy"], unit=""),
            "-" if s["interval"] is None else f"± {percent(s['interval'], unit='')}",
            percent(s["previous"], unit=""),
            percent(s["current"], unit=""),
            percent(s["forgetting"], unit=""),
            f"{s['seconds']:.0f}",
            str(len(s["seeds"])),
        )
    return table


def tuning_table(points: list[dict[str, Any]], chosen: int) -> Table:
    """The curve of `evenhand tune`: a row and a bar for each point, the choice marked."""
    table = Table(title="Accuracy in % on held-out training samples", title_justify="left")
    for name in points[0]["values"]:
        table.add_column(name, justify="right")
    for name in ("accuracy", "95 % interval", "seeds"):
        table.add_column(name, justify="right")
    table.add_column("", no_wrap=True)
    reached = [point["accuracy"] for point in points if not point["given_up"]]  # one that was not has fewer classes
    low, high = min(reached), max(reached)
    for number, point in enumerate(points):
        values = [escape(str(value)) for value in point["values"].values()]
        accuracy, seeds = percent(point["accuracy"], unit=""), str(point["seeds"])
        if point["given_up"]:
            note = f"given up at stage {point['given_up']}, with {accuracy} there"
            table.add_row(*values, "-", "-", seeds, note, style="dim")
            continue
        interval = "-" if point["interval"] is None else f"± {percent(point['interval'], unit='')}"
        bar = "█" * (4 + round(20 * (point["accuracy"] - low) / ((high - low) or 1)))
        mark = number == chosen
        table.add_row(*values, accuracy, interval, seeds, bar + " chosen" * mark, style="bold" if mark else "")
    return table


def methods_table(rows: list[dict[str, Any]]) -> Table:
    """The table of `evenhand methods`."""
    table = Table(show_lines=True)
    table.add_column("name")
    table.add_column("C_D", justify="right")
    table.add_column("ER, but")
    table.add_column("stages")
    table.add_column("+uer")
    table.add_column("what it is")
    for row in rows:
        slots, stages = ", ".join(row["slots"]) or "-", "needs ends" if row["needs_boundaries"] else ""
        mixes = "yes" if row["composes"] else f"no: {row['why_not']}"
        table.add_row(row["call"], f"{row['cost']:.2f}", slots, stages, mixes, row["title"])
    return table


def stdout() -> Console:
    """A console on stdout, wide enough for tables when it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=STDOUT_WIDTH)


def percent(fraction: float | None, unit: str = " %") -> str:
    """A fraction as a percentage with one decimal; a dash for what does not exist."""
    return "-" if fraction is None else f"{100 * fraction:.1f}{unit}"
