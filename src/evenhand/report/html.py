"""The page: scenarios, tables and figures in the template."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from evenhand import __version__, metrics
from evenhand.experiment.result import Result
from evenhand.report import captions, tables
from evenhand.report.accuracy_figures import by_stage, final, previous_current, to_reference
from evenhand.report.class_figures import by_class, confusion, matrix
from evenhand.report.scenarios import Scenario, scenarios
from evenhand.report.styles import Panel, Styles, assign_styles, page_style, template

CONFUSIONS = 4  # matrices shown side by side


class PageFigure(NamedTuple):
    """A figure of the page: panels side by side above one caption; maps have a colour scale, "root" or "linear"."""

    title: str
    panels: Sequence[Panel]
    caption: str
    scale: str = ""


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    gathered = scenarios(results)
    styles = assign_styles(gathered)
    with page_style():
        rendered = [_scenario(scenario, styles) for scenario in gathered]
    return template("report.html").render(
        version=__version__,
        columns=tables.COLUMNS,
        title=_title(results),
        overview=tables.overview(gathered) if len(gathered) > 1 else [],
        scenarios=rendered,
        environment=tables.environment(results),
        number=captions.number,
        styles=styles,
    )


def _scenario(scenario: Scenario, styles: Styles) -> dict[str, Any]:
    return {
        **vars(scenario),
        "facts": _facts(scenario),
        "verdict": captions.verdict(scenario, styles),
        "legend": [captions.tag(group, styles) for group in scenario.groups if styles[group.label].strong],
        "rows": list(tables.methods(scenario, styles)),
        "figures": list(_figures(scenario, styles)),
        "settings": list(scenario.settings()),
    }


def _facts(scenario: Scenario) -> str:
    spec, seeds = scenario.groups[0].spec, {len(group.runs) for group in scenario.groups}
    few, many = min(seeds), max(seeds)
    parts = [
        f"{scenario.bounds[-1]} classes of {spec.data} in {_plural(scenario.stages, 'stage')}",
        f"order {spec.order}",
        f"memory of {_plural(spec.memory, 'sample')}",
        _plural(many, "seed") if few == many else f"{few} to {many} seeds",
    ]
    return ", ".join(parts) + "."


def _figures(scenario: Scenario, styles: Styles) -> Iterator[PageFigure]:
    """The figures of a scenario; some need more than one stage."""
    stages = scenario.stages > 1
    accuracy = [final(scenario, styles)]
    if stages and len(scenario.compared) > 1:
        accuracy.insert(0, to_reference(scenario, styles))
    if stages:
        accuracy.insert(0, by_stage(scenario, styles, metrics.average, "Average accuracy after each stage"))
    yield PageFigure("Accuracy by stage" if stages else "Accuracy", accuracy, captions.accuracy(scenario))
    if stages:
        those, current = ("stages", "the current stage") if scenario.at_once else ("classes", "current classes")
        both = [
            previous_current(scenario, styles),
            by_stage(scenario, styles, metrics.previous, f"Accuracy on previous {those}"),
            by_stage(scenario, styles, metrics.current, f"Accuracy on {current}"),
        ]
        yield PageFigure(f"Previous and current {those}", both, captions.previous_current(scenario))
    titles = {"norm": "Weight norm |w|", "bias": "Bias b", "probability": "Mean predicted probability"}
    head = [by_class(scenario, styles, quantity, title) for quantity, title in titles.items()]
    yield PageFigure("The head, class by class", head, captions.by_class(scenario))
    groups = list(dict.fromkeys([*scenario.compared, *scenario.groups]))
    tags = [captions.tag(group, styles) for group in groups]
    maps = [confusion(scenario, group, i) for i, group in enumerate(groups[:CONFUSIONS])]
    caption = captions.confusion(scenario, len(maps))
    yield PageFigure("Confusion after the last stage", list(zip(tags, maps, strict=False)), caption, "root")
    if stages:
        maps = [matrix(scenario, group, i) for i, group in enumerate(groups)]
        panels = list(zip(tags, maps, strict=True))
        yield PageFigure("Accuracy on each stage over time", panels, captions.ACCURACY_MATRIX, "linear")


def _title(results: Sequence[Result]) -> str:
    methods = len({result.spec.method for result in results})
    data = ", ".join(sorted({result.spec.data for result in results}))
    runs = len({result.key for result in results})
    return f"{_plural(runs, 'run')} of {_plural(methods, 'method')} on {data}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
