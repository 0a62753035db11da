"""`evenhand runs compare`: methods against a reference."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evenhand.cli.options import Json, Root, print_json
from evenhand.cli.runs import Csv, Where, check_format, print_csv, warn_skipped
from evenhand.cli.tables import OPEN, plus_minus, print_line, stdout
from evenhand.errors import InputError
from evenhand.metrics import average, percent

if TYPE_CHECKING:
    from evenhand.experiment.estimate import Group
    from evenhand.experiment.result import Result
    from evenhand.report.scenarios import Scenario

LONGEST = 10  # characters of a reference that the table names


def compare(
    root: Root = Path("runs"), *, to: str = "er", where: Where = None, json: Json = False, csv: Csv = False
) -> None:
    """Compare methods with a reference on the same stream and memory, paired by seed.

    Parameters
    ----------
    to
        The reference method.
    """
    from evenhand.core.registry import canonical
    from evenhand.experiment.records.filters import select
    from evenhand.experiment.records.inventory import by_test, inventory, results

    check_format(json, csv)
    chosen = select(by_test(inventory(root, with_results=True)), where or ())
    warn_skipped(chosen)
    finished = results(chosen)
    if not finished:
        raise InputError(f"No finished run in {root} matches." if where else f"There is no finished run in {root}.")
    reference = canonical(to)
    rows = comparison(finished, reference)
    if json:
        print_json({"schema": 1, "reference": reference, "comparisons": rows})
    elif csv:
        print_csv(rows, list(rows[0]))
    else:
        _print_comparison(stdout(), rows, reference)


def comparison(results: "Sequence[Result]", to: str) -> list[dict[str, Any]]:
    """Compare all methods with the method `to`: one row per setting, by stream, best first."""
    from evenhand.report.scenarios import scenarios

    methods = sorted({result.spec.method for result in results})
    if to not in methods:
        raise InputError(
            f"There is no finished run of {to} to compare with. Use --to with one of {', '.join(methods)}."
        )
    return [_compared(scenario, group, to) for scenario in scenarios(results) for group in scenario.groups]


def _compared(scenario: "Scenario", group: "Group", to: str) -> dict[str, Any]:
    """Compare a group with the reference whose settings differ least, unless several do; a reference with none."""
    from evenhand.experiment.estimate import difference, differs
    from evenhand.report.scenarios import STREAM

    references = [other for other in scenario.groups if other.method == to and group.method != to]
    fewest = min((len(differs(group, other)) for other in references), default=0)
    candidates = [other for other in references if len(differs(group, other)) == fewest]
    reference = candidates[0] if len(candidates) == 1 else None
    gain = difference(group, reference, average) if reference else None
    return {
        "stream": scenario.title,
        **{name: getattr(group.spec, name) for name in STREAM},
        "method": group.method,
        "label": group.label,
        "seeds": group.seeds,
        "accuracy": group.final.mean,
        "interval": group.final.half,
        "reference": reference.label if reference else None,
        "differs": differs(group, reference) if reference else [],
        "images_changed": scenario.images_changed,
        "precisions_mixed": scenario.precisions_mixed,
        "pairs": len(gain.values) if gain else 0,
        "difference": gain.mean if gain else None,
        "difference_interval": gain.half if gain else None,
    }


def _print_comparison(console: Console, rows: Sequence[dict[str, Any]], to: str) -> None:
    """Print one table per stream, and which settings differ from the reference besides the method."""
    for title in dict.fromkeys(row["stream"] for row in rows):
        table = Table(**OPEN, title=escape(title), title_justify="left", title_style="bold")
        table.add_column("method", overflow="fold")
        gap = f"minus {to}" if len(to) <= LONGEST else "difference"  # or a long name would leave no room for others
        for name in ("seeds", "accuracy", "95 %", gap, "95 %", "pairs"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            if row["stream"] == title:
                table.add_row(Text(row["label"]), str(len(row["seeds"])), *_cells(row))
        console.print(table)
    print_line(console, f"Accuracies in % with 95 % intervals, best first; differences from {to} are paired by seed.")
    for title in dict.fromkeys(row["stream"] for row in rows if row["images_changed"]):
        print_line(console, f"{title}: not all runs saw the same images, since the dataset changed in between.")
    for title in dict.fromkeys(row["stream"] for row in rows if row["precisions_mixed"]):
        print_line(console, f"{title}: some runs were computed in bf16, others in fp32.")
    unlike: dict[str, list[str]] = {}
    for row in rows:
        if fields := row["differs"]:
            what = f"{row['stream']}: {', '.join(fields)} also differ{'s' * (len(fields) == 1)}"
            unlike.setdefault(what, []).append(row["label"])
    for what, labels in unlike.items():
        print_line(console, f"{what} from {to} for {'; '.join(labels)}.")


def _cells(row: dict[str, Any]) -> Iterator[Text]:
    gain, half = row["difference"], row["difference_interval"]
    clear = gain is not None and half is not None and abs(gain) > half  # the interval excludes zero
    style = ("green" if gain > 0 else "red") if clear else ""
    yield Text(percent(row["accuracy"], unit=""))
    yield Text(plus_minus(row["interval"]))
    yield Text(percent(gain, unit="", signed=True), style)
    yield Text(plus_minus(half), style)
    yield Text(str(row["pairs"] or "-"))
