"""Parts: the frozen, stateless values that make up a method. They print, compare, hash and convert to JSON."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform

from evenhand import errors

T = TypeVar("T")
PARTS: dict[str, type] = {}
IDS: dict[type, str] = {}


@dataclass_transform(frozen_default=True)
def part(id: str) -> Callable[[type[T]], type[T]]:
    """Make a class a part: a frozen dataclass with an id that never changes.

    Saved states and run keys contain the id, so the class can be renamed and moved as long as the id stays.
    The fields of a part are numbers, strings, booleans, None or parts. Reading JSON looks up classes only by id, so it
    cannot run code.
    """

    def register(cls: type[T]) -> type[T]:
        known = PARTS.get(id)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise errors.InputError(f"The part id '{id}' already belongs to {known.__module__}.{known.__qualname__}.")
        frozen = dataclass(frozen=True)(cls)
        PARTS[id] = frozen
        IDS[frozen] = id
        return frozen

    return register


def to_json(value: Any) -> Any:
    """Turn a part into plain dicts, a plain value into itself."""
    if (id := IDS.get(type(value))) is not None:
        return {"part": id, **{field.name: to_json(getattr(value, field.name)) for field in fields(value)}}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    must = "be a number, a string, a boolean, None, or a part (a class with @part), so that it can be saved"
    raise errors.wrong("Every field of a method", must, value)


def modules(value: Any) -> set[str]:
    """The modules outside evenhand that define a method's parts, and that must be imported to read it."""
    found = {type(value).__module__} if type(value) in IDS else set()
    if is_dataclass(value):
        found |= {name for field in fields(value) for name in modules(getattr(value, field.name))}
    return {name for name in found if not name.startswith("evenhand.")}


def from_json(value: Any) -> Any:
    """The part that `to_json` was called on."""
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
