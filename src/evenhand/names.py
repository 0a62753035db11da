"""Names with parameters, as on the command line and in specs: `mir(candidates=100)+uer(alpha=0.3)`.

Methods, backbones and orders are functions that are called by such names. All of them are parsed, checked against the
function's signature and spelled here.
"""

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from evenhand import errors

OWN = re.compile(r"""("[^"]*"|'[^']*')|([^\W\d][\w.]*:[^\W\d]\w*)""")  # a string, or module:function
COMMA = re.compile(r",(?![^(]*\))")
MAX_LENGTH = 10_000  # characters; leaves room for an order of 1000 classes
MAX_NUMBER = 1e300
METHODS = "er, uer(alpha=0.3) or mir+uer"
Term = tuple[str, dict[str, Any]]


def parse(text: str, like: str = METHODS) -> list[Term]:
    """Split `a(x=1)+b` into [("a", {"x": 1}), ("b", {})]; values are Python literals. `like` are examples for errors.

    >>> parse("mir(candidates=100)+mymodule:mine")
    [('mir', {'candidates': 100}), ('mymodule:mine', {})]
    """
    if len(text) > MAX_LENGTH:
        raise errors.wrong("A name", f"have at most {MAX_LENGTH} characters", len(text))
    own: dict[str, str] = {}  # module:function, which is no name in Python, by one that stands for it

    def stand_in(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        own[name := f"_own_{len(own)}"] = found[2]
        return name

    try:
        parsed = _terms(ast.parse(OWN.sub(stand_in, text.strip()), mode="eval").body)
        return [(own.get(name, name), arguments) for name, arguments in parsed]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise errors.wrong("A name", f"look like {like}", text) from None


def terms(kind: str, text: str, known: Collection[str], like: str = "") -> list[Term]:
    """Parse a name whose terms are all `known`; `kind` says in errors what they name, and `like` gives examples."""
    like = like or f"{min(known, key=len)} or NAME(PARAMETER=1)"
    parsed = [(text, {})] if errors.text("A name", text) in known else parse(text, like)
    for name, _ in parsed:
        if name not in known:
            raise errors.unknown(kind, name, known)
    return parsed


def term(kind: str, text: str, known: Collection[str]) -> Term:
    """Parse a known name of one term, without `+`."""
    parsed = terms(kind, text, known)
    if len(parsed) != 1:
        raise errors.unknown(kind, text, known)
    return parsed[0]


def parameters(function: Callable[..., Any], skip: int = 0) -> dict[str, Any]:
    """Return the parameters of a function with their defaults, without the first `skip`."""
    return {p.name: p.default for p in list(inspect.signature(function).parameters.values())[skip:]}


def bind(name: str, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check arguments against `parameters` and return them in declared order.

    A whole number becomes a float where the default is a float, so that equal numbers are spelled alike.
    """
    for argument in arguments:
        if not parameters:
            raise errors.InputError(f"{name} takes no parameters. Got {argument!r}.")
        if argument not in parameters:
            raise errors.unknown(f"parameter of {name}", argument, parameters)
    return {
        key: float(arguments[key]) if isinstance(default, float) and type(arguments[key]) is int else arguments[key]
        for key, default in parameters.items()
        if key in arguments
    }


def spell(
    name: str,
    arguments: Mapping[str, Any],
    parameters: Mapping[str, Any],
    plain: Callable[[Any], Any] = lambda value: value,
) -> str:
    """Spell a name in its canonical form: parameters in declared order, without those at their default.

    Values are written as `plain` returns them.

    >>> spell("mir", {"candidates": 100, "k": 3}, {"k": 3, "candidates": 50})
    'mir(candidates=100)'
    """
    values = {key: plain(value) for key, value in bind(name, arguments, parameters).items()}
    spelled = [f"{key}={value!r}" for key, value in values.items() if value != parameters[key]]
    return f"{name}({', '.join(spelled)})" if spelled else name


def split(text: str) -> list[str]:
    """Split a text at its commas, except those inside parentheses.

    >>> split("er, scored(learn='cos', test='cos')")
    ['er', "scored(learn='cos', test='cos')"]
    """
    return [part.strip() for part in COMMA.split(text)]


def listed(text: str | None) -> list[str]:
    """The parts of a comma-separated list that are not empty; commas inside parentheses belong to a name."""
    return [part for part in split(text or "") if part]


def _terms(node: ast.expr) -> list[Term]:
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
    if isinstance(value, int | float) and not abs(value) < MAX_NUMBER:
        raise ValueError
    return value
