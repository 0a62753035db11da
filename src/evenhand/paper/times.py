"""How long runs take on stated hardware: measured where they were made, estimated where they were not."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evenhand import errors, registry
from evenhand.experiment.spec import Spec

KEYS = ("hardware", "side_by_side", "measured", "estimated")


@dataclass(frozen=True)
class Times:
    """Minutes of a run of C_D = 1 on each dataset; other methods take C_D times as long, which is an estimate too.

    Attributes
    ----------
    side_by_side
        Runs at a time in which those minutes were taken.
    """

    hardware: str = ""
    side_by_side: int = 1
    measured: dict[str, float] = field(default_factory=dict)
    estimated: dict[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, content: Any) -> "Times":
        """Read the table [time] of a definition."""
        if not isinstance(content, dict):
            raise errors.wrong("The 'time' of a definition", "be a table [time]", content)
        for key in content:
            if key not in KEYS:
                raise errors.unknown("field of a definition's time", key, KEYS)
        hardware = errors.text("The 'hardware' of a definition's time", content.get("hardware", ""))
        count = errors.whole("The 'side_by_side' of a definition's time", content.get("side_by_side", 1), 1)
        tables = {key: content.get(key, {}) for key in ("measured", "estimated")}
        for key, table in tables.items():
            if not isinstance(table, dict):
                raise errors.wrong(f"What is '{key}' of a definition's time", "be minutes by dataset", table)
            for data, minutes in table.items():
                errors.number(f"The minutes of {data}", minutes, 0)
        return cls(hardware, count, **tables)

    def hours(self, specs: Iterable[Spec]) -> float | None:
        """How long runs take together; None if nothing is known about one of them."""
        minutes = self.estimated | self.measured
        try:
            total = math.fsum(minutes[spec.data] * registry.terms(spec.method)[0][0].cost for spec in specs)
        except KeyError:
            return None
        return total / 60 / self.side_by_side


def shown(hours: float | None) -> str:
    """A stretch of time as a reader plans with it.

    >>> shown(0.4), shown(9.7), shown(400), shown(None)
    ('24 min', '9.7 h', '17 days', 'unknown')
    """
    if hours is None:
        return "unknown"
    return f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"
