"""What `evenhand runs` shows: runs, methods against a reference, and what is pruned."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evenhand import errors, metrics
from evenhand.experiment.inventory import KEY, Row
from evenhand.experiment.prune import Removal
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.report.collect import STREAM, Section, collect
from evenhand.report.group import Group, difference, differs
from evenhand.show import percent, width

STYLES = {"running": "cyan", "stopped": "yellow", "failed": "red", "damaged": "red", "outdated": "magenta"}
EXPENDABLE = ("key", "touched", "seconds", "forgetting")  # where a terminal is narrow: keys are cut, the others go
NARROW = 18  # characters of a text there, before it goes on in the next line
MAIN = ("method", "data", "memory", "seed")  # the fields of a spec that may be columns of their own
NUMBERS = ("memory", "seed", "stages", "accuracy", "forgetting", "seconds")
COLUMNS: dict[str, Callable[[Row], str]] = {
    "state": lambda row: row.state,
    "stages": lambda row: "-" if row.spec is None else f"{row.stage}/{row.spec.stages}",
    "accuracy": lambda row: percent(row.accuracy, unit=""),
    "forgetting": lambda row: percent(row.forgetting, unit=""),
    "seconds": lambda row: "-" if row.seconds is None else f"{row.seconds:.0f}",
    "touched": lambda row: "-" if row.touched is None else f"{row.touched:%Y-%m-%d %H:%M}",
    "key": lambda row: row.key,
}


def print_runs(console: Console, rows: Sequence[Row]) -> None:
    """The table of `evenhand runs`, and a line for every run about which there is more to say."""
    usual, telling = _usual(rows)
    left_out: list[str] = []
    while width(console, table := _runs(rows, usual, telling, left_out)) > console.width:
        if len(left_out) == len(EXPENDABLE):
            break
        left_out.append(EXPENDABLE[len(left_out)])
    console.print(table)
    counts = Counter(row.state for row in rows)
    shared = [f"{name} {usual[name]}" for name in ("data", "memory") if usual and name not in telling]
    _say(console, ", ".join([*(f"{count} {state}" for state, count in counts.items()), *shared, "accuracies in %."]))
    if other := [f"{name} {_shown(usual[name])}" for name in telling if name not in MAIN]:
        _say(console, f"Where no setting is named: {', '.join(other)}.")
    if left_out:
        gone = f" and {', '.join(left_out[1:])} left out" if left_out[1:] else ""
        _say(console, f"For lack of room keys are cut to their ends{gone}; --json and --csv have everything.")
    if counts["outdated"]:
        _say(console, "Outdated runs are of an older revision of their method; evenhand runs prune removes them.")
    for row in rows:
        if row.note and row.state != "outdated":
            _say(console, row.sentence, STYLES.get(row.state))


def _usual(rows: Sequence[Row]) -> tuple[dict[str, Any], list[str]]:
    """The most frequent value of every field of a spec, and the fields in which runs differ; stages show anyway."""
    specs = [row.spec.model_dump() for row in rows if row.spec is not None]
    counts = {name: Counter(spec[name] for spec in specs) for name in Spec.model_fields if specs}
    usual = {name: count.most_common(1)[0][0] for name, count in counts.items()}
    return usual, [name for name, count in counts.items() if len(count) > 1 and name != "stages"]


def _runs(rows: Sequence[Row], usual: dict[str, Any], telling: Sequence[str], left_out: Sequence[str]) -> Table:
    columns: dict[str, Callable[[Row], str]] = {
        name: partial(_field, name) for name in MAIN if name in ("method", "seed", *telling)
    }
    if others := [name for name in telling if name not in MAIN]:
        columns["setting"] = partial(_setting, {name: usual[name] for name in others})
    columns |= {name: cell for name, cell in COLUMNS.items() if name not in left_out[1:]}
    if left_out:
        columns["key"] = _short
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        wraps = name in ("method", "data", "setting") or (name == "key" and not left_out)
        most = NARROW if wraps and left_out else None
        table.add_column(name, justify=justify, no_wrap=not wraps, overflow="fold", max_width=most)
    for row in rows:
        style = STYLES.get(row.state, "")
        table.add_row(*(Text(cell(row), style if name == "state" else "") for name, cell in columns.items()))
    return table


def _field(name: str, row: Row) -> str:
    return _shown(row.value(name))


def _short(row: Row) -> str:
    """The digits of a key, or the beginning of another name, which a sentence below the table gives in full."""
    return (
        row.key.rpartition("-")[2] if KEY.fullmatch(row.key) else row.key if len(row.key) <= 12 else f"{row.key[:11]}…"
    )


def _setting(usual: dict[str, Any], row: Row) -> str:
    """The fields in which a run departs from most others."""
    if row.spec is None:
        return "-"
    return ", ".join(f"{name} {_field(name, row)}" for name in usual if row.value(name) != usual[name])


def comparison(results: Sequence[Result], to: str) -> list[dict[str, Any]]:
    """Methods against a reference, paired by seed: a row for each setting, stream by stream and the best first.

    Parameters
    ----------
    to
        The method of the reference.
    """
    methods = {result.spec.method for result in results}
    if to not in methods:
        raise errors.InputError(
            f"There is no finished run of {to} to compare with. Use --to: {', '.join(sorted(methods))}."
        )
    return [_compared(section, group, to) for section in collect(results) for group in section.groups]


def _compared(section: Section, group: Group, to: str) -> dict[str, Any]:
    spec, reference = group.runs[0].spec, _reference(section, group, to)
    less = None if reference is None else difference(group, reference, metrics.average)
    return {
        "stream": section.title,
        **{name: getattr(spec, name) for name in STREAM},
        "method": group.method,
        "label": group.label,
        "seeds": group.seeds,
        "accuracy": group.final.mean,
        "interval": group.final.half,
        "reference": None if reference is None else reference.label,
        "differs": [] if reference is None else differs(group, reference),
        "pairs": 0 if less is None else len(less.values),
        "difference": None if less is None else less.mean,
        "difference_interval": None if less is None else less.half,
    }


def _reference(section: Section, group: Group, to: str) -> Group | None:
    """The reference of the same settings, or the only one there is; None for a reference itself."""
    if group.method == to:
        return None
    references = [other for other in section.groups if other.method == to]
    alike = [other for other in references if not differs(group, other)]
    return next(iter(alike or references), None) if len(alike or references) == 1 else None


def print_comparison(console: Console, rows: Sequence[dict[str, Any]], to: str) -> None:
    """The tables of `evenhand runs compare`, one for each stream."""
    for title in dict.fromkeys(row["stream"] for row in rows):
        table = Table(
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=escape(title), title_justify="left", title_style="bold"
        )
        table.add_column("method", overflow="fold")
        for name in ("seeds", "accuracy", "95 %", f"minus {to}", "95 %", "pairs"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            if row["stream"] == title:
                table.add_row(Text(row["label"]), str(len(row["seeds"])), *_estimates(row))
        console.print(table)
    _say(console, f"Accuracies in %, the best first; differences to {to} are paired by seed.")
    unlike: dict[str, list[str]] = {}
    for row in rows:
        if row["differs"]:
            unlike.setdefault(f"{row['stream']}: {', '.join(row['differs'])}", []).append(row["label"])
    for how, labels in unlike.items():
        _say(console, f"{how} are other than those of {to}, too, with {'; '.join(labels)}.")


def _estimates(row: dict[str, Any]) -> Iterable[Text]:
    less, half = row["difference"], row["difference_interval"]
    clear = less is not None and half is not None and abs(less) > half  # the interval leaves out zero
    style = ("green" if less > 0 else "red") if clear else ""
    yield Text(percent(row["accuracy"], unit=""))
    yield Text(_half(row["interval"]))
    yield Text("-" if less is None else f"{100 * less:+z.1f}", style)
    yield Text(_half(half), style)
    yield Text(str(row["pairs"]) if row["pairs"] else "-")


def print_removals(console: Console, removals: Sequence[Removal]) -> None:
    """What `evenhand runs prune` removes."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("what goes", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for removal in removals:
        style = "red" if removal.whole else ""
        size = room(sum(removal.sizes.values()))
        table.add_row(Text(removal.row.key), Text(removal.what, style), size)
    console.print(table)


def room(count: int) -> str:
    """A number of bytes as a reader takes it in.

    >>> room(999), room(4519600)
    ('999 B', '4.5 MB')
    """
    power = min((len(str(count)) - 1) // 3, 3)
    return f"{count / 1000**power:.{1 if power else 0}f} {('B', 'kB', 'MB', 'GB')[power]}"


def _half(interval: float | None) -> str:
    return "-" if interval is None else f"± {percent(interval, unit='')}"


def _shown(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _say(console: Console, sentence: str, style: str | None = None) -> None:
    console.print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)
