"""What the terminal shows while runs go on: a live table of them, or elsewhere a line at each stage and each end."""

import time
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

ORDER = ("running", "failed", "stopped", "paused", "done", "waiting")
FEW = 20  # runs whose stages are worth a line each, where there is no table
FRAME = 6  # lines around the rows: overall progress, header, borders, what is not shown


@dataclass
class Line:
    """One run on the screen."""

    name: str
    state: str = "waiting"
    place: Progress | None = None
    accuracy: float | None = None
    since: float = 0.0
    said: str = ""

    @property
    def share(self) -> float:
        """How much of the run is done."""
        if self.state in ("waiting", "running"):
            return self.place.step / self.place.steps if self.place else 0.0
        return 1.0


class Watch:
    """Shows what an engine tells it. On stderr.

    Parameters
    ----------
    specs
        All runs, those included that are there already.
    """

    def __init__(self, specs: list[Spec], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.lines = {spec.key: Line(name) for spec, name in zip(specs, titles(specs), strict=True)}
        self.found = 0
        self.began = time.monotonic()
        self.live = Live(get_renderable=self.picture, console=self.console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.console.is_terminal:
            self.live.stop()

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
        fresh = line.place is None or line.place.stage != place.stage
        line.state, line.place, line.since = "running", place, line.since or time.monotonic()
        line.accuracy = place.accuracy
        if fresh and not self.console.is_terminal and len(self.lines) <= FEW:
            accuracy = "" if place.accuracy is None else f", accuracy {percent(place.accuracy)}"
            where = f"stage {place.stage}/{place.stages}, step {place.step}/{place.steps}"
            self._say(f"{line.name}: {where}, {place.rate:.0f} samples/s{accuracy}")

    def _end(self, outcome: Outcome) -> None:
        line = self.lines[outcome.spec.key]
        line.since = time.monotonic()
        if isinstance(outcome, Failure):
            line.state = outcome.cause if outcome.cause in ("stopped", "paused") else "failed"
            line.said = outcome.sentence
        else:
            line.state, line.accuracy = "done", outcome.summary()["final_accuracy"]
            line.said = f"done, accuracy {percent(line.accuracy)}, {outcome.seconds:.0f} s"
        self._say(f"{line.name}: {line.said}")

    def _say(self, text: str) -> None:
        ended = self.found + sum(line.state in ("done", "failed") for line in self.lines.values())
        clock = time.strftime("%H:%M:%S")
        self.console.print(f"{clock} [{ended}/{len(self.lines)}] {text}", markup=False, highlight=False, soft_wrap=True)

    # The picture ------------------------------------------------------------------------------------------------------

    def picture(self) -> Group:
        """The table as it is now: what is running first, as much as the terminal can hold."""
        lines = sorted(self.lines.values(), key=lambda line: (ORDER.index(line.state), -line.since))
        shown = [line for line in lines if line.state != "waiting"]
        room = max(1, self.console.height - FRAME)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, side in (("run", "left"), ("", "left"), ("stage", "right"), ("samples/s", "right")):
            table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
        table.add_column("accuracy", justify="right", no_wrap=True)
        table.add_column("left", justify="right", no_wrap=True)
        for line in shown[:room]:
            table.add_row(*self._row(line))
        hidden, waiting = len(shown) - room, len(lines) - len(shown) - self.found
        rest = [f"{hidden} more that began"] * (hidden > 0) + [f"{waiting} waiting"] * (waiting > 0)
        return Group(self._overall(), table, Text(", ".join(rest), style="dim"))

    def _row(self, line: Line) -> tuple[str | ProgressBar, ...]:
        accuracy = percent(line.accuracy) if line.accuracy is not None else ""
        if line.state != "running" or line.place is None:
            colour = {"done": "green", "failed": "red"}.get(line.state, "yellow")
            return line.name, f"[{colour}]{line.state}[/]", "", "", accuracy, ""
        place = line.place
        left = (place.steps - place.step) / max(place.rate / max(place.batch, 1), 1e-9)
        bar = ProgressBar(total=1, completed=line.share, width=20)
        return line.name, bar, f"{place.stage}/{place.stages}", f"{place.rate:.0f}", accuracy, clock(left)

    def _overall(self) -> Text:
        states = [line.state for line in self.lines.values()]
        count = len(states)
        done = self.found + states.count("done")
        share = (self.found + sum(line.share for line in self.lines.values())) / count
        now = (share - self.found / count) / max(1 - self.found / count, 1e-9)  # of what this command has to do
        elapsed = time.monotonic() - self.began
        parts = [f"{done}/{count} done", f"{100 * share:.0f} %"]
        parts += [f"{states.count('failed')} failed"] * ("failed" in states)
        parts += [f"{clock(elapsed)} so far"]
        if now > 0:
            parts += [f"{clock(elapsed * (1 - now) / now)} left"]
        return Text("  ".join(parts), style="bold")


def clock(seconds: float) -> str:
    """A stretch of time as h:mm:ss."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
