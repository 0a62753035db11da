"""Selection: a part of an item, by dataset, memory and method, and with fewer or more seeds."""

from collections.abc import Collection, Sequence
from typing import Any

from evenhand import errors
from evenhand.core import registry
from evenhand.experiment import grid
from evenhand.experiment.spec import Spec
from evenhand.paper.definitions import ORDERS, Item, memoryless


def select(
    item: Item,
    seeds: int | None = None,
    datasets: Sequence[str] = (),
    memory: Sequence[int] = (),
    methods: Sequence[str] = (),
) -> Item:
    """Restrict an item to some of its runs; runs without a memory belong to every size."""
    specs: Sequence[Spec] = item.specs
    if datasets:
        _check(item, "datasets", datasets, [spec.data for spec in specs])
        specs = [spec for spec in specs if spec.data in datasets]
    if memory:
        _check(item, "memory", memory, [spec.memory for spec in specs if not memoryless(spec)])
        specs = [spec for spec in specs if spec.memory in memory or memoryless(spec)]
    if methods:
        wanted = [name if name in ORDERS else registry.canonical(name) for name in methods]
        listed = {(spec.data, _method(spec)) for spec in specs}
        names = {spec: _names(spec, listed) for spec in specs}
        _check(item, "methods", wanted, [_method(spec) for spec in specs], set().union(*names.values()))
        specs = [spec for spec in specs if not names[spec].isdisjoint(wanted)]
    chosen = item.model_copy(update={"specs": tuple(specs)})
    if seeds is None:
        return chosen
    numbers = range(errors.whole("The number of --seeds", seeds, 1, grid.MOST))
    seeded = [spec.model_copy(update={"seed": seed}) for spec in chosen.settings() for seed in numbers]
    return item.model_copy(update={"specs": tuple(seeded)})


def with_tests(item: Item, tests: str) -> Item:
    """Add a row for each further way to test a method; it shares the training of the method's own row."""
    ways = ["", *registry.ways(tests)]
    names = {
        spec.method: [registry.canonical("+".join(filter(None, (spec.method, way)))) for way in ways]
        for spec in item.specs
    }
    specs = [spec.model_copy(update={"method": name}) for spec in item.specs for name in names[spec.method]]
    return item.model_copy(update={"specs": tuple(dict.fromkeys(specs))})


def _check(item: Item, option: str, wanted: Sequence[Any], values: Sequence[Any], more: Collection[Any] = ()) -> None:
    """Reject a value that no remaining run has."""
    for value in wanted:
        if value not in values and value not in more:
            known = ", ".join(map(str, dict.fromkeys(values)))
            raise errors.wrong(f"The --{option} of {item.slug}", f"be among {known}", value)


def _names(spec: Spec, listed: Collection[tuple[str, str]]) -> set[str]:
    """What chooses a run: its method, also without parameters unless its dataset has that method too."""
    method = _method(spec)
    bare = method if method in ORDERS else "+".join(recipe.name for recipe, _ in registry.terms(method))
    return {method} if (spec.data, bare) in listed else {method, bare}


def _method(spec: Spec) -> str:
    """The method as the paper lists it, which counts IID and IID++ among the methods."""
    return spec.order if spec.order in ORDERS else spec.method
