"""Definitions: the runs of each table and figure of the paper, its published numbers, and how long the runs take.

A definition is a grid file with a header and the published numbers:

>>> row = {"method": "er", "accuracy": 17.6}
>>> item = parse_definition({"title": "A", "methods": ["er"], "seeds": 2, "expected": [row]}, "a")
>>> len(item.specs), item.published[0].title, item.measures
(2, 'ER', ['accuracy'])
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand import errors
from evenhand.core import registry
from evenhand.experiment import grid
from evenhand.experiment.estimate import Group
from evenhand.experiment.result import Result, by_setting, grouped
from evenhand.experiment.spec import Spec, titles
from evenhand.experiment.trainings import Archive, alike, together
from evenhand.paper.published import Published, method_title, published_rows
from evenhand.paper.steps import Steps, counted_steps, recorded_steps

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
HEADER = ("title", "kind", "source", "draws", "command", "note", "time")  # of a definition, besides its grid
SLUGS = ("table1", "table2", "table3", "table4", "analysis", "stages", "improvement", "scale", "balance")
ORDERS = ("iid", "iid++")  # orders of the stream that the paper lists among the methods
STEP = {"data": "cifar100", "memory": 1000}  # the setting in which steps are measured
Minutes = dict[str, Annotated[float, Field(ge=0)]]


class Times(BaseModel):
    """Minutes of one run with C_D = 1, by dataset; other methods are estimated to take C_D times as long."""

    model_config = STRICT

    hardware: str = ""
    side_by_side: Annotated[int, Field(ge=1)] = 1  # how many runs ran at the same time
    measured: Minutes = {}
    estimated: Minutes = {}

    def hours(self, specs: Iterable[Spec]) -> float | None:
        """Estimate how long these runs take together; None if the time of a dataset is unknown."""
        minutes = self.estimated | self.measured
        try:
            total = math.fsum(minutes[spec.data] * spec.cost for spec in specs)
        except KeyError:
            return None
        return total / 60 / self.side_by_side


class Row(NamedTuple):
    """A setting of an item: what the paper prints about it, if anything, and its finished runs, if any."""

    spec: Spec
    published: Published | None
    group: Group


class Item(BaseModel):
    """A table, which draws a "comparison", or a figure.

    Its numbers come from runs, or from steps that `evenhand bench` measures.
    """

    model_config = STRICT

    title: Annotated[str, Field(min_length=1)]
    kind: Literal["table", "figure"] = "table"
    source: Literal["runs", "bench"] = "runs"
    draws: Literal["comparison", "stages", "improvement", "analysis", "scale", "balance"] = "comparison"
    command: str = ""
    note: str = ""
    time: Times = Times()
    slug: str
    root: Path  # of its runs
    specs: tuple[Spec, ...]  # the runs of its rows, or the steps of the source "bench"
    published: tuple[Published, ...]

    @model_validator(mode="after")
    def _consistent(self) -> "Item":
        if (self.kind == "table") != (self.draws == "comparison"):
            raise errors.InputError(
                "A figure needs 'draws': stages, improvement, analysis, scale or balance; a table must not have it."
            )
        settings, taken = self.settings(), dict[str, Published]()
        for row in self.published:
            matching = [spec.setting for spec in settings if row.matches(spec)]
            if len(matching) != 1:
                raise errors.InputError(
                    f"The expected row {row} must match one setting of the runs. It matches {len(matching)}."
                )
            if other := taken.get(matching[0]):
                raise errors.InputError(f"The expected rows {other} and {row} match the same setting.")
            taken[matching[0]] = row
        return self

    @property
    def measures(self) -> list[str]:
        """What it compares: names of `MEASURES`."""
        return list(dict.fromkeys(name for row in self.published for name in row.numbers)) or ["accuracy"]

    @property
    def runs(self) -> list[Spec]:
        """The runs to train; none for the source "bench"."""
        return [together(group) for group in alike(self.specs)] if self.source == "runs" else []

    def settings(self) -> list[Spec]:
        """One spec per setting, whatever the seeds, in the order of the definition."""
        return [same[0] for same in grouped(self.specs, lambda spec: spec.setting).values()]

    def published_for(self, spec: Spec) -> Published | None:
        """The row that the paper prints for a setting."""
        return next((row for row in self.published if row.matches(spec)), None)

    def rows(self, results: Sequence[Result] = ()) -> list[Row]:
        """Its settings, named as the paper does, or by all their differences where two names would be equal."""
        settings = self.settings()
        published = [self.published_for(spec) for spec in settings]
        names = [row.title if row else row_title(spec) for row, spec in zip(published, settings, strict=True)]
        counts = Counter((spec.data, spec.memory, name) for spec, name in zip(settings, names, strict=True))
        finished = {runs[0].spec.setting: tuple(runs) for runs in by_setting(list(results))}
        rows = []
        for spec, row, name, title in zip(settings, published, names, titles(settings, seeds=False), strict=True):
            label = name if counts[spec.data, spec.memory, name] == 1 else title
            rows.append(Row(spec, row, Group(label, finished.get(spec.setting, ()))))
        return rows

    def hours(self) -> float | None:
        """How long all its runs take on the stated hardware."""
        return self.time.hours(self.runs or self.specs)

    def results(self, archive: Archive) -> list[Result]:
        """Load its finished runs from the first folder that has them."""
        if self.source == "bench":
            return []
        return [result.tested_as(spec) for spec in self.specs if (result := archive.find(spec))]

    def steps(self, folders: Sequence[Path]) -> Steps:
        """Load its measured steps; count the operations of those without a record."""
        if self.source == "runs":
            return {}
        unmeasured = [spec.method for spec in self.missing(Archive(folders))]
        return counted_steps(unmeasured) | recorded_steps(folders)

    def missing(self, archive: Archive) -> list[Spec]:
        """The runs, or steps, without an intact record."""
        if self.source == "runs":
            return [together(group) for group in alike(spec for spec in self.specs if not archive.find(spec))]
        recorded = recorded_steps(archive.roots)
        return [spec for spec in self.settings() if spec.method not in recorded]


def duration(hours: float | None) -> str:
    """Format a time in a unit to plan with.

    >>> duration(0.4), duration(9.7), duration(400), duration(None)
    ('24 min', '9.7 h', '17 days', 'unknown')
    """
    if hours is None:
        return "unknown"
    return f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


def row_title(spec: Spec) -> str:
    """Name a setting as the paper does: by its method, or by its order if the paper lists that among the methods."""
    if spec.order not in ORDERS:
        return method_title(spec.method)
    return " + ".join([spec.order.upper(), *(recipe.name.upper() for recipe, _ in registry.split(spec.method)[1])])


def memoryless(spec: Spec) -> bool:
    """Whether the size of the memory has no meaning for a run."""
    return [recipe.name for recipe, _ in registry.split(spec.method)[0]] == ["finetune"] or spec.order in ORDERS


def definitions_folder() -> Path:
    """The folder of the definitions: inside an installed package, or next to the source tree."""
    installed = Path(str(files("evenhand") / "benchmarks"))
    return installed if installed.is_dir() else Path(__file__).parents[3] / "benchmarks"


def all_items() -> list[Item]:
    """All tables and figures, in the paper's order."""
    return [load_item(slug) for slug in SLUGS]


def load_item(name: str) -> Item:
    """Load an item of the paper by name, or any definition by its path."""
    if not name.endswith(".toml") and name not in SLUGS:
        raise errors.unknown("table or figure", name, SLUGS)
    path = Path(name) if name.endswith(".toml") else definitions_folder() / f"{name}.toml"
    content = grid.read_toml(path, "definition")
    try:
        return parse_definition(content, path.stem)
    except errors.InputError as error:
        raise errors.InputError(f"In the definition {path}: {error}") from None


def parse_definition(content: dict[str, Any], slug: str) -> Item:
    """Build an item from the content of its file."""
    header = {name: value for name, value in content.items() if name in HEADER}
    axes = {name: value for name, value in content.items() if name not in (*HEADER, "expected")}
    runs = grid.parse(_step_axes(axes) if content.get("source") == "bench" else axes)
    published = published_rows(content.get("expected", []))
    found = {"slug": slug, "root": runs.root or Path("runs/paper"), "specs": runs.specs, "published": published}
    return errors.validated(Item, {**header, **found}, "a definition", [f"time.{name}" for name in Times.model_fields])


def _step_axes(axes: dict[str, Any]) -> dict[str, Any]:
    """Complete the grid of the source "bench", which measures all methods in one setting."""
    for name, value in axes.items():
        if name not in ("root", "methods") and STEP.get(name) != value:
            setting = ", ".join(f"{field} = {fixed}" for field, fixed in STEP.items())
            raise errors.InputError(f"The source 'bench' always measures steps with {setting}. Remove '{name}'.")
    return {**STEP, **axes}
