"""`evenhand check`: check that a method keeps its promises."""

from evenhand.cli.options import Json, print_json
from evenhand.core.settings import Precision


def check(name: str, *, precision: Precision = "fp32", json: Json = False) -> int:
    """Check that a method keeps its promises: exact resume, pure prediction, bounded memory, learning and more.

    Parameters
    ----------
    name
        A registered method, e.g. mir+uer, or your own as module:function, which returns a method.
    precision
        Arithmetic of the network's trunk: float32, bfloat16, or auto: bfloat16 if the hardware supports it.
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
