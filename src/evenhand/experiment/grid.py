"""Grids: TOML files in which every list is an axis, and every combination a run.

>>> grid = parse({"methods": ["er", "uer"], "memory": [20, 40], "seeds": 3})
>>> len(grid.specs)
12

Each `[[part]]` is another grid, which overrides the common values.
"""

import itertools
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import errors
from evenhand.core.settings import CONDITIONS, PRESETS
from evenhand.datasets import data_dirs
from evenhand.experiment.spec import Spec

PLURALS = {"methods": "method", "seeds": "seed"}
OTHERS = ("title", "root", "preset", "part")
COMMAND = ("engine", "workers", "threads", *CONDITIONS)  # how runs are executed, which a grid does not say
MOST = 100_000  # runs; more are surely a mistake


@dataclass(frozen=True)
class Grid:
    """The runs of a grid file in order, seeds innermost, without duplicates."""

    specs: tuple[Spec, ...]
    root: Path | None = None


def read_grid(path: Path) -> Grid:
    """Read a grid file. Errors name the file."""
    content = read_toml(path, "grid")
    try:
        return parse(content)
    except errors.InputError as error:
        raise errors.InputError(f"In the grid {path}: {error}") from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file; `what` describes it in errors."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise errors.InputError(f"The {what} {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"The {what} {path} is not valid TOML: {error}.") from None


def parse(content: dict[str, Any]) -> Grid:
    """Build a grid from the content of a file."""
    common = dict(content)
    parts = common.pop("part", None)
    root, _ = (errors.text(f"The '{name}' of a grid", common.pop(name, "")) for name in ("root", "title"))
    if parts is not None and not (isinstance(parts, list) and all(isinstance(part, dict) for part in parts)):
        raise errors.wrong("A 'part' of a grid", "be a table [[part]]", parts)
    own = [_singular(part) for part in parts or [{}]]
    specs = [spec for part in own for spec in _product({**_singular(common), **part})]
    return Grid(tuple(dict.fromkeys(specs)), data_dirs.expand(root) if root else None)


def _singular(fields: dict[str, Any]) -> dict[str, Any]:
    """Rename fields to those of a spec; `seeds = 3` means the seeds 0, 1 and 2."""
    singular: dict[str, Any] = {}
    for name, value in fields.items():
        field = PLURALS.get(name, name)
        if name in ("root", "title"):
            raise errors.InputError(f"The '{name}' belongs at the top of a grid, not in a part.")
        if name in COMMAND:
            raise errors.InputError(f"'{name}' does not belong in a grid. Use evenhand grid FILE --{name} ...")
        if field not in Spec.model_fields and name != "preset":
            raise errors.unknown("field of a grid", name, [*Spec.model_fields, *PLURALS, *OTHERS])
        if field in singular:
            raise errors.InputError(f"A grid has either '{field}s' or '{field}', not both.")
        if name == "seeds" and not isinstance(value, list):
            value = list(range(errors.whole("The number of 'seeds'", value, 1, MOST)))
        if value == []:
            raise errors.wrong(f"The axis '{name}' of a grid", "have at least one value", value)
        singular[field] = value
    return singular


def _product(fields: dict[str, Any]) -> list[Spec]:
    if "method" not in fields:
        raise errors.InputError('A grid needs methods, e.g. methods = ["er", "uer"].')
    preset = fields.pop("preset", None)
    if not (preset is None or isinstance(preset, str)):
        raise errors.wrong("The 'preset' of a grid", f"be one of {', '.join(PRESETS)}", preset)
    names = sorted(fields, key=lambda name: name == "seed")  # seeds innermost, all others in the order of the file
    axes = [fields[name] if isinstance(fields[name], list) else [fields[name]] for name in names]
    for name, axis in zip(names, axes, strict=True):
        for value in axis:
            if not isinstance(value, str | int | float):
                raise errors.wrong(f"A value of '{name}' in a grid", "be a string, a number or a boolean", value)
    if (count := math.prod(map(len, axes))) > MOST:
        raise errors.wrong("A grid", f"have at most {MOST} runs", count)
    return [Spec.make(preset, **dict(zip(names, values, strict=True))) for values in itertools.product(*axes)]
