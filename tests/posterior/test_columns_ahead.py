"""Columns made ahead save passes and never change a pick."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from problems import clustered, seeds, targets_for
from tellmost import rules
from tellmost.selecting.loop import Eager

RULES = ["vtl", "itl", "itl-y", "mm-itl", "ctl", "undirected-itl", "uncertainty"]
RULES += ["undirected-vtl", "mmr", "k-center", "k-means++", "truvar", "local-uncertainty"]
KERNELS = {
    "linear": tm.kernels.Linear(),
    "covariance": tm.kernels.Linear(torch.diag(torch.linspace(0.2, 3.0, 24))),
    "gaussian": tm.kernels.Gaussian(4.0),
}


def assert_same(one: tm.Selection, other: tm.Selection) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.gains, other.gains, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(one.uncertainty, other.uncertainty, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rule", RULES)
def test_any_number_of_columns_ahead_gives_the_same_picks(rule, kernel):
    pool, targets = clustered(300, 24, 9)
    targets = targets_for(rule, pool, targets)

    def choose(width: int | None) -> tm.Selection:
        return tm.select(
            pool, targets, 30, rule=rule, kernel=KERNELS[kernel], noise_ratio=0.1,
            columns_ahead=width,
        )  # fmt: skip

    plain = choose(1)
    for width in (2, 7, 100, None):
        assert_same(choose(width), plain)


@given(
    seed=seeds,
    width=st.integers(2, 30),
    rule=st.sampled_from(RULES),
    ratio=st.sampled_from([1e-3, 0.1, 10.0]),
    replace=st.booleans(),
    is_wide=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_random_problems_are_picked_from_alike(seed, width, rule, ratio, replace, is_wide):
    rng = np.random.default_rng(seed)
    n, d, m = int(rng.integers(20, 60)), int(rng.integers(2, 12)), int(rng.integers(1, 20))
    pool, targets = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    if is_wide:  # near duplicates: the forecast has to expect that they fall together
        pool = np.repeat(pool[: n // 2], 2, axis=0) + 1e-3 * rng.standard_normal((n // 2 * 2, d))
    targets = targets_for(rule, pool, targets)
    options = {
        "rule": rule,
        "kernel": "linear",
        "noise_ratio": ratio,
        "replace": replace,
        "groups": np.arange(len(pool)) % 7,
        "max_per_group": 3,
    }
    if not rules.get(rule).is_signed:
        options |= {"cost": rng.uniform(0.5, 2.0, len(pool)), "budget": 9.0}
    else:
        options |= {"k": 12}
    plain = tm.select(pool, targets, columns_ahead=1, **options)
    assert_same(tm.select(pool, targets, columns_ahead=width, **options), plain)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rule", RULES[:-1])  # local uncertainty leaves ties
def test_a_forecast_that_sees_all_rows_is_right(rule, kernel, monkeypatch):
    pool, targets = clustered(40, 24, 9)
    targets, forecasts, expected = targets_for(rule, pool, targets), [], Eager.expected

    def noted(*arguments) -> list[int]:
        forecasts.append(expected(*arguments))
        return forecasts[-1]

    monkeypatch.setattr(Eager, "expected", noted)
    options = {"kernel": KERNELS[kernel], "noise_ratio": 0.1, "columns_ahead": 10}
    picks = tm.select(pool, targets, 30, rule=rule, **options).indices.tolist()
    assert len(forecasts) <= 5 or (rule, kernel) == ("undirected-vtl", "gaussian")  # all pairs
    for rows in forecasts:
        start = picks.index(rows[0])
        assert rows == picks[start : start + len(rows)]


@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl", "mmr", "k-center"])
@pytest.mark.parametrize("kernel", [None, tm.kernels.Gaussian(4.0)])
@pytest.mark.parametrize("ratio", [0.01, 1.0])
def test_passes_are_at_most_a_third_of_the_picks(rule, kernel, ratio):
    pool, targets = clustered(1_000, 64, 30)
    chosen = tm.select(
        pool, targets, 90, rule=rule, kernel=kernel, noise_ratio=ratio, columns_ahead=16
    )
    assert chosen.settings["passes"] <= 90 / 3
    assert chosen.settings["columns_ahead"] == 16


def test_without_columns_ahead_every_pick_is_a_pass():
    pool, targets = clustered(300, 8, 5)
    chosen = tm.select(pool, targets, 20, columns_ahead=1, kernel="linear")
    assert chosen.settings["passes"] == 20  # the first fills the values, the last pick needs none


def test_the_default_looks_ahead():
    pool, targets = clustered(2_000, 32, 10)
    chosen = tm.select(pool, targets, 100, kernel="linear")
    assert chosen.settings["columns_ahead"] > 1
    assert chosen.settings["passes"] < 50


@pytest.mark.parametrize(
    ("rule", "kernel", "products"),
    [("itl", None, 2), ("uncertainty", None, 1), ("itl", tm.kernels.Gaussian(4.0), 1)],
)
def test_the_default_makes_the_number_of_columns_at_which_a_pick_costs_least(
    rule, kernel, products
):
    """Reading the rows costs as much as eleven products, and a forecast reaches 96 picks."""
    pool, targets = clustered(2_000, 32, 10)
    chosen = tm.select(pool, targets, 100, rule=rule, kernel=kernel, device="cpu")
    columns = np.arange(1, 101)
    cost = (1 + products * columns / 11.0) * (1 / columns + 1 / 96.0)
    assert cost[chosen.settings["columns_ahead"] - 1] < 1.01 * cost.min()
    assert chosen.settings["passes"] < 17


@pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)
@pytest.mark.parametrize("bad", [0, -3, 2.5, "many", True])
def test_columns_ahead_is_a_whole_number(bad):
    with pytest.raises((TypeError, ValueError), match="columns_ahead must be a"):
        tm.select(np.eye(3), np.eye(3), 1, columns_ahead=bad, kernel="linear")
