"""What can go wrong, in one sentence shape: what, must be, got, next step."""

import difflib
import math
from collections.abc import Iterable


class EvenhandError(Exception):
    """Anything a user can mend; its text is meant for them."""


class InputError(EvenhandError, ValueError):
    """A value, name, sample or label that cannot be used."""


class FetchError(InputError):
    """Data that could not be fetched; its text is the reason alone."""


class DivergedError(EvenhandError, ArithmeticError):
    """A loss that is no longer finite; the weights are those before it."""


class RunError(EvenhandError, RuntimeError):
    """A run folder that cannot be read, written or continued."""


class BusyError(RunError):
    """A run that another process is making."""


def wrong(what: str, must: str, got: object, then: str = "") -> InputError:
    """Make the error for one bad value.

    >>> str(wrong("The 'alpha' parameter of uer", "be in [0, 1]", 1.5))
    "The 'alpha' parameter of uer must be in [0, 1]. Got 1.5 instead."
    """
    return InputError(f"{what} must {must}. Got {shown(got)} instead.{then and ' ' + then}")


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """Make the error for a name that nobody registered, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are: {', '.join(names)}."
    return InputError(f"There is no {kind} called {shown(name)}. {hint}")


def shown(value: object) -> str:
    """The repr of a value, cut to what fits a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number(what: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """Return the value if it is a number in [low, high], else raise."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not abs(value) < math.inf or not low <= value <= high:  # type: ignore[arg-type, operator]
        raise wrong(what, f"be {_range('a number', low, high)}", value)
    return value  # type: ignore[return-value]


def whole(what: str, value: object, low: float = -math.inf, high: float = math.inf) -> int:
    """Return the value if it is a whole number in [low, high], else raise."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise wrong(what, f"be {_range('a whole number', low, high)}", value)
    return value


def truth(what: str, value: object) -> bool:
    """Return the value if it is True or False, else raise."""
    if not isinstance(value, bool):
        raise wrong(what, "be True or False", value)
    return value


def text(what: str, value: object) -> str:
    """Return the value if it is a text, else raise."""
    if not isinstance(value, str):
        raise wrong(what, "be a text", value)
    return value


def choice(what: str, value: object, options: Iterable[str]) -> str:
    """Return the value if it is one of the options, else raise."""
    names = list(options)
    if value not in names:
        raise wrong(what, f"be one of {', '.join(names)}", value)
    return str(value)


def _range(kind: str, low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"{kind} in [{low}, {high}]"
    return f"{kind} of at least {low}" if math.isfinite(low) else kind
