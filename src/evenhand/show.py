"""What the terminal shows: progress of one piece of work, and tables."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

STDOUT_WIDTH = 140  # of tables that do not go to a terminal
NARROW = 14  # characters of a text where a terminal is narrow, before it goes on in the next line
COUNTS = ("classes", "training", "test")
NUMBERS = (*COUNTS, "accuracy", "95 % interval", "previous", "current", "forgetting", "seconds", "seeds")


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
    columns = {
        "name": [row["name"] for row in rows],
        "what it is": [row["title"] for row in rows],
        "classes": [str(row["classes"]) for row in rows],
        "training": [str(row["train"]) for row in rows],
        "test": [str(row["test"]) for row in rows],
        "shape": ["x".join(map(str, row["shape"])) for row in rows],
        "found, or fetched from": [
            row["found"] or f"not found; {', '.join(row['origins']) or 'cannot be fetched'}" for row in rows
        ],
    }
    return _fitting(columns, ("what it is", "found, or fetched from"), ("shape", "test", "training", "classes"))


def results_table(summaries: list[dict[str, Any]], names: list[str]) -> Table:
    """The table that ends `evenhand run`; one row for each setting, by its name."""
    places = sorted({f"{s['data']}, memory {s['memory']}" for s in summaries})
    columns = {
        "method": names,
        "accuracy": [percent(s["final_accuracy"], unit="") for s in summaries],
        "95 % interval": ["-" if s["interval"] is None else f"± {percent(s['interval'], unit='')}" for s in summaries],
        "previous": [percent(s["previous"], unit="") for s in summaries],
        "current": [percent(s["current"], unit="") for s in summaries],
        "forgetting": [percent(s["forgetting"], unit="") for s in summaries],
        "seconds": [f"{s['seconds']:.0f}" for s in summaries],
        "seeds": [str(len(s["seeds"])) for s in summaries],
    }
    table = _fitting(columns, ("method",), ("seconds", "forgetting", "current", "previous"))
    table.title = f"Final average accuracy in %: {escape('; '.join(places))}"
    return table


def _fitting(columns: dict[str, list[str]], texts: Sequence[str], spare: Sequence[str]) -> Table:
    """A table that stdout has room for: texts go on in the next line, numbers and names are never cut.

    Parameters
    ----------
    columns
        The cells of each column, by its heading.
    texts
        The columns that may go on in the next line.
    spare
        The columns that are left out, in this order, where the table has no room even without lines.
    """
    console = stdout()
    looks = [(True, 0), *((False, count) for count in range(len(spare) + 1))]
    for lines, count in looks:
        kept = {name: cells for name, cells in columns.items() if name not in spare[:count]}
        if width(console, _table(kept, texts, lines, NARROW)) <= console.width:
            break
    table = _table(kept, texts, lines)
    if count:
        table.caption = f"Left out for lack of room: {', '.join(spare[:count])}; --json has everything."
    return table


def _table(columns: dict[str, list[str]], texts: Sequence[str], lines: bool, most: int | None = None) -> Table:
    table = Table(title_justify="left", caption_justify="left")
    if not lines:
        table.box, table.padding = box.SIMPLE_HEAD, 0
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        fold = name in texts
        heading = name if lines or fold else name.replace(" % ", " %\n")
        table.add_column(heading, justify=justify, no_wrap=not fold, overflow="fold", max_width=most if fold else None)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    return table


def tuning_table(points: list[dict[str, Any]], chosen: int) -> Table:
    """The curve of `evenhand tune`: a row and a bar for each point, the choice marked."""
    table = Table(title="Accuracy in % on held-out training samples", title_justify="left")
    for name in points[0]["values"]:
        table.add_column(name, justify="right")
    for name in ("accuracy", "95 % interval", "seeds"):
        table.add_column(name, justify="right")
    table.add_column("", no_wrap=True)
    ended = [point for point in points if not point["diverged"] and not point["given_up"]]
    reached = [point["accuracy"] for point in ended]  # those that were given up have fewer classes
    low, high = min(reached), max(reached)
    for number, point in enumerate(points):
        values = [escape(str(value)) for value in point["values"].values()]
        accuracy, seeds = percent(point["accuracy"], unit=""), str(point["seeds"])
        if point["diverged"] or point["given_up"]:
            given_up = f"given up at stage {point['given_up']}, with {accuracy} there"
            note = "diverged" if point["diverged"] else given_up
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


def width(console: Console, table: Table) -> int:
    """The columns of a terminal that a table takes where there is room."""
    return console.measure(table, options=console.options.update(width=10_000)).maximum


def percent(fraction: float | None, unit: str = " %") -> str:
    """A fraction as a percentage with one decimal; a dash for what does not exist."""
    return "-" if fraction is None else f"{100 * fraction:z.1f}{unit}"
