"""Names for methods: `er`, `uer(alpha=0.3)`, `mir+uer`. A name is also documentation, see `evenhand methods`."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ParamSpec

from evenhand import errors, names
from evenhand.core.method import Method

GROUP = "evenhand.methods"
P = ParamSpec("P")


@dataclass(frozen=True)
class Recipe:
    """A registered method.

    Attributes
    ----------
    build
        Function that returns the method; its keyword parameters are the method's.
    cost
        C_D: the training cost relative to ER, by the formula in the method's file.
    tolerance
        How far the measured cost may differ from it, as a fraction.
    revision
        Number to raise when a fix changes results, so that no stale number survives.
    exempt
        Checks of the conformance suite that do not apply, with the reason.
    yields
        Slots that it leaves to another method of a composition that sets them too.
    closed
        Why the method cannot be composed; empty if it can.
    """

    name: str
    build: Callable[..., Method]
    cost: float
    tolerance: float
    revision: int
    exempt: Mapping[str, str]
    yields: tuple[str, ...]
    closed: str

    @property
    def title(self) -> str:
        """The first line of the method's documentation."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def call(self) -> str:
        """The name with all parameters and their defaults."""
        known = inspect.signature(self.build).parameters.values()
        return f"{self.name}({', '.join(f'{p.name}={p.default!r}' for p in known)})" if known else self.name

    def __call__(self, arguments: Mapping[str, Any]) -> Method:
        """Build the method, or say which parameter is wrong."""
        return self.build(**names.bind(self.name, arguments, names.parameters(self.build)))


_recipes: dict[str, Recipe] = {}


def register(
    *,
    cost: float,
    tolerance: float = 0.05,
    revision: int = 1,
    exempt: Mapping[str, str] | None = None,
    yields: tuple[str, ...] = (),
    closed: str = "",
) -> Callable[[Callable[P, Method]], Callable[P, Method]]:
    """Register a function that returns a method, under the function's name."""

    def keep(build: Callable[P, Method]) -> Callable[P, Method]:
        known = _recipes.get(build.__name__)
        if known and known.build.__module__ != build.__module__:
            raise errors.InputError(f"There is already a method called '{known.name}', in {known.build.__module__}.")
        _recipes[build.__name__] = Recipe(
            build.__name__, build, cost, tolerance, revision, exempt or {}, yields, closed
        )
        return build

    return keep


@cache
def _load() -> None:
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            warnings.warn(f"The methods of '{entry.name}' could not be loaded: {error}.", stacklevel=2)


def recipes() -> dict[str, Recipe]:
    """All registered methods by name, including those of installed packages."""
    _load()
    return dict(sorted(_recipes.items()))


def resolve(text: str) -> Method:
    """Build a method from its name, e.g. `mir(candidates=100)+uer(alpha=0.3)`; the order of the terms does not matter.

    Each term sets the slots in which it differs from ER; if several set the same one, all except one must yield it.
    """
    composed, base = terms(text), recipes()["er"].build()
    claims: dict[str, list[tuple[Recipe, Any]]] = {}
    for recipe, arguments in composed:
        if recipe.closed and len(composed) > 1:
            raise errors.InputError(f"'{text}' cannot be composed: {recipe.closed}.")
        for slot, part in recipe(arguments).changes(base).items():
            claims.setdefault(slot, []).append((recipe, part))
    slots: dict[str, Any] = {}
    for slot, claim in claims.items():
        firm = [(recipe, part) for recipe, part in claim if slot not in recipe.yields] or claim
        if len(firm) > 1:
            raise errors.InputError(
                f"'{text}' cannot be composed: {firm[-1][0].name} sets the slot '{slot}', which is already set."
            )
        slots[slot] = firm[0][1]
    method = base.but(**slots)
    for part in method.parts("rescored") if "scoring" in slots else ():
        method = part.rescored(method)
    return method


def canonical(text: str) -> str:
    """The one spelling of a method's name: terms in order, defaults left out, parameters in their declared order."""
    ordered = sorted(terms(text), key=lambda term: term[0].name)
    return "+".join(names.spell(recipe.name, given, names.parameters(recipe.build)) for recipe, given in ordered)


def terms(text: str) -> list[tuple[Recipe, dict[str, Any]]]:
    """The recipes that a name is composed of, with their arguments."""
    known = recipes()
    return [(known[name], arguments) for name, arguments in names.terms("method", text, known)]
