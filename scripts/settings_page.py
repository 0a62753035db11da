"""Write docs/settings.md, the page of all settings.

    python scripts/settings_page.py

Names, limits, defaults and help texts come from their declarations in core/settings.py.
"""

from pathlib import Path
from typing import Any

from evenhand.core.settings import CONDITIONS, DEFAULTS, LEARNER, PRESETS, RUN, Setting

PAGE = Path(__file__).parents[1] / "docs/settings.md"


def page() -> str:
    """The docs page."""

    def table(settings: dict[str, Setting]) -> str:
        rows = ["| setting | values | default | meaning |", "|---|---|---|---|"]
        for name, setting in settings.items():
            values = " ".join(f"`{choice}`" for choice in setting.choices) or setting.must.removeprefix("be ")
            default = (
                "required" if setting.default is ... else "-" if setting.default in (None, "") else setting.default
            )
            rows.append(f"| `{name}` | {values} | {default} | {setting.help} |")
        return "\n".join(rows)

    def values(sets: dict[str, dict[str, Any]]) -> str:
        pairs = {name: ", ".join(f"`{key}` {value}" for key, value in own.items()) for name, own in sets.items()}
        return "\n".join(f"- `{name}`: {own}" for name, own in pairs.items())

    return f"""# Settings

`python scripts/settings_page.py` writes this page from the declarations in
[`core/settings.py`](../src/evenhand/core/settings.py).

## What decides a run's numbers

On the command line each of these is a flag (`--memory 200`; methods are named directly), in a grid file a key or a list
of values (`memory = [200, 1000]`), in `spec.json` a field. All of them enter the key of a run. These are also arguments
of `Learner`, whose memory holds 1000 samples by default:
{", ".join(f"`{name}`" for name in LEARNER)}.

{table(RUN)}

Datasets with defaults of their own:

{values(DEFAULTS)}

`--preset NAME`, or `preset = "NAME"` in a grid file, sets several at once:

{values(PRESETS)}

## How a run is computed

These change the speed, and may change the last bits, but not the experiment. They are recorded in `status.json`. A run
resumes only under the conditions it was started with, unless you pass `--anyway`; with `auto`, it keeps them.

{table(CONDITIONS)}
"""


if __name__ == "__main__":
    PAGE.write_text(page())
