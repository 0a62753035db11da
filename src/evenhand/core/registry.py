"""Names of methods: `er`, `uer(alpha=0.3)`, `mir+uer+ema`. `evenhand methods` lists them."""

import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Concatenate, ParamSpec

from evenhand import errors, names
from evenhand.core.imported import imported
from evenhand.core.method import Method
from evenhand.core.sizes import Sizes

GROUP = "evenhand.methods"
VARIABLE = "EVENHAND_METHODS"  # environment variable: module:function, comma-separated
DOCUMENTED = Sizes()
P = ParamSpec("P")


@dataclass(frozen=True)
class Recipe:
    """A registered method, or a way to test any method.

    Attributes
    ----------
    build
        Function that returns the method; its keyword parameters are the method's. For a way, it takes a method first
        and returns one that trains identically.
    cost
        C_D: the training cost relative to ER. If it depends on parameters or on the sizes of a step, a function
        `(sizes, ...)` that takes the parameters it names and returns the units of a step.
    tolerance
        How far the measured cost may differ from it, as a fraction.
    revision
        A number to raise when a fix changes results, so that no stale results are reused.
    exempt
        Checks of the conformance suite that do not apply, with the reason.
    yields
        Slots that another method of a composition may override.
    closed
        Why the method cannot be composed; empty if it can.
    way
        Whether it is a way to test.
    """

    name: str
    build: Callable[..., Method]
    cost: "Cost" = 1
    tolerance: float = 0.05
    revision: int = 1
    exempt: Mapping[str, str] = field(default_factory=dict)
    yields: tuple[str, ...] = ()
    closed: str = ""
    way: bool = False

    @property
    def title(self) -> str:
        """The first line of the method's documentation."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that a name may give, with their defaults."""
        return names.parameters(self.build, skip=int(self.way))

    @property
    def call(self) -> str:
        """The name with all parameters and their defaults."""
        return self.in_full({})

    def in_full(self, arguments: Mapping[str, Any]) -> str:
        """The name with all parameters; those not among the arguments have their defaults."""
        known = self.parameters | names.bind(self.name, arguments, self.parameters)
        return names.spell(self.name, known, dict.fromkeys(known, ...))

    def c_d(self, arguments: Mapping[str, Any], sizes: Sizes) -> float:
        """The training cost relative to ER, with these parameters and steps of these sizes."""
        if not callable(self.cost):
            return self.cost
        known = self.parameters | names.bind(self.name, arguments, self.parameters)
        asked = [name for name in inspect.signature(self.cost).parameters if name in known]
        return self.cost(sizes, **{name: known[name] for name in asked}) / sizes.er

    def __call__(self, arguments: Mapping[str, Any], *tested: Method) -> Method:
        """Build the method, or say which parameter is wrong; a way takes the method that it tests."""
        return self.build(*tested, **names.bind(self.name, arguments, self.parameters))


Cost = float | Callable[..., float]
Term = tuple[Recipe, dict[str, Any]]
_recipes: dict[str, Recipe] = {}
_adopted: dict[str, Recipe] = {}  # by module:function


def register(
    *,
    cost: Cost,
    tolerance: float = 0.05,
    revision: int = 1,
    exempt: Mapping[str, str] | None = None,
    yields: tuple[str, ...] = (),
    closed: str = "",
) -> Callable[[Callable[P, Method]], Callable[P, Method]]:
    """Register a function that returns a method, under the function's name."""

    def keep(build: Callable[P, Method]) -> Callable[P, Method]:
        _keep(Recipe(build.__name__, build, cost, tolerance, revision, exempt or {}, yields, closed))
        return build

    return keep


def way(build: Callable[Concatenate[Method, P], Method]) -> Callable[Concatenate[Method, P], Method]:
    """Register a function that takes a method and returns it tested in another way, under the function's name."""
    _keep(Recipe(build.__name__, build, way=True))
    return build


def _keep(recipe: Recipe) -> None:
    known = _recipes.get(recipe.name)
    if known and known.build.__module__ != recipe.build.__module__:
        raise errors.InputError(f"There is already a method called '{known.name}', in {known.build.__module__}.")
    _recipes[recipe.name] = recipe


@cache
def _load() -> None:
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            warnings.warn(f"The methods of '{entry.name}' could not be loaded: {error}.", stacklevel=2)
    for name in filter(None, os.environ.get(VARIABLE, "").split(",")):
        adopt(name)


def adopt(text: str) -> None:
    """Import the functions that a name, or each in a list, refers to as module:function, so that it can be used.

    Only for names that the user has written: reading a record must not run code.
    """
    for name, _ in (term for each in names.split(text) if ":" in each for term in names.parse(each)):
        if ":" in name:
            build = imported(name)
            plain = Recipe(name, build, exempt={"cost as documented": "it is not registered"})
            known = [recipe for recipe in _recipes.values() if recipe.build is inspect.unwrap(build)]
            _adopted[name] = replace(known[0], name=name, build=build) if known else plain


def recipes() -> dict[str, Recipe]:
    """All registered methods by name, including those of installed packages."""
    _load()
    return dict(sorted(_recipes.items()))


def resolve(text: str) -> Method:
    """Build a method from its name, e.g. `mir(candidates=100)+uer(alpha=0.3)`; the order of the terms does not matter.

    A function that is not registered is named as `module:function`.

    Each term sets the slots in which it differs from ER; if several set the same one, all except one must yield it.
    Ways to test are applied last.
    """
    adopt(text)
    composed, ways = split(text)
    base = recipes()["er"].build()
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
    return _tested(method, text, ways)


def tested(method: Method, text: str) -> Method:
    """The same training, tested in the named way, e.g. `cos` or `ema+ncm`; an empty name is the method's own."""
    return _tested(method, text, [term for way in ways(text) for term in terms(way)])


def ways(text: str) -> list[str]:
    """Split a comma-separated list of ways to test into their canonical names, sorted."""
    given, known = names.listed(text), [name for name, recipe in recipes().items() if recipe.way]
    found = set()
    for way in given:
        for name, _ in names.parse(way, like="ema, ema(decay=0.995) or ema+ncm"):
            if ":" not in name and name not in known:  # of a function of one's own, only its recipe tells
                raise errors.unknown("test", name, known)
        if trained := split(way)[0]:
            raise errors.unknown("test", trained[0][0].name, known)
        found.add(canonical(way))
    return sorted(found)


def in_full(text: str, meant: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """A list of ways to test with all their parameters, so that its meaning survives a change of defaults.

    `meant` holds the defaults that a way had when the list was written.

    >>> in_full("ncm, ema(decay=0.5)")
    'ncm, ema(decay=0.5, by_row=True)'
    """
    found = [terms(way) for way in names.listed(text)]
    return ", ".join(
        "+".join(recipe.in_full({**(meant or {}).get(recipe.name, {}), **given}) for recipe, given in way)
        for way in found
    )


def _tested(method: Method, text: str, ways: list[Term]) -> Method:
    changed: set[str] = set()
    for recipe, arguments in ways:
        asked = recipe(arguments, method)
        changes = asked.changes(method)
        if clash := changed & changes.keys():
            raise errors.InputError(
                f"'{text}' cannot be composed: {recipe.name} sets the slot '{min(clash)}', which is already set."
            )
        if asked.training != method.training:
            raise errors.InputError(f"'{text}' cannot be composed: {recipe.name} would change how the method trains.")
        method = asked
        changed |= changes.keys()
    return method


def split(text: str) -> tuple[list[Term], list[Term]]:
    """The terms of a name: those that train, without an `er` that adds nothing to others, and the ways to test."""
    found = terms(text)
    trained, ways = ([term for term in found if term[0].way == way] for way in (False, True))
    return [term for term in trained if term[0].name != "er"] or trained[:1], ways


def cost(text: str, sizes: Sizes = DOCUMENTED) -> float:
    """C_D of a name: what each of its terms costs beyond ER, added up.

    >>> cost("mir+uer") == cost("mir") > cost("uer") == cost("uer+ema") == 1
    True
    """
    return 1 + sum(recipe.c_d(arguments, sizes) - 1 for recipe, arguments in terms(text))


def canonical(text: str) -> str:
    """The canonical spelling of a method's name: terms in order, defaults left out, parameters in their declared order.

    >>> canonical("ncm+ema(decay=0.998)+er+uer+ema")
    'uer+ema+ncm'
    """
    trained, ways = (sorted(found, key=lambda term: term[0].name) for found in split(text))
    return "+".join([*map(spell, trained), *dict.fromkeys(map(spell, ways))])


def retested(text: str, way: str) -> str:
    """The name of a method tested in another way, whose form of the logits takes the place of the method's own.

    >>> retested("uer+ema", "ncm"), retested("er+dot", "cos")
    ('uer+ema+ncm', 'er+cos')
    """
    own, further = terms(text), terms(way)
    replaced = {"dot", "cos"} if {"dot", "cos"} & {recipe.name for recipe, _ in further} else set()
    return canonical("+".join(map(spell, [*(term for term in own if term[0].name not in replaced), *further])))


def spell(term: Term) -> str:
    """The canonical spelling of a term: defaults left out, parameters in their declared order."""
    recipe, arguments = term
    return names.spell(recipe.name, arguments, recipe.parameters)


def terms(text: str) -> list[Term]:
    """The recipes that a name is composed of, with their arguments."""
    known = recipes() | _adopted
    for name, _ in names.parse(text) if ":" in text else ():
        if ":" in name and name not in known:
            raise errors.InputError(
                f"A record names '{name}', which is not imported unless you allow it: set {VARIABLE}={name}."
            )
    return [(known[name], arguments) for name, arguments in names.terms("method", text, known, like=names.METHODS)]
