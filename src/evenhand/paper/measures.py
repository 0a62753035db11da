"""Measures: what the paper's tables and ours print about a run, in the paper's units."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand import metrics
from evenhand.experiment.estimate import Metric, arrived, by_class, in_percent, is_probable
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec
from evenhand.methods.er import Latest

Value = Callable[[Result], float | None]


@dataclass(frozen=True)
class Measure:
    """One column of a table."""

    title: str
    value: Value | None  # computes it from a run; None for measures of a step, which `evenhand bench` takes
    digits: int = 1  # decimals that the paper prints
    unit: str = "%"  # for axes and headings

    def format(self, number: float | None, half: float | None = None, signed: bool = False) -> str:
        """Format a number, and half its interval, with the paper's decimals; "-" if there is none.

        >>> MEASURES["accuracy"].format(-0.04, signed=True), MEASURES["c_d"].format(1.166, half=0.2)
        ('+0.0', '1.17 ± 0.20')
        """
        if number is None:
            return "-"
        interval = "" if half is None else f" ± {half:.{self.digits}f}"
        return f"{number:{'+' if signed else ''}z.{self.digits}f}{interval}"


def shows_head(spec: Spec) -> bool:
    """Whether the head that its records describe, that of the latest weights, is what was tested."""
    return isinstance(spec.resolved.weights, Latest) and is_probable(spec)


def _accuracy(metric: Metric) -> Value:
    return lambda run: in_percent(metric)(run.accuracy)


def _head(quantity: str, current: bool, reduce: Callable[[list[float]], float] = metrics.mean) -> Value:
    """Reduce a quantity of the head over the previous or the current classes; None after a single stage.

    Also None for a test without a head or with other weights than the latest, since these are what a record describes.
    """

    def value(run: Result) -> float | None:
        if not shows_head(run.spec):
            return None
        values, old = by_class(run, quantity), arrived(run)
        chosen = values[old:] if current else values[:old]
        return float(reduce(chosen)) if old and chosen else None

    return value


MEASURES = {
    "accuracy": Measure("final average accuracy", _accuracy(metrics.average)),
    "previous": Measure("accuracy on previous classes", _accuracy(metrics.previous)),
    "current": Measure("accuracy on current classes", _accuracy(metrics.current)),
    "norm_previous": Measure("mean norm |w| of previous classes", _head("norm", False), 2, "|w|"),
    "norm_current": Measure("mean norm |w| of current classes", _head("norm", True), 2, "|w|"),
    "mean_previous": Measure("mean weight of previous classes", _head("mean", False), 4, "mean of w"),
    "spread_previous": Measure("spread of mean weights, previous", _head("mean", False, np.std), 4, "w"),
    "mean_current": Measure("mean weight of current classes", _head("mean", True), 4, "mean of w"),
    "spread_current": Measure("spread of mean weights, current", _head("mean", True, np.std), 4, "w"),
    "bias_previous": Measure("mean bias of previous classes", _head("bias", False), 2, "b"),
    "bias_current": Measure("mean bias of current classes", _head("bias", True), 2, "b"),
    "c_d": Measure("C_D, operations per step", None, 2, "ratio to ER"),
    "time": Measure("time per step", None, 2, "ratio to ER"),
    # Not in the paper.
    "forgetting": Measure("forgetting", _accuracy(metrics.forgetting)),
    "anytime": Measure("anytime accuracy", _accuracy(metrics.anytime)),
    "worst_case": Measure("worst-case accuracy", _accuracy(metrics.worst_case)),
}
