"""`evenhand run`: run methods on one stream; and what it prints when runs have ended, as does `evenhand grid`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from evenhand.cli.options import EXECUTION, RUN_SETTINGS, Anyway, Execution, Json, Root, RunSettings, Track, print_json
from evenhand.cli.prepare import load_missing, trackers, use_data_dir
from evenhand.cli.tables import fitting, plus_minus, stdout
from evenhand.core.settings import RUN
from evenhand.errors import InputError, whole
from evenhand.metrics import percent

if TYPE_CHECKING:
    from evenhand.experiment.engine.queue import Outcome


def run(
    *methods: str,
    tested: Annotated[Literal["test", "validation"] | None, Parameter(help=RUN["tested"].help)] = None,
    seeds: int | None = None,
    seed: int | None = None,
    settings: RunSettings = RUN_SETTINGS,
    execution: Execution = EXECUTION,
    track: Track = None,
    root: Root = Path("runs"),
    anyway: Anyway = False,
    json: Json = False,
) -> int:
    """Run methods on a stream and compare them.

    Finished runs are reused, interrupted ones resumed, missing ones started.

    Parameters
    ----------
    methods
        Methods with their parameters, e.g. er "uer(alpha=0.3)"; your own as module:function.
    seeds
        Run the seeds 0 to SEEDS - 1.
    seed
        Run only this seed.
    """
    from evenhand.experiment.grid import MOST
    from evenhand.experiment.spec import Spec

    if not methods:
        raise InputError("Name at least one method, e.g. evenhand run er uer. List them with evenhand methods.")
    if seeds is not None and seed is not None:
        raise InputError("Use either --seeds K for the seeds 0 to K - 1, or --seed S for a single one.")
    if seeds is not None:
        whole("The number of --seeds", seeds, 1, MOST)
    fields = settings.fields() | ({"tested": tested} if tested else {})
    numbers = [seed] if seed is not None else range(seeds or 1)
    specs = [Spec.make(settings.preset, method=name, seed=number, **fields) for name in methods for number in numbers]
    execution.check()
    options = {"anyway": anyway, "track": trackers(track)}
    use_data_dir(settings.data_dir)
    load_missing(specs, root)
    return conclude(execution.run(list(dict.fromkeys(specs)), root, **options), json)


def conclude(outcomes: "Sequence[Outcome]", json: bool) -> int:
    """Print the outcomes of many runs, as a table or JSON, then tracebacks; return the exit code."""
    from evenhand.experiment.engine.queue import Failure
    from evenhand.experiment.estimate import Group
    from evenhand.experiment.result import Result, by_setting
    from evenhand.experiment.spec import titles

    failures = list(dict.fromkeys(outcome for outcome in outcomes if isinstance(outcome, Failure)))
    rows = [row for outcome in outcomes if isinstance(outcome, Result) for row in outcome.rows()]
    settings = by_setting(list({row.spec: row for row in rows}.values()))
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
