"""What the paper's tables measure, and what they do not: each a number of one run, in the paper's units."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand import metrics
from evenhand.experiment.result import Result
from evenhand.report.group import Estimate, arrived, column

Value = Callable[[Result], float | None]


@dataclass(frozen=True)
class Measure:
    """One column of a table.

    Attributes
    ----------
    value
        Takes it from a run; None where it does not exist. Measures of a step have no run to be taken from.
    digits
        Decimals that the paper prints.
    unit
        What the numbers are, for axes and headings.
    """

    title: str
    value: Value | None
    digits: int = 1
    unit: str = "%"

    def shown(self, number: float | None, sign: bool = False) -> str:
        """A number as the paper would print it; a dash for none.

        >>> MEASURES["accuracy"].shown(-0.04, sign=True), MEASURES["c_d"].shown(1.166)
        ('+0.0', '1.17')
        """
        if number is None:
            return "-"
        rounded = round(number, self.digits) + 0.0  # no minus before a zero
        return f"{rounded:{'+' if sign else ''}.{self.digits}f}"


def percent(estimate: Estimate | None) -> Estimate | None:
    """A mean of fractions as one of percents."""
    return None if estimate is None else Estimate(tuple(100 * value for value in estimate.values))


def _percent(metric: Callable[[metrics.Matrix], float | None]) -> Value:
    def value(run: Result) -> float | None:
        found = metric(run.accuracy)
        return None if found is None else 100 * found

    return value


def _head(quantity: str, current: bool, taken: Callable[[list[float]], float] = metrics.mean) -> Value:
    """A quantity of the head over the previous or the current classes; None with a single stage."""

    def value(run: Result) -> float | None:
        values, old = column(run, quantity), arrived(run)
        wanted = values[old:] if current else values[:old]
        return taken(wanted) if old and wanted else None

    return value


def _spread(values: list[float]) -> float:
    return float(np.std(values))


MEASURES = {
    "accuracy": Measure("final average accuracy", _percent(metrics.average)),
    "previous": Measure("accuracy on previous classes", _percent(metrics.previous)),
    "current": Measure("accuracy on current classes", _percent(metrics.current)),
    "norm_previous": Measure("mean norm |w| of previous classes", _head("norm", False), 2, "|w|"),
    "norm_current": Measure("mean norm |w| of current classes", _head("norm", True), 2, "|w|"),
    "mean_previous": Measure("mean weight of previous classes", _head("mean", False), 4, "mean of w"),
    "spread_previous": Measure("spread of mean weights, previous", _head("mean", False, _spread), 4, "w"),
    "mean_current": Measure("mean weight of current classes", _head("mean", True), 4, "mean of w"),
    "spread_current": Measure("spread of mean weights, current", _head("mean", True, _spread), 4, "w"),
    "bias_previous": Measure("mean bias of previous classes", _head("bias", False), 2, "b"),
    "bias_current": Measure("mean bias of current classes", _head("bias", True), 2, "b"),
    "c_d": Measure("C_D, operations of a step", None, 2, "ratio to ER"),
    "time": Measure("time of a step", None, 2, "ratio to ER"),
    # What the paper did not measure.
    "forgetting": Measure("forgetting", _percent(metrics.forgetting)),
    "anytime": Measure("anytime accuracy", _percent(metrics.anytime)),
    "worst_case": Measure("worst-case accuracy", _percent(metrics.worst_case)),
}
