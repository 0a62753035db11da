"""What the terminal shows: progress while runs go on, and tables when they have ended."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from evenhand.experiment.engine import Failure, Outcome
from evenhand.experiment.runs import Progress as Place
from evenhand.experiment.spec import Spec

STDOUT_WIDTH = 140  # of tables that do not go to a terminal


class Watch:
    """A live bar for every run on a terminal; elsewhere a plain line at each stage and each end. On stderr."""

    def __init__(self, specs: list[Spec]) -> None:
        self.console = Console(stderr=True)
        self.names = {spec.key: f"{spec.method} seed {spec.seed}" for spec in specs}
        self.stages: dict[str, int] = {}
        self.tasks: dict[str, TaskID] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("stage {task.fields[stage]}  step {task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[rate]}  {task.fields[accuracy]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bars.stop()

    def __call__(self, event: Place | Outcome) -> None:
        """Show one event."""
        if isinstance(event, Place):
            self._place(event)
        else:
            self._end(event)

    def _place(self, place: Place) -> None:
        accuracy = "" if place.accuracy is None else f"accuracy {percent(place.accuracy)}"
        rate, stage = f"{place.rate:.0f} samples/s", f"{place.stage}/{place.stages}"
        name = self.names[place.key]
        if self.console.is_terminal:
            if place.key not in self.tasks:
                self.tasks[place.key] = self.bars.add_task(name, stage="", rate="", accuracy="")
            self.bars.update(
                self.tasks[place.key],
                completed=place.step,
                total=place.steps,
                stage=stage,
                rate=rate,
                accuracy=accuracy,
            )
        elif self.stages.get(place.key) != place.stage:
            self.stages[place.key] = place.stage
            self._line(f"{name}: stage {stage}, step {place.step}/{place.steps}, {rate}  {accuracy}")

    def _end(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failure):
            self._line(f"{self.names[outcome.spec.key]}: {outcome.sentence}")
            return
        accuracy = percent(outcome.summary()["final_accuracy"])
        self._line(f"{self.names[outcome.key]}: done, accuracy {accuracy}, {outcome.seconds:.0f} s")
        if outcome.key in self.tasks:
            self.bars.remove_task(self.tasks.pop(outcome.key))

    def _line(self, text: str) -> None:
        clock = time.strftime("%H:%M:%S")
        self.console.print(f"{clock} {text}", markup=False, highlight=False, soft_wrap=True)


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


def results_table(summaries: list[dict[str, Any]]) -> Table:
    """The table that ends `evenhand run`; one row for each method, memory and dataset."""
    places = sorted({f"{s['data']}, memory {s['memory']}" for s in summaries})
    table = Table(title=f"Final average accuracy in %: {'; '.join(places)}", title_justify="left")
    table.add_column("method", no_wrap=True)
    for name in ("accuracy", "95 % interval", "previous", "current", "forgetting", "seconds", "seeds"):
        table.add_column(name, justify="right")
    for s in summaries:
        table.add_row(
            s["method"],
            percent(s["final_accuracy"], unit=""),
            "-" if s["interval"] is None else f"± {percent(s['interval'], unit='')}",
            percent(s["previous"], unit=""),
            percent(s["current"], unit=""),
            percent(s["forgetting"], unit=""),
            f"{s['seconds']:.0f}",
            str(len(s["seeds"])),
        )
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
