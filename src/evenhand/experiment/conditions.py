"""Which runs, and in which order: `accuracy > 0.7`, `method = *uer`; `method,-accuracy`."""

import fnmatch
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from evenhand import errors, registry
from evenhand.experiment.inventory import OWN, Row
from evenhand.experiment.spec import Spec

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FORM = re.compile(r"\s*([\w-]+)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
SHARES = ("progress", "accuracy", "forgetting")  # fractions, which tables show in %


@dataclass(frozen=True)
class Condition:
    """A field, a sign and a value of the field's type; None stands for a value that is missing."""

    field: str
    sign: str
    value: str | float | bool | datetime | None

    def holds(self, row: Row) -> bool:
        """Whether a run fulfils it; what is missing is neither larger nor smaller than anything."""
        got = row.value(self.field)
        if self.value is None or got is None:
            return (got is self.value) == (self.sign == "=") and self.sign in ("=", "!=")
        if isinstance(self.value, str):
            pattern = self.value.replace("[", "[[]")  # of the wildcards only * and ? are ours
            return fnmatch.fnmatchcase(got, pattern) == (self.sign == "=")
        return SIGNS[self.sign](got, self.value)


def parse(text: str) -> Condition:
    """Read a condition.

    >>> parse("accuracy >= 70%")
    Condition(field='accuracy', sign='>=', value=0.7)
    """
    if (form := FORM.fullmatch(text)) is None or not (value := form[3].strip()):
        raise errors.wrong("A condition", "look like memory=50, 'accuracy > 0.7' or 'method != *uer'", text)
    field, sign = _known(form[1]), form[2]
    kind = _kind(field)
    if value.lower() == "none" and sign in ("=", "!=") and kind is not str:
        return Condition(field, sign, None)
    if kind in (str, bool) and sign not in ("=", "!="):
        raise errors.InputError(f"The '{field}' of a run has no order: compare it with = or !=. Got {sign!r} instead.")
    return Condition(field, sign, READERS[kind](field, value))


def choose(rows: Iterable[Row], texts: Sequence[str]) -> list[Row]:
    """The rows for which all conditions hold."""
    conditions = [parse(text) for text in texts]
    return [row for row in rows if all(condition.holds(row) for condition in conditions)]


def order(rows: Sequence[Row], text: str) -> list[Row]:
    """Sort by fields with commas between them, the largest first for one with a minus; what is missing comes last."""
    ordered = list(rows)
    for name in reversed(text.split(",")):  # sorting is stable, so the first field is the last to sort by
        field = _known(name.strip().removeprefix("-"))
        there = [row for row in ordered if row.value(field) is not None]
        there.sort(key=lambda row: row.value(field), reverse=name.strip().startswith("-"))
        ordered = there + [row for row in ordered if row.value(field) is None]
    return ordered


def _known(name: str) -> str:
    field = name.replace("-", "_")
    if field not in (*Spec.model_fields, *OWN):
        raise errors.unknown("field of a run", name, (*Spec.model_fields, *OWN))
    return field


def _kind(field: str) -> type:
    if field in Spec.model_fields:
        annotation = Spec.model_fields[field].annotation
        kinds = get_args(annotation) or (annotation,)
        return bool if bool in kinds else float if {int, float} & set(kinds) else str
    return datetime if field == "touched" else float if field in (*SHARES, "seconds") else str


def _text(field: str, value: str) -> str:
    if field == "method":
        with suppress(errors.InputError):  # a pattern, or a method that is gone; another spelling is brought to ours
            return registry.canonical(value)
    return value


def _number(field: str, value: str) -> float:
    scale = 100 if field in SHARES and value.endswith("%") else 1
    try:
        number = float(value.removesuffix("%") if scale == 100 else value) / scale
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise errors.wrong(f"The '{field}' in a condition", "be a number", value)
    if field in SHARES and abs(number) > 1:
        raise errors.wrong(f"The '{field}' in a condition", "be a fraction, e.g. 0.7, or have a %, e.g. 70%", value)
    return number


def _truth(field: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise errors.wrong(f"The '{field}' in a condition", "be true or false", value)
    return value.lower() == "true"


def _time(field: str, value: str) -> datetime:
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError, OSError):
        raise errors.wrong(f"The '{field}' in a condition", "be a time, e.g. 2025-01-31T12:00", value) from None


READERS: dict[type, Callable[[str, str], Any]] = {str: _text, float: _number, bool: _truth, datetime: _time}
