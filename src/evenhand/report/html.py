"""The page: sections, tables and figures put into the template."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenhand import __version__, metrics
from evenhand.experiment.result import Result
from evenhand.report import captions, classes, figures, tables
from evenhand.report.collect import Section, collect
from evenhand.report.look import Looks, looks, style

CONFUSIONS = 4  # matrices shown side by side
Panel = tuple[str, Markup]  # a heading and a figure


@dataclass(frozen=True)
class Plate:
    """Panels that belong together, above one caption."""

    title: str
    panels: Sequence[Panel]
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
    with style():
        made = [_section(place, section, look) for place, section in enumerate(sections, 1)]
    return environment.get_template("report.html").render(
        version=__version__,
        columns=tables.COLUMNS,
        count=_count(results),
        overview=tables.overview(sections) if len(sections) > 1 else [],
        sections=made,
        environment=tables.environment(results),
        number=captions.number,
        looks=look,
    )


def _section(place: int, section: Section, look: Looks) -> dict[str, Any]:
    return {
        "id": f"s{place}",
        "title": section.title,
        "facts": _facts(section),
        "lead": captions.lead(section, look),
        "legend": [captions.tag(group, look) for group in section.groups if look[group.label].strong],
        "rows": list(tables.headline(section, look)),
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


def _plates(section: Section, look: Looks, prefix: str) -> Iterator[Plate]:
    """The figures of a section; with one stage, those that need more are left out."""
    yield _accuracy(section, look, prefix)
    if section.stages > 1:
        yield _previous_current(section, look, prefix)
    yield _head(section, look, prefix)
    groups = list(dict.fromkeys([*section.focus, *section.groups]))
    tags = [captions.tag(group, look) for group in groups]
    shown = groups[:CONFUSIONS]
    maps = [classes.confusion(section, group, f"{prefix}-confusion-{i}") for i, group in enumerate(shown)]
    caption = captions.confusion(section, look, len(shown))
    yield Plate("Confusion after the last stage", list(zip(tags, maps, strict=False)), caption, "maps", "root")
    if section.stages > 1:
        maps = [classes.matrix(group, f"{prefix}-matrix-{i}") for i, group in enumerate(groups)]
        panels = list(zip(tags, maps, strict=True))
        title = "Accuracy on each stage after each stage"
        yield Plate(title, panels, captions.matrix(section, look), "maps", "linear")


def _accuracy(section: Section, look: Looks, prefix: str) -> Plate:
    panels: list[Panel] = []
    if section.stages > 1:
        title = "Average accuracy after each stage"
        panels.append((title, figures.by_stage(section, look, metrics.average, title, f"{prefix}-average")))
        if len(section.focus) > 1:
            reference, challenger = section.focus
            title = f"{challenger.label} minus {reference.label}, paired by seed"
            panels.append((title, figures.to_reference(section, look, f"{prefix}-difference")))
    several = any(len(group.runs) > 1 for group in section.groups)
    title = "Final average accuracy, intervals and seeds" if several else "Final average accuracy"
    panels.append((title, figures.final(section, look, f"{prefix}-final")))
    title = "Accuracy by stage" if section.stages > 1 else "Accuracy"
    return Plate(title, panels, captions.by_stage(section, look))


def _previous_current(section: Section, look: Looks, prefix: str) -> Plate:
    before, now = "Accuracy on previous classes", "Accuracy on current classes"
    panels: list[Panel] = [
        ("After the last stage", figures.previous_current(section, look, f"{prefix}-both")),
        (before, figures.by_stage(section, look, metrics.previous, before, f"{prefix}-previous")),
        (now, figures.by_stage(section, look, metrics.current, now, f"{prefix}-current")),
    ]
    return Plate("Previous against current classes", panels, captions.previous_current(section, look))


def _head(section: Section, look: Looks, prefix: str) -> Plate:
    titles = {"norm": "Norm of the weights, |w|", "bias": "Bias, b", "probability": "Mean predicted probability"}
    panels: list[Panel] = [
        (title, classes.by_class(section, look, quantity, title, f"{prefix}-{quantity}"))
        for quantity, title in titles.items()
    ]
    return Plate("The head, class by class in order of arrival", panels, captions.head(section, look))


def _count(results: Sequence[Result]) -> str:
    methods = len({result.spec.method for result in results})
    data = ", ".join(sorted({result.spec.data for result in results}))
    return f"{_plural(len(results), 'run')} of {_plural(methods, 'method')} on {data}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
