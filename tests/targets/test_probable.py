"""The probability of each point to be the best safe one, beside a slow integral."""

from math import erf, exp, inf, pi, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellmost.targets import Known, ProbableMaximizers


def no_draw(count, generator):
    raise AssertionError("the probability is in closed form")


def known(mean, std, chance=None, within=(-inf, inf), **more):
    mean, std = np.array(mean, dtype=np.float64), np.array(std, dtype=np.float64)
    every = np.ones(len(mean), dtype=bool)
    given = {"points": np.arange(len(mean))[:, None], "seed": 0, "beta": 2.0, "draw": no_draw}
    masks = {"is_safe": every, "may_be_safe": every}
    chance = None if chance is None else np.array(chance, dtype=np.float64)
    return Known(mean=mean, std=std, chance=chance, within=within, **given | masks | more)


def slow_integral(mean, std, chance, low, high, count=4_000):
    """p(x) by the trapezoidal rule."""
    reach = 8 * max(std)
    low, high = max(low, min(mean) - reach), min(high, max(mean) + reach)
    levels, found = np.linspace(low, high, count), np.zeros(len(mean))
    for t in levels:
        above = [
            0.5 * (erf((high - m) / s / sqrt(2)) - erf((t - m) / s / sqrt(2)))
            for m, s in zip(mean, std, strict=True)
        ]
        for x, (m, s) in enumerate(zip(mean, std, strict=True)):
            density = exp(-0.5 * ((t - m) / s) ** 2) / s / sqrt(2 * pi)
            others = [1 - chance[z] * above[z] for z in range(len(mean)) if z != x]
            found[x] += chance[x] * density * np.prod(others) * (levels[1] - levels[0])
    return found / found.sum()


numbers = st.floats(-2, 2)
points = st.lists(
    st.tuples(numbers, st.floats(0.3, 1.5), st.floats(0.1, 1)), min_size=2, max_size=4
)


@given(points, st.sampled_from([(-inf, inf), (-0.5, inf), (-inf, 0.7)]), st.booleans())
@example([(0, 1, 1), (0, 1, 0.5), (2, 0.375, 1)], (-inf, 0.7), False)  # likely above the limit
def test_weights_are_those_of_a_slow_integral(three, within, is_minimized):
    mean, std, chance = (list(part) for part in zip(*three, strict=True))
    now = known(mean, std, chance, within, is_minimized=is_minimized)
    sign = -1.0 if is_minimized else 1.0
    low, high = sorted(sign * limit for limit in within)
    expected = slow_integral([sign * m for m in mean], std, chance, low, high, 600)
    np.testing.assert_allclose(ProbableMaximizers().weights(now), expected, atol=0.02)


@pytest.mark.parametrize("gap", [0.0, 0.4, 2.0])
def test_of_two_points_the_better_one_is_best_as_often_as_the_difference_is_positive(gap):
    weights = ProbableMaximizers().weights(known([gap, 0.0], [0.5, 0.8]))
    expected = 0.5 + 0.5 * erf(gap / sqrt(0.5**2 + 0.8**2) / sqrt(2))
    assert weights[0] == pytest.approx(expected, abs=0.005) and weights.sum() == pytest.approx(1)


def test_what_cannot_be_safe_or_best_is_no_target():
    may = np.array([True, True, False, True])
    now = known([1.0, 0.9, 5.0, -9.0], [0.2, 0.2, 0.2, 0.2], may_be_safe=may)
    assert ProbableMaximizers().choose(now).tolist() == [True, True, False, False]
    nothing = known([1.0, 0.9], [0.2, 0.2], may_be_safe=np.zeros(2, dtype=bool))
    assert ProbableMaximizers().weights(nothing).tolist() == [0.0, 0.0]


def test_a_likely_point_of_unlikely_safety_weighs_less_than_by_either_alone():
    """It is not the probability of being the largest times that of being safe."""
    sure, doubtful = ProbableMaximizers().weights(known([0.0, 3.0], [0.5, 0.5], [1.0, 0.5]))
    assert doubtful == pytest.approx(0.5, abs=0.01) and sure == pytest.approx(0.5, abs=0.01)
    naive = np.array([0.0, 1.0]) * [1.0, 0.5]  # the second is the largest for sure
    assert sure > 0.4 > naive[0]


def test_points_that_are_known_exactly_have_all_the_weight_of_the_best_one():
    weights = ProbableMaximizers().weights(known([1.0, 0.5, 0.9], [0.0, 0.0, 0.0]))
    assert weights.argmax() == 0 and weights[0] > 0.99
