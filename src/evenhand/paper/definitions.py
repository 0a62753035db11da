"""Definitions: what each table and figure of the paper runs, the numbers it printed, and the time that it takes.

A definition is a grid file with a header and the published numbers:

>>> item = parse({"title": "A", "methods": ["er"], "seeds": 2, "expected": [{"method": "er", "accuracy": 17.6}]}, "a")
>>> len(item.specs), item.expected[0].name, item.measures
(2, 'ER', ('accuracy',))
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand import errors, registry
from evenhand.experiment import grid
from evenhand.experiment.spec import Spec, titles
from evenhand.paper import naming, records
from evenhand.paper.expected import Expected, expand
from evenhand.paper.times import Times

SLUGS = ("table1", "table2", "table3", "table4", "analysis", "stages", "improvement", "scale", "balance")
ORDERS = ("iid", "iid++")  # of the stream, which the paper lists among the methods
DRAWN = ("comparison", "stages", "improvement", "analysis", "scale", "balance")
CHOICES = {"kind": ("table", "figure"), "source": ("runs", "bench"), "draws": DRAWN}
STEP = {"data": "cifar100", "memory": 1000}  # in which steps are counted and timed
TEXTS = {"title": "", "kind": "table", "source": "runs", "draws": "comparison", "command": "", "note": ""}


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes
    ----------
    specs
        Its rows with their seeds; those of the source "bench" are steps that are counted and timed instead.
    kin
        Rows that were left out, with the same seeds: one may have been trained like one of these.
    draws
        How it is drawn: numbers against the paper's, or one of the paper's figures.
    measures
        What is compared: names of `MEASURES`.
    """

    slug: str
    title: str
    kind: str
    source: str
    draws: str
    command: str
    note: str
    root: Path
    specs: tuple[Spec, ...]
    expected: tuple[Expected, ...]
    measures: tuple[str, ...]
    times: Times
    kin: tuple[Spec, ...] = ()

    @property
    def runs(self) -> list[Spec]:
        """What has to be run for it; none for the source "bench"."""
        return [group[0] for group in records.trainings(self.specs)] if self.source == "runs" else []

    def settings(self) -> list[Spec]:
        """One spec for all seeds of a setting, in the definition's order."""
        return list({spec.setting: spec for spec in reversed(self.specs)}.values())[::-1]

    def names(self) -> dict[str, str]:
        """What each setting is called: as in the paper, or by all it differs in where two would be called alike."""
        settings = self.settings()
        called = [one.name if (one := self.published(spec)) else naming.method(spec.method) for spec in settings]
        often = Counter((spec.data, spec.memory, name) for spec, name in zip(settings, called, strict=True))
        return {
            spec.setting: name if often[spec.data, spec.memory, name] == 1 else title
            for spec, name, title in zip(settings, called, titles(settings, seeds=False), strict=True)
        }

    def hours(self) -> float | None:
        """How long all of it takes on the stated hardware."""
        return self.times.hours(self.runs or self.specs)

    def published(self, spec: Spec) -> Expected | None:
        """What the paper printed for a setting."""
        return next((one for one in self.expected if one.fits(spec)), None)


def folder() -> Path:
    """Where the definitions lie: inside an installed package, or beside its source."""
    inside = Path(str(files("evenhand") / "benchmarks"))
    return inside if inside.is_dir() else Path(__file__).parents[3] / "benchmarks"


def items() -> list[Item]:
    """All items of the paper, in its order."""
    return [read(folder() / f"{slug}.toml") for slug in SLUGS]


def find(name: str) -> Item:
    """An item of the paper by its name, or a definition of one's own by its path."""
    if name.endswith(".toml"):
        return read(Path(name))
    if name not in SLUGS:
        raise errors.unknown("table or figure", name, SLUGS)
    return read(folder() / f"{name}.toml")


def read(path: Path) -> Item:
    """Read a definition; a mistake in it is one sentence with its name."""
    content = grid.load(path, "definition")
    try:
        return parse(content, path.stem)
    except errors.InputError as error:
        raise errors.InputError(f"In the definition {path}: {error}") from None


def parse(content: dict[str, Any], slug: str) -> Item:
    """The item of a file's content."""
    rest = dict(content)
    header = {name: rest.pop(name, default) for name, default in TEXTS.items()}
    entries, times = rest.pop("expected", []), Times.parse(rest.pop("time", {}))
    for name, text in header.items():
        errors.text(f"The '{name}' of a definition", text)
        if name in CHOICES:
            errors.choice(f"The '{name}' of a definition", text, CHOICES[name])
    if not header["title"]:
        raise errors.InputError("A definition needs a title.")
    if (header["kind"] == "table") != (header["draws"] == "comparison"):
        raise errors.InputError(f"A figure says what it 'draws', {' or '.join(DRAWN[1:])}; a table does not.")
    if header["source"] == "bench":
        rest = _timed(rest)
    made = grid.parse(rest)
    expected = expand(entries)
    measures = tuple(dict.fromkeys(name for one in expected for name in one.numbers)) or ("accuracy",)
    item = Item(
        slug=slug,
        root=made.root or Path("runs/paper"),
        specs=made.specs,
        expected=expected,
        measures=measures,
        times=times,
        **header,
    )
    _match(item)
    return item


def _timed(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of steps, which have one setting and differ in their methods alone; what says otherwise is refused."""
    for name, value in fields.items():
        if name not in ("root", "methods") and STEP.get(name) != value:
            setting = ", ".join(f"{field} = {held}" for field, held in STEP.items())
            raise errors.InputError(
                f"The source 'bench' times steps with {setting}, whatever '{name}' says. Leave it out."
            )
    return {**STEP, **fields}


def _match(item: Item) -> None:
    """Every published row belongs to one setting, and no setting to two rows."""
    settings = item.settings()
    taken: dict[str, str] = {}
    for one in item.expected:
        fitting = [spec for spec in settings if one.fits(spec)]
        if len(fitting) != 1:
            raise errors.wrong(f"The expected row {one}", "fit one setting of the runs", f"{len(fitting)} settings")
        if other := taken.get(fitting[0].setting):
            raise errors.InputError(f"The expected rows {other} and {one} fit the same setting.")
        taken[fitting[0].setting] = str(one)


def narrow(
    item: Item,
    seeds: int | None = None,
    datasets: Sequence[str] = (),
    memory: Sequence[int] = (),
    methods: Sequence[str] = (),
) -> Item:
    """The same item with fewer runs, or with other seeds; what keeps no memory is of every size."""
    specs: Sequence[Spec] = item.specs
    if datasets:
        _known(item, "data", datasets, [spec.data for spec in specs])
        specs = [spec for spec in specs if spec.data in datasets]
    if memory:
        _known(item, "memory", memory, [spec.memory for spec in specs if not memoryless(spec)])
        specs = [spec for spec in specs if spec.memory in memory or memoryless(spec)]
    if methods:
        names = [name if name in ORDERS else registry.canonical(name) for name in methods]
        meant = _meant(names, specs)
        _known(item, "method", names, [_method(spec) for spec in specs], [*itertools.chain(*meant.values())])
        specs = [spec for spec in specs if meant[spec.data, _method(spec)]]
    taken = set(specs)
    left = [spec for spec in item.specs if spec not in taken]
    if seeds is not None:
        numbers = range(errors.whole("The number of --seeds", seeds, 1, grid.MOST))
        specs, left = _seeded(item, specs, numbers), _seeded(item, left, numbers)
    expected = tuple(one for one in item.expected if any(map(one.fits, specs)))
    return replace(item, specs=tuple(specs), kin=tuple(left), expected=expected)


def _seeded(item: Item, specs: Sequence[Spec], seeds: Sequence[int]) -> list[Spec]:
    """Every setting of these specs with these seeds."""
    once = replace(item, specs=tuple(specs)).settings()
    return [spec.model_copy(update={"seed": seed}) for spec in once for seed in seeds]


def _known(item: Item, field: str, wanted: Sequence[Any], values: Sequence[Any], more: Sequence[Any] = ()) -> None:
    """Refuse a value that none of the runs has which earlier options leave."""
    for value in wanted:
        if value not in values and value not in more:
            known = ", ".join(map(str, dict.fromkeys(values)))
            raise errors.wrong(f"The {field} of {item.slug}", f"be one of {known}", value)


def _meant(names: Sequence[str], specs: Sequence[Spec]) -> dict[tuple[str, str], list[str]]:
    """By dataset and method the names that mean it: its own, or the bare one where that dataset has no such method."""
    pairs = dict.fromkeys((spec.data, _method(spec)) for spec in specs)
    return {
        (data, method): [
            name for name in names if name == method or (name == _bare(method) and (data, name) not in pairs)
        ]
        for data, method in pairs
    }


def _bare(method: str) -> str:
    """A method without its parameters."""
    return method if method in ORDERS else "+".join(recipe.name for recipe, _ in registry.terms(method))


def _method(spec: Spec) -> str:
    """The method as the paper would have it, which calls IID and IID++ methods."""
    return spec.order if spec.order in ORDERS else spec.method


def memoryless(spec: Spec) -> bool:
    """Whether the size of the memory means nothing to a run."""
    return spec.method == "finetune" or spec.order in ORDERS
