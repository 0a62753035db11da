"""The paper's side of a comparison: its names of methods and datasets, and the rows of numbers that it prints."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evenhand import errors
from evenhand.core import registry
from evenhand.experiment.spec import Spec
from evenhand.paper.measures import MEASURES

METHODS = {"agem": "A-GEM", "derpp": "DER++", "finetune": "FINE-TUNE", "ss_il": "SS-IL", "uer_a": "UER-A"}
DATASETS = {"cifar10": "Split CIFAR10", "cifar100": "Split CIFAR100", "miniimagenet": "Split MiniImageNet"}
SETTINGS = [name for name in Spec.model_fields if name != "seed"]
NUMBERS = [*MEASURES, "seconds"]


def method_title(method: str) -> str:
    """Name a method as the paper does, without parameters.

    >>> method_title("er_ace"), method_title("aser(n=9)+uer")
    ('ER-ACE', 'ASER + UER')
    """
    names = [recipe.name for recipe, _ in registry.terms(method)]
    return " + ".join(METHODS.get(name, name.upper().replace("_", "-")) for name in names)


def stream_title(data: str, memory: int | None) -> str:
    """Name a stream and a memory, as a heading.

    >>> stream_title("cifar100", 1000), stream_title("fashion-cut", None)
    ('Split CIFAR100, |M| = 1000', 'fashion-cut, no memory')
    """
    return f"{DATASETS.get(data, data)}, {'no memory' if memory is None else f'|M| = {memory}'}"


@dataclass(frozen=True)
class Published:
    """One row of a table in the paper."""

    title: str
    fields: dict[str, Any]  # the settings that select its runs; the order of the stream is "classes" if not given
    numbers: dict[str, float]  # by measure, in the paper's units
    interval: float | None  # half the 95 % interval of the accuracy over ten runs, if printed

    def __str__(self) -> str:
        return f"{self.title} ({', '.join(f'{name} {value}' for name, value in self.fields.items())})"

    def matches(self, spec: Spec) -> bool:
        """Whether the row is about runs with these settings."""
        wanted = {"order": "classes", **self.fields}
        return all(getattr(spec, name) == value for name, value in wanted.items())


def published_rows(entries: Any) -> tuple[Published, ...]:
    """Parse the `expected` entries of a definition; lists in an entry are columns, with one row per position."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise errors.wrong("The 'expected' of a definition", "be tables [[expected]]", entries)
    rows = [_row(single) for entry in entries for single in _unzip(entry)]
    seconds = next((row.numbers.get("seconds") for row in rows if row.fields["method"] == "er"), None)
    return tuple(_relative(row, seconds) for row in rows)


def _unzip(entry: dict[str, Any]) -> list[dict[str, Any]]:
    lengths = {len(value) for value in entry.values() if isinstance(value, list)}
    if len(lengths) > 1 or 0 in lengths:
        raise errors.wrong("The lists of an expected row", "have the same length, at least 1", sorted(lengths))
    positions = range(lengths.pop() if lengths else 1)
    return [{key: v[i] if isinstance(v, list) else v for key, v in entry.items()} for i in positions]


def _row(entry: Mapping[str, Any]) -> Published:
    known = [*SETTINGS, *NUMBERS, "name", "interval"]
    if unknown := [name for name in entry if name not in known]:
        raise errors.unknown("field of an expected row", unknown[0], known)
    method = registry.canonical(errors.text("The 'method' of an expected row", entry.get("method")))
    fields = {name: value for name, value in entry.items() if name in SETTINGS} | {"method": method}
    numbers = {name: _number(name, value) for name, value in entry.items() if name in NUMBERS}
    title = errors.text("The 'name' of an expected row", entry.get("name", "")) or method_title(method)
    interval = None if entry.get("interval") is None else _number("interval", entry["interval"])
    if interval is not None and interval <= 0:
        raise errors.wrong("The 'interval' of an expected row", "be greater than 0", entry["interval"])
    row = Published(title, fields, numbers, interval)
    if not numbers:
        raise errors.InputError(f"The expected row {row} has no number.")
    if interval is not None and "accuracy" not in numbers:
        raise errors.InputError(f"The expected row {row} has an 'interval', but no 'accuracy' that it belongs to.")
    return row


def _number(name: str, value: Any) -> float:
    what = f"The '{name}' of an expected row"
    try:
        return float(errors.number(what, value))
    except OverflowError:  # a whole number that is too large
        raise errors.wrong(what, "be a number", value) from None


def _relative(row: Published, reference: float | None) -> Published:
    """Replace seconds by their ratio to ER's: seconds of two machines cannot be compared."""
    if "seconds" not in row.numbers:
        return row
    if not reference or reference <= 0:
        raise errors.InputError(
            "The 'seconds' of expected rows need a row of er with positive 'seconds' to compare with."
        )
    numbers = {name: number for name, number in row.numbers.items() if name != "seconds"}
    return replace(row, numbers={**numbers, "time": row.numbers["seconds"] / reference})
