"""The conformance suite: what every method promises, checked on real images. `evenhand check NAME` runs it.

A method may be exempt from a check only by {"check": "reason"} where it is registered.
"""

import importlib
from dataclasses import dataclass
from typing import Literal

from evenhand import errors
from evenhand.checks.fixtures import BrokenError, Subject
from evenhand.checks.promises import CHECKS
from evenhand.core import registry
from evenhand.core.method import Method
from evenhand.core.settings import Precision

__all__ = ["CHECKS", "Outcome", "Subject", "examine", "find", "run"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check."""

    check: str
    state: Literal["passed", "failed", "exempt"]
    detail: str = ""


def find(name: str, precision: Precision = "fp32") -> Subject:
    """The method with a registered name, or returned by the function module:attribute; checked in a precision."""
    if ":" not in name:
        terms = registry.terms(name)
        exempt = {check: why for recipe, _ in terms for check, why in recipe.exempt.items()}
        deciding = [recipe for recipe, _ in terms if recipe.cost != 1] or [terms[0][0]]
        if len(deciding) > 1 or any(arguments for _, arguments in terms):
            exempt.setdefault("cost as documented", "costs are documented for single methods with default parameters")
        return Subject(name, registry.resolve(name), deciding[0].cost, deciding[0].tolerance, exempt, precision)
    module, _, attribute = name.partition(":")
    try:
        method = getattr(importlib.import_module(module), attribute)()
    except Exception as error:  # the user's module may raise anything
        raise errors.InputError(f"'{name}' cannot be checked: {type(error).__name__}: {error}.") from None
    if not isinstance(method, Method):
        raise errors.wrong(f"'{name}'", "return a Method", type(method).__name__)
    return Subject(name, method, precision=precision)


def run(subject: Subject) -> list[Outcome]:
    """Run every check; one that raises has failed."""
    return [examine(subject, name) for name in CHECKS]


def examine(subject: Subject, name: str) -> Outcome:
    """Run one check."""
    if name in subject.exempt:
        return Outcome(name, "exempt", subject.exempt[name])
    try:
        CHECKS[name](subject)
    except Exception as error:
        return Outcome(
            name, "failed", f"{'' if isinstance(error, BrokenError) else type(error).__name__ + ': '}{error}"
        )
    return Outcome(name, "passed")
