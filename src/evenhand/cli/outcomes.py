"""What commands print after runs have ended: a table or JSON, then tracebacks; and the exit code."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from evenhand.cli.options import print_json
from evenhand.cli.tables import fitting, plus_minus, stdout
from evenhand.metrics import percent

if TYPE_CHECKING:
    from evenhand.experiment.engine.queue import Outcome


def conclude(outcomes: "Sequence[Outcome]", json: bool) -> int:
    """Print the outcomes of many runs and return the exit code."""
    from evenhand.experiment.engine.queue import Failure
    from evenhand.experiment.estimate import Group
    from evenhand.experiment.result import Result, by_setting
    from evenhand.experiment.spec import titles

    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    settings = by_setting([outcome for outcome in outcomes if isinstance(outcome, Result)])
    names = titles([runs[0].spec for runs in settings], seeds=False)
    summaries = [Group(name, tuple(runs)).summary() for name, runs in zip(names, settings, strict=True)]
    if json:
        failed = [{"key": f.spec.key, "cause": f.cause, "sentence": f.message} for f in failures]
        print_json({"schema": 1, "results": summaries, "failures": failed})
    elif summaries:
        stdout().print(results_table(summaries, names))
    for failure in failures:
        print(failure.trace, end="", file=sys.stderr)
    causes = {failure.cause for failure in failures}
    return 1 if causes & {"fault", "lost"} else 130 if "stopped" in causes else 2 if causes else 0


def results_table(summaries: list[dict[str, Any]], names: list[str]) -> Table:
    """One row per setting, under the given names."""
    streams = sorted({f"{s['data']}, memory {s['memory']}" for s in summaries})
    columns = {
        "method": names,
        "accuracy": [percent(s["final_accuracy"], unit="") for s in summaries],
        "95 % interval": [plus_minus(s["interval"]) for s in summaries],
        **{name: [percent(s[name], unit="") for s in summaries] for name in ("previous", "current", "forgetting")},
        "seconds": [f"{s['seconds']:.0f}" for s in summaries],
        "seeds": [str(len(s["seeds"])) for s in summaries],
    }
    table = fitting(columns, texts=("method",), optional=("seconds", "forgetting", "current", "previous"))
    table.title = f"Final average accuracy in %: {escape('; '.join(streams))}"
    return table
