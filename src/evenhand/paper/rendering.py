"""A rendering: one table or figure of the paper with what has been run of it, in every format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import errors, files
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.paper import curves, naming, texts
from evenhand.paper.comparison import Row, Section, compare
from evenhand.paper.curves import Panel
from evenhand.paper.definitions import Item
from evenhand.paper.sheets import Sheet, of_panel, of_section
from evenhand.report import optional


@dataclass(frozen=True)
class Rendering:
    """An item with its numbers.

    Attributes
    ----------
    results
        Those of its runs that are done.
    sections
        The comparison of a table with the paper's numbers; empty for a figure.
    panels
        What a figure draws; empty for a table, and where nothing has been run.
    """

    item: Item
    results: tuple[Result, ...]
    sections: tuple[Section, ...]
    panels: tuple[Panel, ...]

    @property
    def sheets(self) -> list[Sheet]:
        """Its tables of texts."""
        return [*map(of_section, self.sections), *map(of_panel, self.panels)]

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.panels) or any(section.run for section in self.sections)

    @property
    def flagged(self) -> list[Row]:
        """The rows that differ from the paper by more than chance explains."""
        return [row for section in self.sections for row in section.rows if row.flagged]

    @property
    def state(self) -> str:
        """How much of it has been run, as a sentence."""
        if self.item.source == "bench":
            return "Steps are counted and timed; nothing is trained."
        runs = len(self.item.runs)
        counted = f"{self.done or 'None'} of its {runs} runs {'is' if self.done == 1 else 'are'} done."
        if runs == 1:
            counted = f"Its one run is {'done' if self.done else 'not done'}."
        return counted + (f" Not run: {'; '.join(self.lacking)}." if self.lacking else "")

    @property
    def lacking(self) -> list[str]:
        """What a figure does not show since it has not been run, by stream; a table shows it as rows."""
        if self.item.kind == "table" or not self.results:
            return []
        names, run = self.item.names(), {result.spec.setting for result in self.results}
        places: dict[str, list[Spec]] = {}
        for spec in self.item.settings():
            places.setdefault(naming.place(spec.data, spec.memory), []).append(spec)
        found = []
        for place, specs in places.items():
            if left := [names[spec.setting] for spec in specs if spec.setting not in run]:
                found.append(place if len(left) == len(specs) else f"{', '.join(left)} ({place})")
        return found

    @property
    def done(self) -> int:
        """How many of its runs are there."""
        return len({result.key for result in self.results})

    def document(self) -> dict[str, Any]:
        """All of it as data."""
        return {
            "schema": 1,
            "item": self.item.slug,
            "title": self.item.title,
            "kind": self.item.kind,
            "command": self.item.command,
            "note": self.item.note,
            "runs": {"done": self.done, "of": len(self.item.runs)},
            "sections": [
                {"title": section.title, "rows": [row.fields() for row in section.rows]} for section in self.sections
            ],
            "panels": [panel.fields() for panel in self.panels],
        }

    def markdown(self) -> str:
        """Its tables in Markdown, each below its title."""
        blocks = [f"**{sheet.title}**\n\n{texts.markdown(sheet)}" for sheet in self.sheets]
        return "\n".join([f"# {self.item.title}\n", f"{self.state} {self.item.note.strip()}".strip() + "\n", *blocks])

    def latex(self) -> str:
        """Its tables in LaTeX."""
        return "\n".join(texts.latex(sheet) for sheet in self.sheets) or f"% {self.item.title}: not run.\n"

    def write(self, folder: Path) -> tuple[list[Path], str]:
        """Write every format that can be written, and say what could not be."""
        files.make(folder)
        contents = {
            "md": self.markdown().encode(),
            "tex": self.latex().encode(),
            "csv": texts.comma_separated(self.document()).encode(),
        }
        pictures, problem = self._pictures()
        paths = []
        for ending, content in {**contents, **pictures}.items():
            paths.append(folder / f"{self.item.slug}.{ending}")
            files.write(paths[-1], content)
        return paths, problem

    def _pictures(self) -> tuple[dict[str, bytes], str]:
        """The formats that need matplotlib and jinja2, which are an optional extra."""
        try:
            with optional("HTML, PNG and SVG need"):
                from evenhand.paper import figures, html
        except errors.InputError as error:
            return {}, str(error)
        made = {"html": html.page(self).encode()}
        return made | {ending: figures.picture(self, ending) for ending in ("png", "svg") if self.drawn}, ""


def render(item: Item, results: Sequence[Result], steps: Mapping[str, Mapping[str, float]] | None = None) -> Rendering:
    """Put an item together with its finished runs.

    Parameters
    ----------
    steps
        What was counted and timed of steps, by method and measure.
    """
    sections = compare(item, results, steps or {}) if item.kind == "table" else []
    drawn = curves.panels(item, results)
    return Rendering(item, tuple(results), tuple(sections), tuple(drawn))
