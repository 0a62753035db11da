"""An axis of a search: a field and its values, as given by `--field`."""

from dataclasses import dataclass, replace
from typing import Any

from evenhand import errors, names
from evenhand.core import registry
from evenhand.experiment.spec import Spec

POINTS = 5  # of a range, unless it says how many
LARGEST = 1e15  # end of a range; floats represent all whole numbers up to here
STREAM = ("data", "size", "skip_bad", "columns", "stages", "order", "imbalance", "pace")
FIXED = ("method", "seed", "tested", "tests", *STREAM)


@dataclass(frozen=True)
class Axis:
    """A field to search: its values, and the range they come from, if any."""

    name: str
    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    log: bool = False
    count: int | None = None
    """Number of points, if the range gives it."""

    @classmethod
    def parse(cls, text: str) -> "Axis":
        """Parse NAME=LOW:HIGH or NAME=LOW:HIGH:COUNT, both with an optional :log, or NAME=A,B,C.

        >>> Axis.parse("alpha=0:1").values
        (0.0, 0.25, 0.5, 0.75, 1.0)
        >>> Axis.parse("lr=0.001:0.1:3:log").values
        (0.001, 0.01, 0.1)
        >>> Axis.parse("candidates=25,50").values
        (25, 50)
        """
        name, equals, content = (part.strip() for part in text.partition("="))
        if not (name and equals and content):
            raise errors.wrong("A --field", "look like alpha=0.1:0.9 or replay=5,10,20", text)
        if ":" not in content:
            parts = names.split(content)
            if "" in parts:
                raise errors.wrong("The values of a --field", "be separated by single commas", text)
            return cls(name, tuple(dict.fromkeys(_value(part) for part in parts)))
        low, high, *rest = (part.strip() for part in content.split(":"))
        log = rest[-1:] == ["log"]
        count = _value(rest[0]) if len(rest) > log else None
        ends = _value(low), _value(high)
        if len(rest) - log > 1 or not all(type(end) in (int, float) and abs(end) <= LARGEST for end in ends):
            raise errors.wrong("The range of a --field", "look like LOW:HIGH, LOW:HIGH:COUNT or LOW:HIGH:log", text)
        if not (ends[0] < ends[1] and (ends[0] > 0 or not log)):
            raise errors.wrong("The range of a --field", f"have {'0 < ' * log}LOW < HIGH", text)
        if count is not None:
            errors.whole(f"The number of points of {errors.shown(name)}", count, 2, 1000)
        return cls(name, _spread(*ends, count, log), *ends, log, count)

    def as_whole(self) -> "Axis":
        """The same range in whole numbers, perhaps fewer. Unchanged if its ends are not whole: its field rejects them.

        >>> Axis.parse("replay=1:3:9").as_whole().values
        (1, 2, 3)
        """
        if self.low is None or self.high is None or self.low % 1 or self.high % 1:
            return self
        low, high = int(self.low), int(self.high)
        return replace(self, values=_spread(low, high, self.count, self.log, whole=True), low=low, high=high)

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(type(value) is int for value in self.values)

    def suggested(self, trial: Any) -> Any:
        """The value that an Optuna trial proposes."""
        if self.low is None or self.high is None:
            return trial.suggest_categorical(self.name, self.values)
        if self.whole:
            return trial.suggest_int(self.name, self.low, self.high, log=self.log)
        return _rounded(trial.suggest_float(self.name, self.low, self.high, log=self.log), self.low, self.high)


def takes_whole(method: str, name: str) -> bool:
    """Whether a field takes whole numbers: a setting of a run by its annotation, a parameter by its default."""
    if name in Spec.model_fields:
        return Spec.model_fields[name].annotation is int
    place, parameter = _taker(method, name)
    return type(registry.terms(method)[place][0].parameters[parameter]) is int


def is_fixed(method: str, name: str) -> bool:
    """Whether a method such as uer(alpha=0.3) fixes a parameter."""
    if name in Spec.model_fields:
        return False
    place, parameter = _taker(method, name)
    return parameter in registry.terms(method)[place][1]


def with_value(method: str, name: str, value: Any) -> str:
    """The method with one parameter set."""
    place, parameter = _taker(method, name)
    terms = registry.terms(method)
    terms[place][1][parameter] = value
    return "+".join(names.spell(recipe.name, given, dict.fromkeys(given, ...)) for recipe, given in terms)


def _spread(low: float, high: float, count: int | None, log: bool, whole: bool = False) -> tuple[float, ...]:
    """Numbers from low to high, evenly or logarithmically spaced, rounded if `whole`."""
    points = count or POINTS
    shares = [i / (points - 1) for i in range(points)]
    values = [low ** (1 - t) * high**t if log else low + (high - low) * t for t in shares]
    if whole:
        return tuple(dict.fromkeys(round(value) for value in values))
    return tuple(dict.fromkeys([float(low), *(_rounded(value, low, high) for value in values[1:-1]), float(high)]))


def _rounded(value: float, low: float, high: float) -> float:
    """The value to six digits, within the range."""
    return min(max(float(f"{value:.6g}"), float(low)), float(high))


def _value(text: str) -> Any:
    """The text as a number or a boolean, if it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _taker(method: str, name: str) -> tuple[int, str]:
    """Index of the term that takes a parameter, and the parameter; `uer.alpha` names one of several."""
    owner, _, parameter = name.rpartition(".")
    recipes = [recipe for recipe, _ in registry.terms(method)]
    known = [(place, own) for place, recipe in enumerate(recipes) for own in recipe.parameters]
    takers = [place for place, own in known if own == parameter and owner in ("", recipes[place].name)]
    if len(takers) > 1:
        example = f"{recipes[takers[0]].name}.{parameter}"
        raise errors.InputError(f"Several parts of {method} have a '{parameter}'. Name one, e.g. {example}.")
    if not takers:
        own_names = [spelling for place, own in known for spelling in (own, f"{recipes[place].name}.{own}")]
        settings = [setting for setting in Spec.model_fields if setting not in FIXED]
        raise errors.unknown("field to search", name, [*own_names, *settings])
    return takers[0], parameter
