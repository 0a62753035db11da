"""The live view of runs: a table on a terminal, elsewhere one line per stage and per finished run."""

import time
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evenhand.cli.tables import print_line
from evenhand.experiment.engine.queue import Event, Failure, Outcome, Reused
from evenhand.experiment.run import Note, Progress
from evenhand.experiment.spec import Spec, titles
from evenhand.metrics import average, percent

COLOURS = {"running": "cyan", "failed": "red", "stopped": "yellow", "paused": "yellow", "done": "green", "waiting": ""}
FEW = 20  # up to this many runs, a log has a line per stage
FRAME = 6  # lines around the rows: summary, overall bar, two above the rows, one below, one spare
WIDE = 100  # columns needed for long bars
REST = 41  # columns of everything but name and bar


@dataclass
class Line:
    """One run on the screen."""

    name: str
    state: str = "waiting"
    progress: Progress | None = None
    accuracy: float | None = None
    ended: float = 0.0
    share: float = 0.0
    """How much of it is done; 1 for a run that ended in whatever way."""
    before: float = 0.0
    """The share that was done before this command started."""


class Watch:
    """Shows the events of an engine on stderr; `specs` are all runs, even finished ones, which pause after `until`."""

    def __init__(self, specs: list[Spec], console: Console | None = None, until: int | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.lines = {spec.key: Line(name) for spec, name in zip(specs, titles(specs), strict=True)}
        self.until = until
        self.reused = 0
        self.not_started = 0
        self.began = time.monotonic()
        self.live = Live(get_renderable=self.picture, console=self.console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.console.is_terminal:
            self.live.stop()
        if self.not_started:
            self._print(f"{self.not_started} run{' was' if self.not_started == 1 else 's were'} not started.")

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Reused():
                self.reused = event.count
                if event.count:
                    self._print(f"Reusing {event.count} of {event.total} runs.")
            case Note():
                name = self.lines[event.key].name + ": " if event.key in self.lines else ""
                self._print(name + event.message)
            case Progress():
                self._advance(event)
            case _:
                self._end(event)

    def _advance(self, progress: Progress) -> None:
        line = self.lines[progress.key]
        if line.state not in ("waiting", "running"):  # a late message from a cluster
            return
        line.share = min(1.0, progress.step / self._steps(progress))
        if line.progress is None:
            line.before = line.share
        new_stage = line.progress is None or line.progress.stage != progress.stage
        line.state, line.progress, line.accuracy = "running", progress, progress.accuracy
        if new_stage and not self.console.is_terminal and len(self.lines) <= FEW:
            accuracy = "" if progress.accuracy is None else f", accuracy {percent(progress.accuracy)}"
            position = f"stage {progress.stage}/{progress.stages}, step {progress.step}/{progress.steps}"
            self._print(f"{line.name}: {position}, {progress.rate:.0f} samples/s{accuracy}")

    def _end(self, outcome: Outcome) -> None:
        line = self.lines[outcome.spec.key]
        line.ended, line.share = time.monotonic(), 1.0
        if not isinstance(outcome, Failure):
            line.state, line.accuracy = "done", average(outcome.accuracy)
            self._print(f"{line.name}: done, accuracy {percent(line.accuracy)}, {outcome.seconds:.0f} s")
            return
        line.state = outcome.cause if outcome.cause in ("stopped", "paused") else "failed"
        if line.state == "stopped" and line.progress is None and len(self.lines) > FEW:
            self.not_started += 1
        elif line.state != "paused":  # which was requested, and shows in the table
            self._print(f"{line.name}: {outcome.message}")

    def _print(self, text: str) -> None:
        ended = self.reused + sum(line.state in ("done", "failed", "paused") for line in self.lines.values())
        now = time.strftime("%H:%M:%S")
        print_line(self.console, f"{now} [{ended}/{len(self.lines)}] {text}")

    # The table --------------------------------------------------------------------------------------------------------

    def picture(self) -> Group:
        """The current table: running runs first, as many rows as fit the terminal."""
        states = list(COLOURS)
        counts = Counter(line.state for line in self.lines.values())
        counts["waiting"] -= self.reused
        lines = sorted(self.lines.values(), key=lambda line: (states.index(line.state), -line.ended))
        if self.reused:  # which of the waiting ones are reused is unknown
            lines = [line for line in lines if line.state != "waiting"]
        rows = max(1, self.console.height - FRAME)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("run", "state", "stage", "samples/s", "accuracy", "left"):
            table.add_column(name, justify="left" if name in ("run", "state") else "right", no_wrap=True)
        for line in lines[:rows]:
            table.add_row(*self._row(line), style="dim" if line.state == "waiting" else "")
        hidden = Counter(line.state for line in lines[rows:])
        if self.reused:
            hidden["waiting"] = counts["waiting"]
        rest = [f"{hidden[state]} more {state}" for state in states if hidden[state] > 0]
        below = [Text(", ".join(rest), style="dim")] if rest else []
        return Group(*self._overall(counts), Text(), table, *below)

    def _row(self, line: Line) -> tuple[Text | ProgressBar, ...]:
        progress, bar_width = line.progress, 20 if self.console.width >= WIDE else 10
        name = Text(_cut(line.name, max(12, self.console.width - REST - bar_width)))
        state: Text | ProgressBar = Text(line.state, style=COLOURS[line.state])
        stage = rate = accuracy = left = ""
        if progress is not None:
            stage = f"{progress.stages if line.state == 'done' else progress.stage}/{progress.stages}"
        if line.accuracy is not None and line.state in ("running", "done"):
            accuracy = percent(line.accuracy)
        if progress is not None and line.state == "running":
            state = _bar(line.share, bar_width)
            if progress.rate > 0:
                seconds = (1 - line.share) * self._steps(progress) * progress.batch / progress.rate
                rate, left = f"{progress.rate:.0f}", clock(seconds)
        return name, state, *map(Text, (stage, rate, accuracy, left))

    def _overall(self, counts: Counter[str]) -> tuple[Text, Table]:
        share = self.reused + sum(line.share for line in self.lines.values())
        before = self.reused + sum(line.before for line in self.lines.values())
        elapsed, count = time.monotonic() - self.began, max(1, len(self.lines))
        head = Text(f"{self.reused + counts['done']}/{len(self.lines)} done", style="bold")
        for state, colour in COLOURS.items():
            if counts[state] > 0 and state != "done":
                head.append(f"  {counts[state]} {state}", style=colour)
        texts = [f"{100 * share / count:.0f} %", f"{clock(elapsed)} elapsed"]
        if share > before:
            texts += [f"{clock(elapsed * (count - share) / (share - before))} left"]
        line = Table.grid(padding=(0, 2, 0, 0), expand=False)
        line.add_row(_bar(share / count, 40 if self.console.width >= WIDE else 30), *texts)
        return head, line

    def _steps(self, progress: Progress) -> float:
        """The steps until the run pauses or ends, as if all stages were equally long."""
        return progress.steps * min(1, (self.until or progress.stages) / progress.stages)


def clock(seconds: float) -> str:
    """A duration as h:mm:ss.

    >>> clock(3723.4)
    '1:02:03'
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def _bar(share: float, width: int) -> ProgressBar:
    return ProgressBar(total=1, completed=share, width=width, complete_style="cyan", finished_style="green")


def _cut(name: str, room: int) -> str:
    """Shorten a name in the middle, since the method is at its start and the seed at its end."""
    half = (room - 1) // 2
    return name if len(name) <= room else f"{name[: room - 1 - half]}…{name[-half:]}"
