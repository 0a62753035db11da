"""The page: scenarios, tables and figures in the template."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenhand import __version__, metrics
from evenhand.experiment.result import Result
from evenhand.report import accuracy_figures, captions, class_figures, tables
from evenhand.report.scenarios import Scenario, scenarios
from evenhand.report.styles import Styles, assign_styles, page_style

CONFUSIONS = 4  # matrices shown side by side
Panel = tuple[str, Markup]  # a heading and a drawing


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page: panels side by side above one caption.

    Attributes
    ----------
    kind
        Whether the panels are "lines" or "maps".
    scale
        The colour scale of maps: "root" or "linear".
    """

    title: str
    panels: Sequence[Panel]
    caption: str
    kind: str = "lines"
    scale: str = ""


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    gathered = scenarios(results)
    styles = assign_styles(gathered)
    environment = Environment(
        loader=PackageLoader("evenhand.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    with page_style():
        rendered = [_scenario(f"s{place}", scenario, styles) for place, scenario in enumerate(gathered, 1)]
    return environment.get_template("report.html").render(
        version=__version__,
        columns=tables.COLUMNS,
        title=_title(results),
        overview=tables.overview(gathered) if len(gathered) > 1 else [],
        scenarios=rendered,
        environment=tables.environment(results),
        number=captions.number,
        styles=styles,
    )


def _scenario(name: str, scenario: Scenario, styles: Styles) -> dict[str, Any]:
    return {
        "id": name,
        "title": scenario.title,
        "facts": _facts(scenario),
        "verdict": captions.verdict(scenario, styles),
        "legend": [captions.tag(group, styles) for group in scenario.groups if styles[group.label].strong],
        "rows": list(tables.methods(scenario, styles)),
        "figures": list(_figures(scenario, styles, name)),
        "settings": list(scenario.settings()),
        "groups": scenario.groups,
    }


def _facts(scenario: Scenario) -> str:
    spec, seeds = scenario.groups[0].runs[0].spec, {len(group.runs) for group in scenario.groups}
    few, many = min(seeds), max(seeds)
    parts = [
        f"{scenario.bounds[-1]} classes of {spec.data} in {_plural(scenario.stages, 'stage')}",
        f"order {spec.order}",
        f"memory of {_plural(spec.memory, 'sample')}",
        _plural(many, "seed") if few == many else f"{few} to {many} seeds",
    ]
    return ", ".join(parts) + "."


def _figures(scenario: Scenario, styles: Styles, prefix: str) -> Iterator[PageFigure]:
    """The figures of a scenario; some need more than one stage."""
    yield _accuracy(scenario, styles, prefix)
    if scenario.stages > 1:
        yield _previous_current(scenario, styles, prefix)
    yield _by_class(scenario, styles, prefix)
    groups = list(dict.fromkeys([*scenario.compared, *scenario.groups]))
    tags = [captions.tag(group, styles) for group in groups]
    shown = groups[:CONFUSIONS]
    maps = [class_figures.confusion(scenario, group, f"{prefix}-confusion-{i}") for i, group in enumerate(shown)]
    panels = list(zip(tags, maps, strict=False))
    caption = captions.confusion(scenario, len(shown))
    yield PageFigure("Confusion after the last stage", panels, caption, "maps", "root")
    if scenario.stages > 1:
        maps = [class_figures.matrix(group, f"{prefix}-matrix-{i}") for i, group in enumerate(groups)]
        panels = list(zip(tags, maps, strict=True))
        yield PageFigure("Accuracy on each stage over time", panels, captions.ACCURACY_MATRIX, "maps", "linear")


def _accuracy(scenario: Scenario, styles: Styles, prefix: str) -> PageFigure:
    panels: list[Panel] = []
    if scenario.stages > 1:
        title = "Average accuracy after each stage"
        drawing = accuracy_figures.by_stage(scenario, styles, metrics.average, title, f"{prefix}-average")
        panels.append((title, drawing))
        if len(scenario.compared) > 1:
            reference, challenger = scenario.compared
            title = f"{challenger.label} minus {reference.label}, paired by seed"
            panels.append((title, accuracy_figures.to_reference(scenario, styles, f"{prefix}-difference")))
    panels.append(("Final average accuracy", accuracy_figures.final(scenario, styles, f"{prefix}-final")))
    title = "Accuracy by stage" if scenario.stages > 1 else "Accuracy"
    return PageFigure(title, panels, captions.accuracy(scenario))


def _previous_current(scenario: Scenario, styles: Styles, prefix: str) -> PageFigure:
    before, now = "Accuracy on previous classes", "Accuracy on current classes"
    panels: list[Panel] = [
        ("After the last stage", accuracy_figures.previous_current(scenario, styles, f"{prefix}-both")),
        (before, accuracy_figures.by_stage(scenario, styles, metrics.previous, before, f"{prefix}-previous")),
        (now, accuracy_figures.by_stage(scenario, styles, metrics.current, now, f"{prefix}-current")),
    ]
    return PageFigure("Previous and current classes", panels, captions.PREVIOUS_CURRENT)


def _by_class(scenario: Scenario, styles: Styles, prefix: str) -> PageFigure:
    titles = {"norm": "Weight norm |w|", "bias": "Bias b", "probability": "Mean predicted probability"}
    panels: list[Panel] = [
        (title, class_figures.by_class(scenario, styles, quantity, title, f"{prefix}-{quantity}"))
        for quantity, title in titles.items()
    ]
    return PageFigure("The head, class by class", panels, captions.BY_CLASS)


def _title(results: Sequence[Result]) -> str:
    methods = len({result.spec.method for result in results})
    data = ", ".join(sorted({result.spec.data for result in results}))
    return f"{_plural(len(results), 'run')} of {_plural(methods, 'method')} on {data}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
