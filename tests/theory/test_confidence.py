"""Confidence intervals hold for functions of bounded norm, and are never understated."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import oracle_theory
import tellmost as tm
from tellmost import theory
from tiny_problems import kernels, noise_shares, seeds, tiny

GRID = np.linspace(0, 1, 15)[:, None]
KERNEL = tm.kernels.Gaussian(0.2)
K = oracle.matrix(lambda x, z: oracle.gaussian(x, z, 0.2), GRID, GRID)


@given(seeds, kernels, noise_shares)
@settings(max_examples=20, deadline=None)
def test_realised_information_is_half_the_log_determinant_after_every_observation(
    seed, kernel, noise
):
    case = tiny(seed, kernel, noise_share=noise)
    order = [0, 2, 2, 1, 0]
    stds = case.arguments["noise_std"][order]
    found = theory.realised_information(
        case.pool[order], kernel=case.arguments["kernel"], noise_std=stds
    )
    assert found[0] == 0 and len(found) == len(order) + 1
    for t in range(1, len(order) + 1):
        block = case.oracle.K[np.ix_(order[:t], order[:t])]
        expected = oracle_theory.realised_information(block, stds[:t] ** 2)
        assert found[t] == pytest.approx(expected, rel=1e-9)


def test_the_width_is_that_of_the_theorem():
    width = theory.confidence_width(3.0, norm=2.0, delta=0.05)
    assert width == pytest.approx(2 + sqrt(2 * (3 + log(20))))
    doubled = theory.confidence_width(3.0, norm=2.0, delta=0.05, noise_factor=2.0)
    assert doubled - 2 == pytest.approx(2 * (width - 2))


def test_from_a_capacity_it_takes_the_upper_bound_and_the_papers_one_more():
    ask = {"kernel": KERNEL, "noise_std": 0.3}
    exact = theory.information_capacity(GRID, None, 2, **ask)
    greedy = theory.information_capacity(GRID, None, 2, method="greedy", **ask)
    expected = 1 + sqrt(2 * (exact.value + 1 + log(10)))
    assert theory.confidence_width(exact, norm=1, delta=0.1) == pytest.approx(expected)
    assert theory.confidence_width(greedy, norm=1, delta=0.1) >= expected


@given(st.lists(st.integers(0, 14), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
def test_no_observations_need_a_wider_interval_than_the_capacity_gives(rows):
    ask = {"kernel": KERNEL, "noise_std": 0.3}
    realised = theory.realised_information(GRID[rows], **ask)[-1]
    capacity = theory.information_capacity(GRID, None, len(rows), method="greedy", **ask)
    assert realised <= capacity.upper
    widths = [theory.confidence_width(x, norm=1, delta=0.1) for x in (realised, capacity)]
    assert widths[0] < widths[1]


def test_a_capacity_about_other_targets_is_refused():
    capacity = theory.information_capacity(GRID, GRID[:1], 2, kernel=KERNEL, noise_std=0.3)
    with pytest.raises(ValueError, match="capacity of the samples themselves"):
        theory.confidence_width(capacity, norm=1, delta=0.1)


def share_that_holds(width_of, rho, trials=120, rounds=8, norm=1.0, noise=None):
    """How often intervals hold everywhere and always, where the largest upper bound is measured.

    Functions are combinations of kernel columns of the given norm; noise is Gaussian.
    """
    rng = np.random.default_rng(0)
    stds = np.full(len(GRID), rho) if noise is None else noise
    held = 0
    for _ in range(trials):
        weights = rng.standard_normal(len(GRID))
        f = norm * (K @ weights) / sqrt(weights @ K @ weights)
        held += holds_throughout(width_of, f, stds, rounds, rng)
    return held / trials


def holds_throughout(width_of, f, stds, rounds, rng) -> bool:
    picks, y = [int(rng.integers(len(f)))], []
    for _ in range(rounds):
        x = picks[-1]
        y.append(f[x] + stds[x] * rng.standard_normal())
        mean, variance = oracle_theory.posterior_mean_and_variance(K, picks, np.array(y), stds**2)
        sd = np.sqrt(np.maximum(variance, 0))
        beta = width_of(picks, stds)
        if np.any(np.abs(f - mean) > beta * sd + 1e-9):
            return False
        picks.append(int(np.argmax(mean + 2 * sd)))
    return True


def realised_width(norm, delta):
    def width(picks, stds):
        nats = theory.realised_information(GRID[picks], kernel=KERNEL, noise_std=stds[picks])[-1]
        return theory.confidence_width(nats, norm=norm, delta=delta)

    return width


def printed_width(norm, delta):
    """As the lemma is printed, with the noise's standard deviation before the root."""

    def width(picks, stds):
        nats = theory.realised_information(GRID[picks], kernel=KERNEL, noise_std=stds[picks])[-1]
        return norm + stds.max() * sqrt(2 * (nats + 1 + log(1 / delta)))

    return width


@pytest.mark.parametrize("rho", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("norm", [0.01, 1.0])
def test_intervals_hold_at_least_as_often_as_they_say(rho, norm):
    assert share_that_holds(realised_width(norm, 0.1), rho, norm=norm, trials=60) >= 0.9


def test_intervals_hold_where_the_noise_differs_between_points():
    noise = np.where(np.arange(len(GRID)) % 2, 0.05, 1.0)
    width = realised_width(0.01, 0.1)
    assert share_that_holds(width, 0, norm=0.01, noise=noise, trials=60) >= 0.9


def test_as_the_lemma_is_printed_they_would_fail_at_small_noise():
    assert share_that_holds(printed_width(0.01, 0.1), 0.1, norm=0.01, trials=60) < 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0}, "delta, a probability of failure, must be .* above 0"),
        ({"delta": 1.0}, "delta, a probability of failure, must be .* below 1; got 1.0"),
        ({"norm": -1}, "norm must be a finite number, at least 0; got -1"),
        ({"information": -0.1}, "information must be a finite number, at least 0"),
        ({"information": float("nan")}, "information must be a finite number"),
        ({"noise_factor": 0}, "noise_factor must be a positive"),
    ],
)
def test_numbers_without_a_meaning_are_refused(arguments, message):
    given = {"information": 1.0, "norm": 1.0, "delta": 0.1} | arguments
    with pytest.raises(ValueError, match=message):
        theory.confidence_width(given.pop("information"), **given)
