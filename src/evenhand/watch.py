"""What the terminal shows while runs go on: a live table of them, or elsewhere a line at each stage and each end."""

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

from evenhand.experiment.engine import Event, Failure, Found, Outcome
from evenhand.experiment.runs import Note, Progress
from evenhand.experiment.spec import Spec, titles
from evenhand.show import percent

COLOURS = {"running": "cyan", "failed": "red", "stopped": "yellow", "paused": "yellow", "done": "green", "waiting": ""}
FEW = 20  # runs whose stages are worth a line each, where there is no table
FRAME = 6  # lines around the rows: overall progress, its bar, two above and one below the rows, one to spare
WIDE = 100  # columns from which on there is room for long bars
REST = 41  # columns beside name and bar


@dataclass
class Line:
    """One run on the screen."""

    name: str
    state: str = "waiting"
    place: Progress | None = None
    accuracy: float | None = None
    ended: float = 0.0
    before: float = 0.0
    """The share that was done before this command began."""

    @property
    def ready(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in ("waiting", "running")


class Watch:
    """Shows what an engine tells it. On stderr.

    Parameters
    ----------
    specs
        All runs, those included that are there already.
    until
        The stage at whose end they are to pause, if they are.
    """

    def __init__(self, specs: list[Spec], console: Console | None = None, until: int | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.lines = {spec.key: Line(name) for spec, name in zip(specs, titles(specs), strict=True)}
        self.until = until
        self.found = 0
        self.not_begun = 0
        self.began = time.monotonic()
        self.live = Live(get_renderable=self.picture, console=self.console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.console.is_terminal:
            self.live.stop()
        if self.not_begun:
            self._say(f"Runs that were not begun: {self.not_begun}.")

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Found():
                self.found = event.done
                if event.done:
                    self._say(f"{event.done} of {event.of} runs are there already.")
            case Note():
                name = self.lines[event.key].name + ": " if event.key in self.lines else ""
                self._say(name + event.sentence)
            case Progress():
                self._advance(event)
            case _:
                self._end(event)

    def _advance(self, place: Progress) -> None:
        line = self.lines[place.key]
        if line.ready:  # word from afar that comes after the end
            return
        if line.place is None:
            line.before = self._share(place)
        fresh = line.place is None or line.place.stage != place.stage
        line.state, line.place, line.accuracy = "running", place, place.accuracy
        if fresh and not self.console.is_terminal and len(self.lines) <= FEW:
            accuracy = "" if place.accuracy is None else f", accuracy {percent(place.accuracy)}"
            where = f"stage {place.stage}/{place.stages}, step {place.step}/{place.steps}"
            self._say(f"{line.name}: {where}, {place.rate:.0f} samples/s{accuracy}")

    def _end(self, outcome: Outcome) -> None:
        line = self.lines[outcome.spec.key]
        line.ended = time.monotonic()
        if not isinstance(outcome, Failure):
            line.state, line.accuracy = "done", outcome.summary()["final_accuracy"]
            self._say(f"{line.name}: done, accuracy {percent(line.accuracy)}, {outcome.seconds:.0f} s")
            return
        line.state = outcome.cause if outcome.cause in ("stopped", "paused") else "failed"
        if line.state == "stopped" and line.place is None and len(self.lines) > FEW:
            self.not_begun += 1
        elif line.state != "paused":  # which was to be, and is seen in the table
            self._say(f"{line.name}: {outcome.sentence}")

    def _say(self, text: str) -> None:
        ended = self.found + sum(line.state in ("done", "failed", "paused") for line in self.lines.values())
        now = time.strftime("%H:%M:%S")
        self.console.print(f"{now} [{ended}/{len(self.lines)}] {text}", markup=False, highlight=False, soft_wrap=True)

    # The picture ------------------------------------------------------------------------------------------------------

    def picture(self) -> Group:
        """The table as it is now: what is running first, as much as the terminal can hold."""
        states = list(COLOURS)
        lines = sorted(self.lines.values(), key=lambda line: (states.index(line.state), -line.ended))
        counts = Counter(line.state for line in lines)
        counts["waiting"] -= self.found
        if self.found:  # nobody knows which of those that did not begin are there already
            lines = [line for line in lines if line.state != "waiting"]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("run", "state"):
            table.add_column(name, no_wrap=True)
        for name in ("stage", "samples/s", "accuracy", "left"):
            table.add_column(name, justify="right", no_wrap=True)
        shown = lines[: max(1, self.console.height - FRAME)]
        for line in shown:
            table.add_row(*self._row(line), style="dim" if line.state == "waiting" else "")
        hidden = Counter(line.state for line in lines[len(shown) :])
        if self.found:
            hidden["waiting"] = counts["waiting"]
        rest = [f"{hidden[state]} more {state}" for state in states if hidden[state] > 0]
        below = [Text(", ".join(rest), style="dim")] if rest else []
        return Group(*self._overall(counts), Text(), table, *below)

    def _row(self, line: Line) -> tuple[Text | ProgressBar, ...]:
        wide, place = self.console.width >= WIDE, line.place
        bar_width = 20 if wide else 10
        name = Text(_cut(line.name, max(12, self.console.width - REST - bar_width)))
        accuracy = line.accuracy if line.state in ("running", "done") else None
        texts = ["", "", "" if accuracy is None else percent(accuracy), ""]
        if place is not None:
            texts[0] = f"{place.stages if line.state == 'done' else place.stage}/{place.stages}"
        if place is None or line.state != "running":
            return name, Text(line.state, style=COLOURS[line.state]), *map(Text, texts)
        if place.rate > 0:
            left = (1 - self._share(place)) * self._steps(place) * place.batch / place.rate
            texts[1], texts[3] = f"{place.rate:.0f}", clock(left)
        return name, _bar(self._share(place), bar_width), *map(Text, texts)

    def _overall(self, counts: Counter[str]) -> tuple[Text, Table]:
        done = self.found + counts["done"]
        share = self.found + sum(self._done(line) for line in self.lines.values())
        before = self.found + sum(line.before for line in self.lines.values())
        elapsed, count = time.monotonic() - self.began, max(1, len(self.lines))
        head = Text(f"{done}/{len(self.lines)} done", style="bold")
        for state in ("running", "failed", "stopped", "paused", "waiting"):
            if counts[state] > 0:
                head.append(f"  {counts[state]} {state}", style=COLOURS[state])
        line = Table.grid(padding=(0, 2, 0, 0), expand=False)
        told = [f"{100 * share / count:.0f} %", f"{clock(elapsed)} so far"]
        if share > before:
            told += [f"{clock(elapsed * (count - share) / (share - before))} left"]
        line.add_row(_bar(share / count, 40 if self.console.width >= WIDE else 30), *told)
        return head, line

    def _steps(self, place: Progress) -> float:
        """How many steps the run is to have made in the end; stages are about as long as each other."""
        return place.steps * min(1, (self.until or place.stages) / place.stages)

    def _share(self, place: Progress) -> float:
        return min(1.0, place.step / self._steps(place))

    def _done(self, line: Line) -> float:
        """How much of a run is done; one that has ended somehow takes no more time."""
        return 1.0 if line.ready else self._share(line.place) if line.place else 0.0


def clock(seconds: float) -> str:
    """A stretch of time as h:mm:ss.

    >>> clock(3723.4)
    '1:02:03'
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def _bar(share: float, width: int) -> ProgressBar:
    return ProgressBar(total=1, completed=share, width=width, complete_style="cyan", finished_style="green")


def _cut(name: str, room: int) -> str:
    """A name that fits; both ends are kept, since the method stands at one and the seed at the other."""
    half = (room - 1) // 2
    return name if len(name) <= room else f"{name[: room - 1 - half]}…{name[-half:]}"
