"""A rendering: a table or figure with our numbers, in every format."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evenhand import errors, files
from evenhand.experiment.result import Result, grouped
from evenhand.experiment.trainings import alike
from evenhand.paper.comparison import ComparedRow, ComparedTable, compare
from evenhand.paper.curves import Panel, panels
from evenhand.paper.definitions import Item
from evenhand.paper.published import stream_title
from evenhand.paper.steps import Steps
from evenhand.paper.tables import TextTable, as_csv, comparison_table, panel_table
from evenhand.report import optional


@dataclass(frozen=True)
class Rendering:
    """An item with its finished runs, or measured steps."""

    item: Item
    results: Sequence[Result]
    steps: Steps = field(default_factory=dict)

    @cached_property
    def compared(self) -> list[ComparedTable]:
        """The comparison of a table with the paper; empty for a figure."""
        return compare(self.item, self.results, self.steps) if self.item.kind == "table" else []

    @cached_property
    def panels(self) -> list[Panel]:
        """The content of a figure; empty for a table, or without runs."""
        return panels(self.item, self.results)

    @property
    def rows(self) -> list[ComparedRow]:
        """All rows that are compared with the paper."""
        return [row for table in self.compared for row in table.rows]

    @property
    def flagged(self) -> list[ComparedRow]:
        """The rows that differ from the paper by more than chance explains."""
        return [row for row in self.rows if row.flagged]

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.panels) or any(table.has_runs for table in self.compared)

    @property
    def finished(self) -> int:
        """The number of its runs of which every test is finished."""
        finished = {result.spec for result in self.results}
        return sum(finished.issuperset(group) for group in alike(self.item.specs))

    @property
    def progress(self) -> str:
        """How much of it has been run, and which curves a figure lacks; a table shows them as rows."""
        if self.item.source == "bench":
            return "Steps are counted and timed; nothing is trained."
        counts = f"{self.finished} of {len(self.item.runs)} runs finished.{self._mixture()}"
        if self.item.kind == "table" or not self.results:
            return counts
        lacking = []
        streams = grouped(self.item.rows(self.results), lambda row: stream_title(row.spec.data, row.spec.memory))
        for stream, rows in streams.items():
            if absent := [row.group.label for row in rows if not row.group.runs]:
                lacking.append(stream if len(absent) == len(rows) else f"{', '.join(absent)} ({stream})")
        return counts + (f" Not run: {'; '.join(lacking)}." if lacking else "")

    def _mixture(self) -> str:
        """What should not be averaged without a word: runs in two precisions, or on two versions of a dataset."""
        runs = {result.key: result for result in self.results}.values()
        fast = sum(run.environment.get("precision") == "bf16" for run in runs)
        notes = [f"{fast} of these {len(runs)} in bf16, the others in fp32."] if 0 < fast < len(runs) else []
        for data, own in grouped(runs, lambda run: run.spec.data).items():
            if len({run.environment.get("data") for run in own} - {None, ""}) > 1:
                notes.append(f"Not all runs on {data} saw the same images, since the dataset changed in between.")
        return "".join(f" {note}" for note in notes)

    def text_tables(self) -> list[TextTable]:
        """Its tables, or the tables of the points of its figure."""
        return [*map(comparison_table, self.compared), *map(panel_table, self.panels)]

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "schema": 1,
            "item": self.item.slug,
            "title": self.item.title,
            "kind": self.item.kind,
            "command": self.item.command,
            "note": self.item.note,
            "runs": {"done": self.finished, "of": len(self.item.runs)},
            "sections": [
                {"title": table.title, "rows": [row.fields() for row in table.rows]} for table in self.compared
            ],
            "panels": [panel.fields() for panel in self.panels],
        }

    def markdown(self) -> str:
        """Its tables in Markdown."""
        tables = [table.markdown() for table in self.text_tables()]
        return "\n".join(
            [f"# {self.item.title}\n", f"{self.progress} {self.item.note.strip()}".strip() + "\n", *tables]
        )

    def latex(self) -> str:
        """Its tables in LaTeX."""
        return "\n".join(table.latex() for table in self.text_tables()) or f"% {self.item.title}: not run.\n"

    def write(self, folder: Path) -> tuple[list[Path], str]:
        """Write all formats; return the paths, and why HTML and pictures are missing if they are."""
        files.make_folder(folder)
        contents = {
            "md": self.markdown().encode(),
            "tex": self.latex().encode(),
            "csv": as_csv(self.document()).encode(),
        }
        problem = ""
        try:
            with optional("HTML, PNG and SVG need"):
                from evenhand.paper import drawing
        except errors.InputError as error:
            problem = str(error)
        else:
            contents["html"] = drawing.html(self).encode()
            contents |= {kind: drawing.picture(self, kind) for kind in ("png", "svg") if self.drawable}
        paths = {kind: folder / f"{self.item.slug}.{kind}" for kind in contents}
        for kind, path in paths.items():
            files.write(path, contents[kind])
        return list(paths.values()), problem
