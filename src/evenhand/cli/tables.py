"""Tables on stdout that fit the terminal."""

from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evenhand.metrics import percent

STDOUT_WIDTH = 140  # columns of a table that does not go to a terminal
NARROW = 14  # characters of a wrapped text in a narrow terminal
NUMBERS = (
    *("classes", "train", "test"),
    *("accuracy", "95 % interval", "previous", "current", "forgetting", "seconds", "seeds"),
)


def stdout() -> Console:
    """A console on stdout, wide enough for tables unless it is a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=STDOUT_WIDTH)


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """Print a text as it is: no markup, no highlighting, no line breaks."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def plus_minus(half: float | None) -> str:
    """Half the width of an interval as a percentage.

    >>> plus_minus(0.0123), plus_minus(None)
    ('± 1.2', '-')
    """
    return "-" if half is None else f"± {percent(half, unit='')}"


def width(console: Console, table: Table) -> int:
    """The number of columns a table takes if there is room."""
    return console.measure(table, options=console.options.update(width=10_000)).maximum


def fitting(columns: dict[str, list[str]], texts: Sequence[str], optional: Sequence[str]) -> Table:
    """A table that fits stdout: texts are wrapped, numbers and names are never cut.

    Parameters
    ----------
    columns
        The cells of each column by its heading.
    texts
        The columns that may be wrapped.
    optional
        The columns to omit, in this order, if the table is too wide even without lines.
    """
    console = stdout()
    looks = [(True, 0), *((False, count) for count in range(len(optional) + 1))]
    for lines, count in looks:
        kept = {name: cells for name, cells in columns.items() if name not in optional[:count]}
        if width(console, _table(kept, texts, lines, NARROW)) <= console.width:
            break
    table = _table(kept, texts, lines)
    if count:
        table.caption = f"Columns omitted: {', '.join(optional[:count])}. See --json."
    return table


def _table(columns: dict[str, list[str]], texts: Sequence[str], lines: bool, most: int | None = None) -> Table:
    table = Table(title_justify="left", caption_justify="left")
    if not lines:
        table.box, table.padding = box.SIMPLE_HEAD, 0
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        wraps = name in texts
        heading = name if lines or wraps else name.replace(" % ", " %\n")
        table.add_column(
            heading, justify=justify, no_wrap=not wraps, overflow="fold", max_width=most if wraps else None
        )
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    return table
