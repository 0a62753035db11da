"""`evenhand check`: check that a method keeps its promises."""

from typing import Annotated

from cyclopts import Parameter

from evenhand.cli.options import Json, print_json
from evenhand.core.settings import CONDITIONS, Precision


def check(
    name: str,
    *,
    precision: Annotated[Precision, Parameter(help=CONDITIONS["precision"].help)] = "fp32",
    json: Json = False,
) -> int:
    """Check that a method keeps its promises: exact resume, pure prediction, bounded memory, learning and more.

    Parameters
    ----------
    name
        A registered method, e.g. mir+uer, or your own as module:function, which returns a method.
    """
    from evenhand import checks

    outcomes = checks.run(checks.find(name, precision))
    if json:
        print_json({"schema": 1, "method": name, "checks": [vars(outcome) for outcome in outcomes]})
    else:
        said: set[str] = set()
        for outcome in outcomes:
            detail = "as above" if outcome.detail in said else outcome.detail
            print(f"{outcome.state:7} {outcome.check}{detail and ': ' + detail}")
            said |= {outcome.detail} - {""}
    return 1 if any(outcome.state == "failed" for outcome in outcomes) else 0
