"""An axis of a search: a field and the values that it may have, as `--field` gives them."""

from dataclasses import dataclass
from typing import Any

from evenhand import errors, names

POINTS = 5  # of a range, unless something else is said
LARGEST = 1e15  # end of a range; up to here floats hold all whole numbers


@dataclass(frozen=True)
class Axis:
    """One field to choose: its values, and the range that they come from where it is one."""

    name: str
    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    log: bool = False

    @classmethod
    def parse(cls, text: str) -> "Axis":
        """Read NAME=LOW:HIGH, NAME=LOW:HIGH:COUNT, either with :log behind it, or NAME=A,B,C.

        >>> Axis.parse("alpha=0.1:0.9").values
        (0.1, 0.3, 0.5, 0.7, 0.9)
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
        count = _value((rest[: len(rest) - log] or [str(POINTS)])[0])
        ends = _value(low), _value(high)
        if len(rest) - log > 1 or not all(type(end) in (int, float) and abs(end) <= LARGEST for end in ends):
            raise errors.wrong("The range of a --field", "look like LOW:HIGH, LOW:HIGH:COUNT or LOW:HIGH:log", text)
        if not (ends[0] < ends[1] and (ends[0] > 0 or not log)):
            raise errors.wrong("The range of a --field", f"rise{' from above 0' * log}", text)
        errors.whole(f"The number of points of {errors.shown(name)}", count, 2, 1000)
        return cls(name, _spread(*ends, count, log), *ends, log)

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


def _spread(low: float, high: float, count: int, log: bool) -> tuple[float, ...]:
    """Numbers from low to high, evenly or by an even factor; whole ones where both ends are."""
    shares = [i / (count - 1) for i in range(count)]
    made = [low ** (1 - t) * high**t if log else low + (high - low) * t for t in shares]
    if type(low) is int and type(high) is int:
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
