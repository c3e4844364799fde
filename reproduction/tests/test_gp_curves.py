"""Curves of all methods, and the comparisons that are made of them."""

import numpy as np
import pytest
from scripts import load_script

from tellmost_reproduction.gp import curves as comparing
from tellmost_reproduction.gp.curves import Curves, Run, count_runs, needed, pick, trace_curves
from tellmost_reproduction.gp.measures import MEASURES, Knowledge
from tellmost_reproduction.gp.methods import METHODS, methods_for
from tellmost_reproduction.gp.settings import SMOKE, Size, settings

SMALL = settings(SMOKE.side)
DENSE = load_script("benchmarks/dense_rounds.py")


@pytest.fixture(scope="module")
def curves():
    return trace_curves(SMALL["gp-fig3"], Size(SMOKE.side, 20, 3))


def test_only_random_differs_between_seeds(curves):
    for method in curves.methods:
        seeds = curves.seeds("mean_sd", method.key)
        assert len(seeds) == (3 if method.key == "random" else 1)
        error = curves.error("mean_sd", method.key)
        assert (error is None) == (method.key != "random")
    random = curves.seeds("mean_sd", "random")
    expected = random.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(curves.error("mean_sd", "random"), expected)
    assert (expected[1:] > 0).any()


def test_every_seed_has_an_error_of_its_own(curves):
    rmse = curves.seeds("rmse", "vtl")
    assert rmse.shape == (3, 21) and len(np.unique(rmse[:, 5])) == 3


def test_runs_are_counted_before_they_are_made(curves):
    assert count_runs(curves.setting, curves.size) == len(curves.runs) == 11 + 3


@pytest.mark.parametrize("name", SMALL)
def test_a_dense_posterior_in_every_round_makes_the_same_picks(name):
    setting = SMALL[name]
    for method in methods_for(setting):
        ours = pick(setting, method.rule, 20)
        np.testing.assert_array_equal(
            DENSE.pick_densely(setting, method.rule, 20), ours, method.key
        )


def test_points_may_be_observed_again():
    picks = pick(SMALL["gp-fig3"], METHODS[2].rule, 30)  # CTL returns to what correlates most
    assert len(set(picks.tolist())) < 30


# ---- comparisons, of curves that are known


def falling(*levels):
    """A run of each method that stays at these standard deviations, seed by seed."""
    methods = [METHODS[0], METHODS[7]]  # ITL, Random
    runs = []
    for method, values in zip(methods, levels, strict=True):
        for seed, value in enumerate(values):
            flat = np.full(5, float(value))
            known = Knowledge(-flat, -flat, flat, flat**2, flat, flat[None])
            runs.append(Run(method, seed, np.zeros(4, dtype=np.int64), known, 0.0))
    return Curves(SMALL["gp-fig3"], Size(20, 4, 3), tuple(methods), tuple(runs), 1)


def test_less_variance_wins_and_so_does_more_information():
    one = falling([0.1], [0.2, 0.21, 0.22])
    for measure in MEASURES:
        found = comparing.compare(one, measure, "itl", "random")
        assert found.is_better and comparing.share_ahead(one, measure, "itl", "random") == 1.0, (
            measure
        )
        assert comparing.compare(one, measure, "random", "itl").is_worse


def test_a_difference_within_chance_is_no_win():
    one = falling([0.19], [0.1, 0.2, 0.3])  # 0.2 ± 0.06
    found = comparing.compare(one, "mean_sd", "itl", "random")
    assert found.sign == 0 and found.means == pytest.approx((0.19, 0.2))


def test_equal_curves_do_not_beat_each_other():
    one = falling([0.1], [0.1])
    assert comparing.compare(one, "mean_sd", "itl", "random").sign == 0
    assert comparing.share_ahead(one, "mean_sd", "itl", "random") == 0.0


def test_the_spread_is_what_the_worst_lacks_to_the_best():
    one = falling([0.2], [0.3])
    assert comparing.spread(one, "mean_sd", ("itl", "random")) == pytest.approx(0.5)
    assert comparing.rank_methods(one, "mean_sd") == ["itl", "random"]
    assert comparing.rank_methods(one, "information") == ["itl", "random"]


def test_observations_are_counted_until_a_level_is_reached():
    curve = np.array([1.0, 0.5, 0.2, 0.1])
    assert needed(curve, 0.2) == 2 and needed(curve, 0.05) is None
