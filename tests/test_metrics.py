import math

import pytest

from evenhand import metrics

# Accuracy on stage j after stage i, with values that are easy to add up.
A = [
    [0.8],
    [0.6, 0.9],
    [0.7, 0.5, 0.6],
    [0.4, 0.6, 0.2, 1.0],
]
ONE = [[0.3]]


@pytest.mark.parametrize(
    ("value", "by_hand"),
    [
        (metrics.average(A), (0.4 + 0.6 + 0.2 + 1.0) / 4),  # 0.55
        (metrics.average(A[:3]), 0.6),
        (metrics.average(A[:1]), 0.8),
        (metrics.previous(A), 0.4),  # (0.4 + 0.6 + 0.2) / 3
        (metrics.previous(A[:2]), 0.6),
        (metrics.current(A), 1.0),
        (metrics.current(A[:3]), 0.6),
        # Best before: 0.8, 0.9 and 0.6; now 0.4, 0.6 and 0.2: lost 0.4, 0.3 and 0.4.
        (metrics.forgetting(A), 1.1 / 3),
        # At stage 3: best 0.8 and 0.9, now 0.7 and 0.5: lost 0.1 and 0.4.
        (metrics.forgetting(A[:3]), 0.25),
        (metrics.forgetting(A[:2]), 0.2),
        # Since learned: 0.4 - 0.8, 0.6 - 0.9, 0.2 - 0.6.
        (metrics.backward_transfer(A), -1.1 / 3),
        (metrics.anytime(A), (0.8 + 0.75 + 0.6 + 0.55) / 4),  # 0.675
        # Lowest since: min(0.6, 0.7, 0.4) = 0.4, min(0.5, 0.6) = 0.5, 0.2, and now 1.0.
        (metrics.worst_case(A), 2.1 / 4),
        (metrics.worst_case(A[:3]), (0.6 + 0.6 + 0.5) / 3),
        (metrics.worst_case(A[:1]), 0.8),
        # What a stage had when it was learned does not count, only what it had since.
        (metrics.worst_case([[0.2], [0.6, 0.5]]), (0.6 + 0.5) / 2),
        (metrics.average(ONE), 0.3),
        (metrics.current(ONE), 0.3),
        (metrics.anytime(ONE), 0.3),
        (metrics.worst_case(ONE), 0.3),
    ],
)
def test_by_hand(value, by_hand):
    assert math.isclose(value, by_hand, rel_tol=1e-12)


@pytest.mark.parametrize("metric", [metrics.previous, metrics.forgetting, metrics.backward_transfer])
def test_the_first_stage_has_no_past(metric):
    assert metric(ONE) is None


def test_forgetting_may_be_negative():
    assert math.isclose(metrics.forgetting([[0.5], [0.7, 0.9]]), -0.2)


QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 14: 2.145, 19: 2.093}


@pytest.mark.parametrize(
    ("freedom", "quantile"), [*QUANTILES.items(), (30, 2.042), (60, 2.0), (120, 1.98), (1000, 1.962)]
)
def test_quantiles_of_student_as_tables_print_them(freedom, quantile):
    assert round(metrics.student(freedom), 3) == quantile


def test_quantiles_that_have_a_formula():
    """With one degree t = tan(.475 pi), with two t = .95 sqrt(2 / (1 - .95^2))."""
    assert math.isclose(metrics.student(1), math.tan(0.475 * math.pi), rel_tol=1e-9)
    assert math.isclose(metrics.student(2), 0.95 * math.sqrt(2 / (1 - 0.95**2)), rel_tol=1e-9)


def test_an_interval_by_hand():
    """1, 2, 3, 4, 5 have the deviation sqrt(2.5); 2.776445 sqrt(2.5) / sqrt(5) = 1.963243."""
    assert math.isclose(metrics.interval([1, 2, 3, 4, 5]), 1.963243, abs_tol=1e-6)
    assert math.isclose(metrics.interval([1.0, 3.0]), 12.706205, abs_tol=1e-6)
    assert metrics.interval([0.4] * 10) == 0
    assert metrics.interval([0.4]) is None


def test_the_mean_is_exact_where_a_sum_is_not():
    assert metrics.mean([1e16, 1.0, -1e16]) == 1 / 3


@pytest.mark.parametrize(
    ("fraction", "text"), [(-0.0001, "0.0 %"), (-0.0, "0.0 %"), (-0.0006, "-0.1 %"), (0.5, "50.0 %"), (None, "-")]
)
def test_a_percentage_has_no_minus_before_a_zero(fraction, text):
    assert metrics.percent(fraction) == text
