"""What the terminal shows of the paper: the list of items, and one of them."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from evenhand import show as shows
from evenhand.paper import texts, times
from evenhand.paper.rendering import Rendering


def listing(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table of `evenhand paper`."""
    table = Table()
    for name in ("item", "what it is", "runs", "done", "time left"):
        table.add_column(name, justify="left" if name in ("item", "what it is") else "right")
    for row in rows:
        counts = (str(row["runs"]), str(row["done"])) if row["runs"] else ("-", "-")
        table.add_row(row["item"], row["title"], *counts, times.shown(row["hours_left"]))
    shows.stdout().print(table)
    print(f"Time on {rows[0]['hardware']}, mostly estimated; items share runs.")
    print("A part of one of them: evenhand paper table2 --datasets cifar100 --memory 1000 --methods er,uer --seeds 2")


def show(rendering: Rendering) -> None:
    """Print the tables that have anything of our own, and the names of the others."""
    item, console = rendering.item, shows.stdout()
    console.print(item.title, style="bold", markup=False, highlight=False)
    for sheet in rendering.sheets:
        if sheet.run:
            console.print(f"\n{sheet.title}", style="italic", markup=False, highlight=False, soft_wrap=True)
            console.print(texts.terminal(sheet))
    if missing := [section.title for section in rendering.sections if not section.run]:
        console.print(f"Not run: {'; '.join(missing)}.", style="dim", markup=False, highlight=False, soft_wrap=True)
    said = [rendering.state, item.note.strip()]
    if rendering.flagged:
        said.append("Rows that differ do so by more than two standard errors of the difference.")
    console.print(" ".join(filter(None, said)), markup=False, highlight=False, soft_wrap=True)
