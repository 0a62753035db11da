"""An axis of a search: a field and the values that it may have, as `--field` gives them."""

import inspect
from dataclasses import dataclass, replace
from typing import Any

from evenhand import errors, names, registry
from evenhand.experiment.spec import Spec

POINTS = 5  # of a range, unless something else is said
LARGEST = 1e15  # end of a range; up to here floats hold all whole numbers
FIXED = ("method", "seed", "tested", "data", "size", "skip_bad", "stages", "order", "imbalance")


@dataclass(frozen=True)
class Axis:
    """One field to choose: its values, and the range that they come from where it is one."""

    name: str
    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    log: bool = False
    count: int | None = None
    """The points of the range, where it says how many."""

    @classmethod
    def parse(cls, text: str) -> "Axis":
        """Read NAME=LOW:HIGH, NAME=LOW:HIGH:COUNT, either with :log behind it, or NAME=A,B,C.

        >>> Axis.parse("alpha=0:1").values
        (0.0, 0.25, 0.5, 0.75, 1.0)
        >>> Axis.parse("lr=0.001:0.1:3:log").values
        (0.001, 0.01, 0.1)
        >>> Axis.parse("candidates=25,50").values
        (25, 50)
        """
        name, equals, given = (part.strip() for part in text.partition("="))
        if not (name and equals and given):
            raise errors.wrong("A --field", "look like alpha=0.1:0.9 or replay=5,10,20", text)
        if ":" not in given:
            parts = names.split(given)
            if "" in parts:
                raise errors.wrong("The values of a --field", "have commas between them only", text)
            return cls(name, tuple(dict.fromkeys(_value(part) for part in parts)))
        low, high, *rest = (part.strip() for part in given.split(":"))
        log = rest[-1:] == ["log"]
        count = _value(rest[0]) if len(rest) > log else None
        ends = _value(low), _value(high)
        if len(rest) - log > 1 or not all(type(end) in (int, float) and abs(end) <= LARGEST for end in ends):
            raise errors.wrong("The range of a --field", "look like LOW:HIGH, LOW:HIGH:COUNT or LOW:HIGH:log", text)
        if not (ends[0] < ends[1] and (ends[0] > 0 or not log)):
            raise errors.wrong("The range of a --field", f"rise{' from above 0' * log}", text)
        if count is not None:
            errors.whole(f"The number of points of {errors.shown(name)}", count, 2, 1000)
        return cls(name, _spread(*ends, count, log), *ends, log, count)

    def as_whole(self) -> "Axis":
        """The same range in whole numbers, which may be fewer; with other ends it stays, for its field to refuse.

        >>> Axis.parse("replay=1:3:9").as_whole().values
        (1, 2, 3)
        """
        if self.low is None or self.high is None or self.low % 1 or self.high % 1:
            return self
        low, high = int(self.low), int(self.high)
        return replace(self, values=_spread(low, high, self.count, self.log, whole=True), low=low, high=high)

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return all(type(value) is int for value in self.values)

    def suggested(self, trial: Any) -> Any:
        """The value that a trial of Optuna proposes."""
        if self.low is None or self.high is None:
            return trial.suggest_categorical(self.name, self.values)
        if self.whole:
            return trial.suggest_int(self.name, self.low, self.high, log=self.log)
        return _rounded(trial.suggest_float(self.name, self.low, self.high, log=self.log), self.low, self.high)


def takes_whole(method: str, name: str) -> bool:
    """Whether a field takes whole numbers: by its annotation where it is one of a run, else by its default."""
    if name in Spec.model_fields:
        return Spec.model_fields[name].annotation is int
    place, parameter = _taker(method, name)
    recipe, _ = registry.terms(method)[place]
    return type(inspect.signature(recipe.build).parameters[parameter].default) is int


def given(method: str, name: str) -> bool:
    """Whether the spelling of a method says a parameter."""
    if name in Spec.model_fields:
        return False
    place, parameter = _taker(method, name)
    _, said = registry.terms(method)[place]
    return parameter in said


def with_value(method: str, name: str, value: Any) -> str:
    """The method with one of its parameters set."""
    taker, parameter = _taker(method, name)
    terms = registry.terms(method)
    spelled = [{**given, **({parameter: value} if place == taker else {})} for place, (_, given) in enumerate(terms)]
    return "+".join(
        names.spell(recipe.name, given, dict.fromkeys(given, ...))
        for (recipe, _), given in zip(terms, spelled, strict=True)
    )


def _spread(low: float, high: float, count: int | None, log: bool, whole: bool = False) -> tuple[float, ...]:
    """Numbers from low to high, evenly or by an even factor, or the whole ones next to them."""
    points = count or POINTS
    shares = [i / (points - 1) for i in range(points)]
    made = [low ** (1 - t) * high**t if log else low + (high - low) * t for t in shares]
    if whole:
        return tuple(dict.fromkeys(round(value) for value in made))
    return tuple(dict.fromkeys([float(low), *(_rounded(value, low, high) for value in made[1:-1]), float(high)]))


def _rounded(value: float, low: float, high: float) -> float:
    """A number of six digits, as near as the range allows."""
    return min(max(float(f"{value:.6g}"), float(low)), float(high))


def _value(text: str) -> Any:
    """A number where the text is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _taker(method: str, name: str) -> tuple[int, str]:
    """The place of the term that has a parameter, and the parameter; `uer.alpha` where several have it."""
    of, _, parameter = name.rpartition(".")
    terms = registry.terms(method)
    takers = [
        place
        for place, (recipe, _) in enumerate(terms)
        if of in ("", recipe.name) and parameter in inspect.signature(recipe.build).parameters
    ]
    if len(takers) != 1:
        known = [f"{recipe.name}.{own}" for recipe, _ in terms for own in inspect.signature(recipe.build).parameters]
        known += [own.rpartition(".")[2] for own in known]
        if takers:
            say = f"{terms[takers[0]][0].name}.{parameter}"
            raise errors.InputError(f"Several parts of {method} have a '{parameter}'. Say which, e.g. {say}.")
        raise errors.unknown("field to choose", name, [*known, *(own for own in Spec.model_fields if own not in FIXED)])
    return takers[0], parameter
