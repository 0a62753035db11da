"""Write docs/methods.md, the page of all methods.

    python scripts/methods_page.py

Slots, costs, titles and what composes come from the registered methods.
"""

from pathlib import Path

from evenhand.core import catalogue, registry
from evenhand.core.method import SLOTS

PAGE = Path(__file__).parents[1] / "docs/methods.md"
HEADER = """# The methods

Every method is ER with some of its seven parts replaced; an empty cell is ER's own part. C_D is the training cost
relative to ER, by the formula in the method's file. Methods compose if they replace different slots, as in `mir+gss`;
otherwise an error names the slot. `+uer` replaces a method's scoring with UER's, including the cosines of `er_ace`; a
method that itself replaces only the scoring, such as `scored(learn='cos')`, does not compose with it. `scr+uer` adds a
cross-entropy on the head, and tests the head. `python scripts/methods_page.py` writes this page.

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


def page() -> str:
    """The table as Markdown."""
    table = catalogue.rows()
    lines = [f"| method | {' | '.join(SLOTS)} | C_D | stages | `+uer` |", "|---|" + "---|" * (len(SLOTS) + 3)]
    for row in table:
        cells = [f"`{part}`" if (part := row["slots"].get(slot)) else "" for slot in SLOTS]
        needs, mixed = "needs boundaries" if row["needs_boundaries"] else "", "yes" if row["composes"] else "no"
        file = f"../src/{registry.recipes()[row['name']].build.__module__.replace('.', '/')}.py"
        lines.append(f"| [`{row['name']}`]({file}) | {' | '.join(cells)} | {row['cost']:.2f} | {needs} | {mixed} |")
    reasons = [f"- `{row['name']}+uer`: {row['why_not']}" for row in table if not row["composes"]]
    notes = [f"- `{row['call']}`: {row['title']}" for row in table]
    parts = ["\n".join(lines), "## What they are\n\n" + "\n".join(notes)]
    parts.append("## What does not compose\n\n" + "\n".join(reasons))
    tests = WAYS + "\n".join(f"- `+{w['call']}`: {w['title']}" for w in catalogue.ways())
    return HEADER + "\n\n".join([*parts, tests]) + "\n" + OWN


if __name__ == "__main__":
    PAGE.write_text(page())
