"""Metrics of a run and how they are printed.

They follow from the accuracy matrix: a[i][j] is the accuracy on the test samples of stage j after stage i, j <= i. All
describe the last row; those after an earlier stage i follow from `a[: i + 1]`.
"""

import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def average(a: Matrix) -> float:
    """A_i, the mean accuracy over all stages so far; after the last stage, the headline number of a run.

    >>> average([[0.9], [0.5, 0.7]])
    0.6
    """
    return mean(a[-1])


def previous(a: Matrix) -> float | None:
    """A_p(i), the mean over the stages before the current one; None at the first."""
    return mean(a[-1][:-1]) if len(a[-1]) > 1 else None


def current(a: Matrix) -> float:
    """A_c(i), the accuracy on the current stage."""
    return a[-1][-1]


def balance(a: Matrix) -> float | None:
    """The mean of the accuracies on previous and on current classes."""
    old = previous(a)
    return None if old is None else (old + current(a)) / 2


def forgetting(a: Matrix) -> float | None:
    """F_i, the mean over previous stages of the best accuracy before minus the accuracy now."""
    drops = [max(row[j] for row in a[j:-1]) - a[-1][j] for j in range(len(a) - 1)]
    return mean(drops) if drops else None


def backward_transfer(a: Matrix) -> float | None:
    """BWT, the mean over previous stages of the last accuracy minus the accuracy right after the stage was learned."""
    gains = [a[-1][j] - a[j][j] for j in range(len(a) - 1)]
    return mean(gains) if gains else None


def anytime(a: Matrix) -> float:
    """The mean of A_i over all stages."""
    return mean([mean(row) for row in a])


def worst_case(a: Matrix) -> float:
    """WC_i, the mean of the current accuracy and the minimum of every previous stage at later ones."""
    lows = [min(row[j] for row in a[j + 1 :]) for j in range(len(a) - 1)]
    return (current(a) + sum(lows)) / len(a)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values)


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of the mean (Student's t); None for a single value.

    >>> round(interval([1.0, 2.0, 3.0]), 4)
    2.4841
    """
    n = len(values)
    if n < 2:
        return None
    centre = mean(values)
    deviation = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (n - 1))
    return student(n - 1) * deviation / math.sqrt(n)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution, by bisection of its distribution function.

    >>> round(student(9), 4)
    2.2622
    """
    low, high = 0.0, 1e3
    while high - low > 1e-12 * high:
        t = (low + high) / 2
        low, high = (t, high) if _below(t, freedom) < 0.95 else (low, t)
    return high


def _below(t: float, freedom: int) -> float:
    """P(|T| < t), by the finite trigonometric series for whole degrees of freedom."""
    angle = math.atan2(t, math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * k / (k + 1)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def percent(fraction: float | None, unit: str = " %", signed: bool = False) -> str:
    """Format a fraction as a percentage with one decimal; "-" if there is none.

    >>> percent(0.1234), percent(-0.0001, unit=""), percent(0.02, signed=True), percent(None)
    ('12.3 %', '0.0', '+2.0 %', '-')
    """
    return "-" if fraction is None else f"{100 * fraction:{'+' if signed else ''}z.1f}{unit}"
