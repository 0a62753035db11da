"""Errors for users, all in one shape: what, must be, got, next step."""

import difflib
import math
import traceback
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")
MUST = {"string_type": "be a string", "dict_type": "be a table", "model_type": "be a table", "list_type": "be a list"}


class EvenhandError(Exception):
    """An error that a user can fix; its message is written for them."""


class InputError(EvenhandError, ValueError):
    """A value, name, sample or label that cannot be used."""


class FetchError(InputError):
    """Data that could not be downloaded; the message is only the reason."""


class DivergedError(EvenhandError, ArithmeticError):
    """The loss is no longer finite; the weights are those from before."""


class RunError(EvenhandError, RuntimeError):
    """A run folder that cannot be read, written or resumed."""


class BusyError(RunError):
    """A run that another process is executing."""


def wrong(what: str, must: str, got: object, then: str = "") -> InputError:
    """The error for an invalid value.

    >>> str(wrong("The 'alpha' parameter of uer", "be in [0, 1]", 1.5))
    "The 'alpha' parameter of uer must be in [0, 1]. Got 1.5 instead."
    """
    return InputError(f"{what} must {must}. Got {shown(got)} instead.{then and ' ' + then}")


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for an unknown name; suggests similar ones."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=3, cutoff=0.5)
    hint = (
        f"Did you mean {', '.join([*near[:-2], ' or '.join(near[-2:])])}?"
        if near
        else f"Available: {', '.join(names)}."
    )
    return InputError(f"There is no {kind} called {shown(name)}. {hint}")


def missing(who: str, library: str, extra: str) -> InputError:
    """The error for a library that comes with an extra; `who` ends with its verb."""
    return InputError(f"{who} {library}, which is not installed. Install it with pip install 'evenhand[{extra}]'.")


def shown(value: object) -> str:
    """The repr of a value, shortened to fit a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def fault(error: BaseException) -> str:
    """Type and text of an error in a user's code, in one line, with the file and line of that code."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = (text if len(text) <= 200 else text[:197] + "...").rstrip(".:")
    places = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (module := frame.f_globals.get("__name__", "")).startswith("evenhand.methods")
        or module.partition(".")[0] not in ("evenhand", "importlib", "torch")
    ]
    return text + (places[-1] if places else "")


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
    """Return the value if it is a string, else raise."""
    if not isinstance(value, str):
        raise wrong(what, "be a string", value)
    return value


def choice(what: str, value: object, options: Iterable[str]) -> str:
    """Return the value if it is one of the options, else raise."""
    names = list(options)
    if value not in names:
        raise wrong(what, f"be one of {', '.join(names)}", value)
    return str(value)


def validated(
    model: type[Model], content: Mapping[str, Any], owner: str, known: Iterable[str] = (), must: Mapping[str, str] = {}
) -> Model:
    """Build a pydantic model; raise one sentence about the first mistake.

    Parameters
    ----------
    owner
        The name of the content in the sentence, e.g. "a definition".
    known
        Fields to suggest instead of an unknown one; by default those of the model.
    must
        What a field must be, where pydantic's own words do not suffice.
    """
    from pydantic import ValidationError  # late: whoever imports evenhand.errors need not wait for it

    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        raise cause
    field, kind = ".".join(map(str, problem["loc"])), problem["type"]
    if kind == "extra_forbidden":
        raise unknown(f"field of {owner}", field, known or model.model_fields)
    if kind == "missing":
        raise InputError(f"The '{field}' of {owner} is missing.")
    words = MUST.get(kind) or problem["msg"].partition(" should ")[2].replace("'", "") or f"be valid: {problem['msg']}"
    what = f"The '{field}' of {owner}" if field else owner.capitalize()
    raise wrong(what, must.get(field, words), problem["input"])


def _range(kind: str, low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"{kind} in [{low}, {high}]"
    return f"{kind} of at least {low}" if math.isfinite(low) else kind
