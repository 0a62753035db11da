"""The page about one item: its tables and its picture, in the look of the report."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from evenhand import __version__
from evenhand.paper import figures, times
from evenhand.paper.rendering import Rendering
from evenhand.paper.sheets import FLAG, NOT_RUN


def page(rendering: Rendering) -> str:
    """One self-contained page."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("evenhand.paper"), PackageLoader("evenhand.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("item.html").render(
        version=__version__,
        item=rendering.item,
        state=rendering.state,
        sheets=rendering.sheets,
        picture=figures.embedded(rendering) if rendering.drawn else "",
        flagged=rendering.flagged,
        judged=any(row.flagged is not None for section in rendering.sections for row in section.rows),
        hours=times.shown(rendering.item.hours()),
        marks={FLAG: "flag", NOT_RUN: "none"},
    )
