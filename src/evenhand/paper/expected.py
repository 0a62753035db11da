"""What the paper printed: rows of numbers, and the setting of the runs that each belongs to."""

from dataclasses import dataclass, field
from typing import Any

from evenhand import errors, registry
from evenhand.experiment.spec import Spec
from evenhand.paper import naming
from evenhand.paper.measures import MEASURES

OTHERS = ("name", "interval", "seconds")  # besides the fields of a run and the measures


@dataclass(frozen=True)
class Expected:
    """One row.

    Attributes
    ----------
    fields
        The fields of a run that the row names; the order of the stream is that of classes unless it is one of them.
    numbers
        The published numbers by their measure, in the paper's units.
    interval
        Half the 95 % interval of the accuracy over ten runs, where there is one.
    """

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    interval: float | None = None

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(f'{name} {value}' for name, value in self.fields.items())})"

    def fits(self, spec: Spec) -> bool:
        """Whether the row is about runs like this."""
        wanted = {"order": "classes", **self.fields}
        return all(getattr(spec, name) == value for name, value in wanted.items())

    def half(self, measure: str) -> float | None:
        """The published interval of a measure."""
        return self.interval if measure == "accuracy" else None


def expand(entries: Any) -> tuple[Expected, ...]:
    """The rows of a definition's `expected`; lists in an entry go together, one row for each place."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise errors.wrong("What is 'expected'", "be tables [[expected]]", entries)
    rows = [_row(single) for entry in entries for single in _singles(entry)]
    return tuple(_with_ratios(row, rows) for row in rows)


def _singles(entry: dict[str, Any]) -> list[dict[str, Any]]:
    lengths = {len(value) for value in entry.values() if isinstance(value, list)}
    if len(lengths) > 1 or 0 in lengths:
        raise errors.wrong("The lists of an expected row", "have one length", sorted(lengths))
    places = range(lengths.pop() if lengths else 1)
    return [{key: v[i] if isinstance(v, list) else v for key, v in entry.items()} for i in places]


def _row(entry: dict[str, Any]) -> Expected:
    fields, numbers = {}, {}
    for key, value in entry.items():
        if key in MEASURES or key in ("interval", "seconds"):
            numbers[key] = float(errors.number(f"The '{key}' of an expected row", value))
        elif key in Spec.model_fields and key != "seed":
            fields[key] = value
        elif key != "name":
            raise errors.unknown("field of an expected row", key, [*Spec.model_fields, *MEASURES, *OTHERS])
    if not isinstance(fields.get("method"), str):
        raise errors.wrong("The 'method' of an expected row", "be the name of a method", fields.get("method"))
    fields["method"] = registry.canonical(fields["method"])
    name = errors.text("The 'name' of an expected row", entry.get("name", naming.method(fields["method"])))
    interval = numbers.pop("interval", None)
    if interval is not None and (interval <= 0 or "accuracy" not in numbers):
        raise errors.wrong("The 'interval' of an expected row", "be above 0, beside an accuracy", interval)
    if not numbers:
        raise errors.InputError(f"The expected row {name} has no number.")
    return Expected(name, fields, numbers, interval)


def _with_ratios(row: Expected, rows: list[Expected]) -> Expected:
    """The row with its seconds as a time relative to ER's: seconds on two machines cannot be compared."""
    if "seconds" not in row.numbers:
        return row
    reference = next((one.numbers.get("seconds") for one in rows if one.fields["method"] == "er"), None)
    if not reference or reference <= 0:
        raise errors.InputError("The 'seconds' of expected rows need those of er to be compared with.")
    numbers = {name: number for name, number in row.numbers.items() if name != "seconds"}
    return Expected(row.name, row.fields, {**numbers, "time": row.numbers["seconds"] / reference}, row.interval)
