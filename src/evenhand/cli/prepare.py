"""What commands do before runs start: choose the data directory, load datasets, check names of trackers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evenhand import names
from evenhand.cli.tables import print_line
from evenhand.errors import InputError

if TYPE_CHECKING:
    from evenhand.datasets.decoding import Progress
    from evenhand.experiment.spec import Spec


def use_data_dir(path: Path | None) -> None:
    """Look for datasets in this directory, also in the processes started from here."""
    if path is not None:
        if not path.is_dir():
            raise InputError(f"The folder {path}, given as --data-dir, does not exist.")
        os.environ["EVENHAND_DATA"] = str(path.absolute())


def load_dataset(name: str, size: int | None = None, skip_bad: bool = False, columns: str = "") -> Any:
    """Load a dataset with a progress bar and print its notes; afterwards it loads from a cache."""
    from evenhand import datasets

    with load_progress(name) as progress:
        dataset = datasets.load(name, size, skip_bad, columns, progress=progress)
    for note in dataset.notes:
        print_line(Console(stderr=True), note)
    return dataset


def load_missing(specs: "Sequence[Spec]", root: Path) -> None:
    """Load the datasets of all runs that are not finished."""
    from evenhand.experiment.trainings import is_done, plan

    for source in dict.fromkeys(run.source for run in plan(specs, [root]).values() if not is_done(run, [root])):
        load_dataset(*source)


def trackers(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated list of trackers, and raise for an unknown one before anything runs."""
    from evenhand.experiment.tracking import Tracker

    listed = tuple(names.listed(text))
    Tracker(listed)
    return listed


@contextmanager
def load_progress(name: str) -> "Iterator[Progress]":
    """Progress bars on stderr while a dataset loads; only on a terminal."""
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.percentage:.0f} %"))
    remaining = TimeRemainingColumn(compact=True)
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, remaining, console=console, disable=not console.is_terminal, transient=True) as bars:

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(f"{name}: {what}")
            bars.update(tasks[what], completed=done, total=total)

        yield show
