"""The table of methods: in which slots each differs from ER, what it costs, and what it composes with."""

from typing import Any

from evenhand import errors
from evenhand.core import registry


def ways() -> list[dict[str, str]]:
    """One dict for each registered way to test."""
    return [{"name": r.name, "call": r.call, "title": r.title} for r in registry.recipes().values() if r.way]


def rows() -> list[dict[str, Any]]:
    """One dict for each registered method."""
    base = registry.resolve("er")
    table = []
    for name, recipe in registry.recipes().items():
        if recipe.way:
            continue
        method = registry.resolve(name)
        changes = method.changes(base)
        table.append(
            {
                "name": name,
                "call": recipe.call,
                "title": recipe.title,
                "cost": registry.cost(recipe.name),
                "slots": {slot: part_name(slot, part) for slot, part in changes.items()},
                "needs_boundaries": bool(method.parts("boundary")),
                **composes(name),
            }
        )
    return table


def composes(name: str) -> dict[str, Any]:
    """Whether `name+uer` composes, and if not, why."""
    try:
        registry.resolve(f"{name}+uer")
    except errors.InputError as error:
        return {"composes": False, "why_not": str(error).partition(": ")[2]}
    return {"composes": True, "why_not": ""}


def part_name(slot: str, part: Any) -> str:
    """What a cell shows: the part's class, or the phases of a scoring."""
    if slot != "scoring":
        return type(part).__name__
    mixes = [" + ".join(form if w == 1 else f"{w:g} {form}" for form, w in mix) for mix in (part.learn, part.replay)]
    return f"{mixes[0]}, {mixes[1]}, {part.test}"
