"""Means, quantiles and ranks are those of the textbooks."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tellmost.evaluation.statistics import (
    Mean,
    count_together,
    rank_correlation,
    t_tail,
)


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 30, 31, 1_000])
def test_chances_are_those_of_student(freedom):
    for t in (0.0, 0.3, 2.2, -4.5):
        assert t_tail(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-12)


@given(st.lists(st.floats(0.0, 0.1), min_size=1, max_size=8))
def test_differences_that_are_looked_at_together_count_as_holm_says(chances):
    names = [str(i) for i in range(len(chances))]
    order, expected = np.argsort(chances, kind="stable"), set()
    for rank, i in enumerate(order):
        if chances[i] >= 0.05 / (len(chances) - rank):
            break
        expected.add(names[i])
    close = [c * left - 0.05 for c in chances for left in range(1, len(chances) + 1)]
    assume(min(map(abs, close)) > 1e-12)  # rounding would decide
    assert count_together(dict(zip(names, chances, strict=True))) == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_rank_correlation_is_spearmans_with_ties(pairs):
    x, y = np.array(pairs, dtype=float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert rank_correlation(x, y).value == 0
    else:
        expected = stats.spearmanr(x, y).statistic
        assert rank_correlation(x, y).value == pytest.approx(expected, abs=1e-12)


def test_a_difference_counts_where_a_t_test_says_so():
    rng = np.random.default_rng(0)
    for shift in np.linspace(-2, 2, 21):
        values = rng.standard_normal(8) + shift
        result = stats.ttest_1samp(values, 0)
        expected = int(np.sign(result.statistic)) if result.pvalue < 0.05 else 0
        assert Mean.of(values).sign == expected


def test_one_value_has_no_error_and_proves_nothing():
    mean = Mean.of(np.array([3.0]))
    assert mean.error is None and mean.sign == 0 and mean.text() == "3.0"
