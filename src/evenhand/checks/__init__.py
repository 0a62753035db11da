"""The conformance suite: what every method promises, checked on real images. `evenhand check NAME` runs it.

A method may be exempt from a check only by {"check": "reason"} where it is registered.
"""

from dataclasses import dataclass
from typing import Literal

from evenhand import errors
from evenhand.checks.fixtures import BrokenError, Subject
from evenhand.checks.promises import CHECKS
from evenhand.core import registry
from evenhand.core.settings import Precision

__all__ = ["CHECKS", "Outcome", "Subject", "examine", "find", "run"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check."""

    check: str
    state: Literal["passed", "failed", "exempt"]
    detail: str = ""


def find(name: str, precision: Precision = "fp32") -> Subject:
    """The method of a name, checked in a precision."""
    method, terms = registry.resolve(name), registry.terms(name)
    exempt = {check: why for recipe, _ in terms for check, why in recipe.exempt.items()}
    deciding = [recipe for recipe, _ in terms if registry.cost(recipe.name) != 1] or [terms[0][0]]
    if len(deciding) > 1 or any(arguments and not callable(recipe.cost) for recipe, arguments in terms):
        exempt.setdefault("cost as documented", "costs of parameters are documented by functions, of single methods")
    return Subject(name, method, registry.cost(name), deciding[0].tolerance, exempt, precision)


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
        return Outcome(name, "failed", str(error) if isinstance(error, BrokenError) else errors.fault(error))
    return Outcome(name, "passed")
