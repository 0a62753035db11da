"""The page: sections, tables and figures put into the template."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenhand import __version__, metrics
from evenhand.experiment.result import Result
from evenhand.report import captions, classes, figures
from evenhand.report.collect import Estimate, Group, Metric, Section, collect, shown
from evenhand.report.look import Looks, looks

CONFUSIONS = 4  # matrices shown side by side


@dataclass(frozen=True)
class Column:
    """A column of the headline table; `best` is 1 where more is better, -1 where less is, else 0."""

    title: str
    about: str
    metric: Metric
    best: int = 1


COLUMNS = (
    Column("final", "mean accuracy over all classes after the last stage, A_T", metrics.average),
    Column("previous", "accuracy on the classes of all stages but the last, at the end", metrics.previous),
    Column("current", "accuracy on the classes of the last stage, at the end", metrics.current),
    Column("forgetting", "mean fall of a previous stage from its best accuracy to its last", metrics.forgetting, -1),
    Column("anytime", "mean of the average accuracy after every stage", metrics.anytime),
    Column("worst case", "the current stage, and of each previous one its lowest accuracy since", metrics.worst_case),
)


@dataclass(frozen=True)
class Plate:
    """Panels that belong together, above one caption."""

    title: str
    panels: list[tuple[Markup | str, Markup]]
    caption: Markup
    kind: str = "lines"
    key: str = ""


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    sections = collect(results)
    look = looks(sections)
    environment = Environment(
        loader=PackageLoader("evenhand.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        version=__version__,
        columns=COLUMNS,
        count=_count(results, sections),
        overview=_overview(sections) if len(sections) > 1 else [],
        sections=[_section(number, section, look) for number, section in enumerate(sections, 1)],
        environment=_environment(results),
        number=captions.number,
        looks=look,
    )


def _section(place: int, section: Section, look: Looks) -> dict[str, Any]:
    return {
        "id": f"s{place}",
        "title": section.title,
        "facts": _facts(section),
        "lead": captions.lead(section, look),
        "legend": [(captions.tag(group, look), look[group.label].strong) for group in section.groups],
        "rows": list(_table(section, look)),
        "plates": list(_plates(section, look, f"s{place}")),
        "settings": list(section.settings()),
        "groups": section.groups,
    }


def _facts(section: Section) -> str:
    spec, seeds = section.groups[0].runs[0].spec, {len(group.runs) for group in section.groups}
    few, many = min(seeds), max(seeds)
    parts = [
        f"{section.bounds[-1]} classes of {spec.data} in {_plural(section.stages, 'stage')}",
        f"order {spec.order}",
        f"a memory of {spec.memory} samples",
        _plural(many, "seed") if few == many else f"{few} to {many} seeds",
    ]
    return ", ".join(parts) + "."


def _table(section: Section, look: Looks) -> Iterator[dict[str, Any]]:
    """The rows of the headline table: estimates, each with a mark if it is the best of its column."""
    cells = [[group.estimate(column.metric) for group in section.groups] for column in COLUMNS]
    tops = [_best(column, estimates) for column, estimates in zip(COLUMNS, cells, strict=True)]
    for row, group in enumerate(section.groups):
        yield {
            "name": captions.tag(group, look),
            "cells": [
                (column[row], top is not None and _same(column[row], top))
                for column, top in zip(cells, tops, strict=True)
            ],
            "seconds": group.each(lambda run: run.seconds).mean,
            "seeds": list(zip(group.seeds, group.final.values, strict=True)),
        }


def _best(column: Column, estimates: list[Estimate | None]) -> float | None:
    """The best mean of a column; None where there is nothing to compare."""
    means = [estimate.mean for estimate in estimates if estimate is not None]
    if len(means) < 2 or not column.best:
        return None
    return max(means) if column.best > 0 else min(means)


def _same(estimate: Estimate | None, top: float) -> bool:
    return estimate is not None and captions.number(estimate.mean) == captions.number(top)


def _plates(section: Section, look: Looks, prefix: str) -> Iterator[Plate]:
    """The figures of a section."""
    lines: list[tuple[Markup | str, Markup]] = []
    if section.stages > 1:
        title = "Average accuracy after each stage"
        lines.append((title, figures.by_stage(section, look, metrics.average, title, f"{prefix}-a")))
        if len(section.groups) > 1:
            against = Markup("Difference to {}, paired by seed").format(section.focus[0].label)
            lines.append((against, figures.to_reference(section, look, f"{prefix}-d")))
    lines.append(("Final average accuracy", figures.final(section, look, f"{prefix}-f")))
    yield Plate("Accuracy by stage", lines, captions.by_stage(section, look))

    if section.stages > 1:
        before, now = "Accuracy on previous classes", "Accuracy on current classes"
        yield Plate(
            "Previous against current classes",
            [
                ("After the last stage", figures.previous_current(section, look, f"{prefix}-pc")),
                (before, figures.by_stage(section, look, metrics.previous, before, f"{prefix}-p")),
                (now, figures.by_stage(section, look, metrics.current, now, f"{prefix}-c")),
            ],
            captions.previous_current(section, look),
        )

    titles = {"norm": "Norm of the weights, |w|", "bias": "Bias, b", "probability": "Mean predicted probability"}
    yield Plate(
        "The head, class by class in order of arrival",
        [
            (title, classes.by_class(section, look, quantity, title, f"{prefix}-{quantity}"))
            for quantity, title in titles.items()
        ],
        captions.head(section, look),
    )
    chosen = list(dict.fromkeys([*section.focus, *section.groups]))[:CONFUSIONS]
    yield Plate(
        "Confusion after the last stage",
        [
            (captions.tag(group, look), classes.confusion(section, group, f"{prefix}-x{i}"))
            for i, group in enumerate(chosen)
        ],
        captions.confusion(section, look),
        kind="maps",
        key="root",
    )
    if section.stages > 1:
        ordered: list[Group] = list(dict.fromkeys([*section.focus, *section.groups]))
        yield Plate(
            "Accuracy on each stage after each stage",
            [(captions.tag(group, look), classes.matrix(group, f"{prefix}-y{i}")) for i, group in enumerate(ordered)],
            captions.matrix(section, look),
            kind="maps",
            key="linear",
        )


def _overview(sections: list[Section]) -> list[tuple[str, list[tuple[Estimate | None, bool]]]]:
    """The final accuracy of every label (row) in every section (column), the best of a column marked."""
    labels = dict.fromkeys(group.label for section in sections for group in section.groups)
    finals = [{group.label: group.final for group in section.groups} for section in sections]
    tops = [_best(COLUMNS[0], list(final.values())) for final in finals]
    return [
        (
            label,
            [(f.get(label), top is not None and _same(f.get(label), top)) for f, top in zip(finals, tops, strict=True)],
        )
        for label in labels
    ]


def _environment(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, int]]]]:
    """What the runs were made with; each value with the number of its runs."""
    found: dict[str, dict[str, int]] = {}
    for result in sorted(results, key=lambda result: result.key):
        for name, value in result.environment.items():
            values = found.setdefault(name, {})
            values[shown(value)] = values.get(shown(value), 0) + 1
    return [(name, list(values.items())) for name, values in found.items()]


def _count(results: Sequence[Result], sections: list[Section]) -> str:
    methods = len({result.spec.method for result in results})
    data = ", ".join(sorted({result.spec.data for result in results}))
    return f"{_plural(len(results), 'run')} of {_plural(methods, 'method')} on {data}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
