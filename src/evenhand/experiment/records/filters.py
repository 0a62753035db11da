"""Selecting and sorting runs: `accuracy > 0.7`, `method = *uer`; `method,-accuracy`."""

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from evenhand import errors
from evenhand.core import registry
from evenhand.core.settings import RUN
from evenhand.experiment.records.inventory import OWN, RunEntry
from evenhand.experiment.spec import Spec

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
FORM = re.compile(r"\s*([\w-]+)\s*(!=|<=|>=|==?|<|>)(.*)", re.DOTALL)
FRACTIONS = ("progress", "accuracy", "forgetting")


@dataclass(frozen=True)
class Filter:
    """A field, an operator and a value of the field's type."""

    field: str
    operator: str
    value: str | float | bool

    def holds(self, entry: RunEntry) -> bool:
        """Whether a run fulfils the condition. A missing value only differs from any other."""
        value = entry.value(self.field)
        if value is None:
            return self.operator == "!="
        if isinstance(self.value, str):
            pattern = self.value.replace("[", "[[]")  # only * and ? are wildcards
            return fnmatch.fnmatchcase(str(value), pattern) == (self.operator == "=")
        return OPERATORS[self.operator](value, self.value)


def parse(text: str) -> Filter:
    """Parse a condition.

    >>> parse("accuracy >= 0.7")
    Filter(field='accuracy', operator='>=', value=0.7)
    """
    if (form := FORM.fullmatch(text)) is None or not (value := form[3].strip()):
        raise errors.wrong("A condition", "look like memory=50, 'accuracy > 0.7' or 'method != *uer'", text)
    field, sign = _field(form[1]), form[2].replace("==", "=")  # as in Python
    kind = _kind(field)
    if kind is float:
        return Filter(field, sign, _number(field, value))
    if sign not in ("=", "!="):
        raise errors.InputError(f"The '{field}' of a run can be compared with = and != only. Got {sign!r} instead.")
    if kind is bool and value.lower() not in ("true", "false"):
        raise errors.wrong(f"The '{field}' in a condition", "be true or false", value)
    if field == "method":
        with suppress(errors.InputError):  # a pattern, or a method that no longer exists
            value = registry.canonical(value)
    return Filter(field, sign, value.lower() == "true" if kind is bool else value)


def select(entries: Iterable[RunEntry], texts: Sequence[str]) -> list[RunEntry]:
    """The entries that fulfil all conditions."""
    filters = [parse(text) for text in texts]
    return [entry for entry in entries if all(filter.holds(entry) for filter in filters)]


def sort_entries(entries: Sequence[RunEntry], text: str) -> list[RunEntry]:
    """Sort by comma-separated fields, descending for a field with a minus; missing values come last."""
    ordered = list(entries)
    for name in reversed(text.split(",")):  # sorting is stable, so the first field comes last
        field = _field(name.strip().removeprefix("-"))
        known = [entry for entry in ordered if entry.value(field) is not None]
        known.sort(key=lambda entry: entry.value(field), reverse=name.strip().startswith("-"))
        ordered = known + [entry for entry in ordered if entry.value(field) is None]
    return ordered


def _field(name: str) -> str:
    field = name.replace("-", "_")
    if field not in (*Spec.model_fields, *OWN):
        raise errors.unknown("field of a run", name, (*Spec.model_fields, *OWN))
    return field


def _kind(field: str) -> type:
    if field not in Spec.model_fields:
        return float if field in (*FRACTIONS, "seconds") else str
    kinds = RUN[field].kinds
    return bool if bool in kinds else float if {int, float} & set(kinds) else str


def _number(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise errors.wrong(f"The '{field}' in a condition", "be a number", text)
    if field in FRACTIONS and abs(number) > 1:
        raise errors.wrong(f"The '{field}' in a condition", "be a fraction, e.g. 0.7", text)
    return number
