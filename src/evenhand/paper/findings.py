"""Findings: what was tried by hand about rows that differ from the paper, and what it rules out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import errors, registry
from evenhand.experiment.grid import load
from evenhand.paper.comparison import Row

TEXTS = ("method", "data", "order", "tried", "rules_out")
NEEDED = ("method", "data", "tried", "number", "rules_out")
TRUTHS = ("explains", "neck")
KEYS = (*TEXTS, *TRUTHS, "memory", "number")


@dataclass(frozen=True)
class Finding:
    """One trial.

    Attributes
    ----------
    memory
        None for a method that keeps none.
    tried
        The command.
    number
        What it gave, in the units of the row.
    explains
        Whether it shows what causes the difference.
    neck
        Whether the row is of Table 4, where a layer is added before the head.
    """

    method: str
    data: str
    tried: str
    number: float
    rules_out: str
    memory: int | None = None
    order: str = "classes"
    explains: bool = False
    neck: bool = False

    def about(self, row: Row) -> bool:
        """Whether it is about this row."""
        alike = ("method", "data", "memory", "order", "neck")
        return all(getattr(self, name) == getattr(row, name) for name in alike)


def read(path: Path) -> list[Finding]:
    """Read findings.toml; a mistake in it is one sentence with its name."""
    content = load(path, "list of findings")
    try:
        return parse(content)
    except errors.InputError as error:
        raise errors.InputError(f"In the list of findings {path}: {error}") from None


def parse(content: dict[str, Any]) -> list[Finding]:
    """The findings of a file's content."""
    entries = content.get("finding", [])
    if set(content) - {"finding"} or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise errors.wrong("A list of findings", "hold tables [[finding]] alone", sorted(content))
    return [_finding(entry) for entry in entries]


def _finding(entry: dict[str, Any]) -> Finding:
    for key in entry:
        if key not in KEYS:
            raise errors.unknown("field of a finding", key, KEYS)
    for key in NEEDED:
        if key not in entry:
            raise errors.InputError(f"A finding needs '{key}'.")
    for key in TEXTS:
        errors.text(f"The '{key}' of a finding", entry.get(key, ""))
    errors.number("The 'number' of a finding", entry["number"])
    for key in TRUTHS:
        errors.truth(f"The '{key}' of a finding", entry.get(key, False))
    if "memory" in entry:
        errors.whole("The 'memory' of a finding", entry["memory"], 0)
    return Finding(**{**entry, "method": registry.canonical(entry["method"])})
