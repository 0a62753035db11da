"""Tables on stdout that fit the terminal."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

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
    *("ms", "/ plain loop", "samples/s", "GFLOP/s", "of GEMM peak", "outside", "run of CIFAR-100"),
)
OPEN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}  # the looks of a table without lines


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


def table_of(
    columns: Mapping[str, Sequence[str | Text]],
    texts: Collection[str],
    numbers: Collection[str] = NUMBERS,
    most: int | None = None,
    **looks: Any,
) -> Table:
    """A table from the cells of each column: `texts` may be wrapped, at `most` characters; `numbers` stand right."""
    table = Table(**looks)
    for name in columns:
        wrapped: dict[str, Any] = {"max_width": most} if name in texts else {"no_wrap": True}
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold", **wrapped)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return table


def fitting(columns: dict[str, list[str]], texts: Sequence[str], optional: Sequence[str]) -> Table:
    """A table that fits stdout: texts are wrapped, numbers and names are never cut.

    If it is too wide even without lines, `optional` columns are omitted, in this order.
    """

    def draw(lines: bool, omitted: int, most: int | None = None) -> Table:
        kept = {name: cells for name, cells in columns.items() if name not in optional[:omitted]}
        looks: dict[str, Any] = {} if lines else {"box": box.SIMPLE_HEAD, "padding": 0}
        table = table_of(kept, texts, most=most, title_justify="left", caption_justify="left", **looks)
        if not lines:
            for column in table.columns:
                column.header = str(column.header).replace(" % ", " %\n")
        return table

    console = stdout()
    for lines, omitted in [(True, 0), *((False, count) for count in range(len(optional) + 1))]:
        if width(console, draw(lines, omitted, NARROW)) <= console.width:
            break
    table = draw(lines, omitted)
    if omitted:
        table.caption = f"Columns omitted: {', '.join(optional[:omitted])}. See --json."
    return table
