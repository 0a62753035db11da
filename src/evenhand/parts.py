"""Parts: the frozen, stateless values that methods are made of. They print, compare, hash and travel as JSON."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

from evenhand import errors

T = TypeVar("T")
PARTS: dict[str, type] = {}


@dataclass_transform(frozen_default=True)
def part(cls: type[T]) -> type[T]:
    """Make a class a part: a frozen dataclass, known by its full name.

    Its fields are numbers, strings, booleans, None or parts. Reading JSON finds classes in this list alone, so that it
    can run no code.
    """
    made = dataclass(frozen=True)(cls)
    PARTS[f"{cls.__module__}.{cls.__qualname__}"] = made
    return made


def to_json(value: Any) -> Any:
    """Turn a part into plain dicts, a plain value into itself."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if PARTS.get(name) is type(value):
        cls: Any = type(value)
        return {"part": name, **{f.name: to_json(getattr(value, f.name)) for f in fields(cls)}}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise errors.wrong("A part's field", "be a number, a string, a boolean, None or another part", value)


def from_json(value: Any) -> Any:
    """Turn what `to_json` gave back into an equal part."""
    if not isinstance(value, dict):
        return value
    arguments = {key: from_json(item) for key, item in value.items() if key != "part"}
    cls = PARTS.get(str(value.get("part")))
    if cls is None:
        raise errors.unknown("part", value.get("part"), PARTS)
    try:
        return cls(**arguments)
    except TypeError as error:
        raise errors.InputError(f"The fields of the part {value['part']} do not fit: {error}.") from None
