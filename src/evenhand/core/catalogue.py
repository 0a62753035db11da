"""The table of methods: in which slots each differs from ER, what it costs, and what it composes with."""

from typing import Any

from evenhand import errors
from evenhand.core import registry
from evenhand.core.method import SLOTS

HEADER = """# The methods

Every method is ER with some of its seven parts replaced; an empty cell is ER's own part. C_D is the training cost
relative to ER, by the formula in the method's file. Methods compose if they replace different slots, as in `mir+gss`;
otherwise an error names the slot. `+uer` replaces a method's scoring with UER's, including the cosines of `er_ace`; a
method that itself replaces only the scoring, such as `scored(learn='cos')`, does not compose with it. `scr+uer` adds a
cross-entropy on the head, and tests the head. `python -m evenhand.core.catalogue > docs/methods.md` writes this page.

"""
WAYS = """## Ways to test

A way to test leaves the training bit for bit as it is, and composes with every method. (The one exception is
`er_wa+ncm`: the prediction of `er_wa` also aligns the weights, so nothing can replace it.) So one training can be
tested in several ways: `evenhand run uer uer+ema uer+ema+ncm` trains once and prints three rows; `--tests "ema,
ema+ncm"` does the same for all methods of a command.

"""
OWN = """
## Your own method, by name

Wherever a method name is expected, `module:function` can name your own function that returns a method, without
registration. Parameters and compositions work as with any other name.

    evenhand check mymodule:mine
    evenhand run "mymodule:mine(strength=2)+uer" uer

In Python, write `Learner(model, "mymodule:mine(strength=2)+uer")`. The working directory is searched last for the
module. An error in it is reported once, with file and line. Reading records never imports such a method by itself:
until you allow the import, as in `EVENHAND_METHODS=mymodule:mine evenhand report runs -o report.html`, `evenhand runs`
lists such a run as *damaged* and `report` skips it, although its records are intact. To make a method permanent,
[register it](../CONTRIBUTING.md#add-a-method-in-six-steps).
"""


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


def page() -> str:
    """The table as Markdown."""
    lines = [f"| method | {' | '.join(SLOTS)} | C_D | stages | `+uer` |", "|---|" + "---|" * (len(SLOTS) + 3)]
    for row in rows():
        cells = [f"`{part}`" if (part := row["slots"].get(slot)) else "" for slot in SLOTS]
        needs, mixed = "needs boundaries" if row["needs_boundaries"] else "", "yes" if row["composes"] else "no"
        file = f"../src/{registry.recipes()[row['name']].build.__module__.replace('.', '/')}.py"
        lines.append(f"| [`{row['name']}`]({file}) | {' | '.join(cells)} | {row['cost']:.2f} | {needs} | {mixed} |")
    reasons = [f"- `{row['name']}+uer`: {row['why_not']}" for row in rows() if not row["composes"]]
    notes = [f"- `{row['call']}`: {row['title']}" for row in rows()]
    parts = ["\n".join(lines), "## What they are\n\n" + "\n".join(notes)]
    parts.append("## What does not compose\n\n" + "\n".join(reasons))
    tests = WAYS + "\n".join(f"- `+{w['call']}`: {w['title']}" for w in ways())
    return HEADER + "\n\n".join([*parts, tests]) + "\n" + OWN


if __name__ == "__main__":
    print(page(), end="")
