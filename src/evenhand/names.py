"""Names with parameters, as they stand on the command line and in specs: `mir(candidates=100)+uer(alpha=0.3)`."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from evenhand import errors

COMMA = re.compile(r",(?![^(]*\))")
LONGEST = 10_000  # characters of a name; an order of 1000 classes has its place
LARGEST = 1e300  # number in one


def parse(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Split `a(x=1)+b` into [("a", {"x": 1}), ("b", {})]; values are Python literals.

    >>> parse("mir(candidates=100)+uer")
    [('mir', {'candidates': 100}), ('uer', {})]
    """
    if len(text) > LONGEST:
        raise errors.wrong("A name", f"have at most {LONGEST} characters", len(text))
    try:
        return _terms(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise errors.wrong("A name", "look like er, uer(alpha=0.3) or mir+uer", text) from None


def spell(name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The one spelling of a name: defaults left out, parameters in their declared order.

    >>> spell("mir", {"candidates": 100, "k": 3}, {"k": 3, "candidates": 50})
    'mir(candidates=100)'
    """
    told = [f"{key}={given[key]!r}" for key in defaults if key in given and given[key] != defaults[key]]
    return f"{name}({', '.join(told)})" if told else name


def split(text: str) -> list[str]:
    """The parts of a text with commas; those inside parentheses belong to a name.

    >>> split("er, scored(learn='cos', test='cos')")
    ['er', "scored(learn='cos', test='cos')"]
    """
    return [part.strip() for part in COMMA.split(text)]


def _terms(node: ast.expr) -> list[tuple[str, dict[str, Any]]]:
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return _terms(left) + _terms(right)
        case ast.Name(name):
            return [(name, {})]
        case ast.Call(ast.Name(name), [], keywords):
            if len({k.arg for k in keywords}) < len(keywords):
                raise ValueError
            return [(name, {str(k.arg): _literal(k) for k in keywords})]
    raise ValueError


def _literal(keyword: ast.keyword) -> Any:
    value = ast.literal_eval(keyword.value)
    if keyword.arg is None or not isinstance(value, str | int | float | bool | None):
        raise ValueError
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        raise ValueError
    return value
