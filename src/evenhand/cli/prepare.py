"""What commands do before runs start: choose the data directory, load datasets, check names of trackers."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from evenhand import names
from evenhand.errors import InputError, RunError

if TYPE_CHECKING:
    from evenhand.experiment.spec import Spec


def use_data_dir(path: Path | None) -> None:
    """Look for datasets in this directory, also in the processes started from here."""
    if path is not None:
        if not path.is_dir():
            raise InputError(f"There is no folder {path} for --data-dir.")
        os.environ["EVENHAND_DATA"] = str(path.absolute())


def load_dataset(name: str, size: int | None = None, skip_bad: bool = False) -> Any:
    """Load a dataset with a progress bar and print its notes; afterwards it loads from a cache."""
    from evenhand import datasets

    with LoadProgress(name) as progress:
        dataset = datasets.load(name, size=size, skip_bad=skip_bad, progress=progress)
        for note in dataset.notes:
            progress.print(note)
    return dataset


def load_missing(specs: "Sequence[Spec]", root: Path) -> None:
    """Load the datasets of all runs that are not finished."""
    from evenhand.experiment.folder import Folder

    def done(spec: "Spec") -> bool:
        with suppress(RunError):  # the run itself will report the damage
            return Folder(root, spec).status().get("state") == "done"
        return False

    for source in dict.fromkeys(spec.source for spec in specs if not done(spec)):
        load_dataset(*source)


def trackers(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated list of trackers, and raise for an unknown one before anything runs."""
    from evenhand.experiment.tracking import Tracker

    listed = tuple(comma_separated(text))
    Tracker(listed)
    return listed


def comma_separated(text: str | None) -> list[str]:
    """Split a comma-separated list; commas inside parentheses belong to a name."""
    return [word for word in names.split(text or "") if word]


class LoadProgress:
    """Progress bars on stderr while a dataset loads; only on a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

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

    def print(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
