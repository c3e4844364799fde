"""Where a selection could have stopped, by marginal gain per pick."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tellmost.report.levels import STOP_SHARE, explain_stop, suggest_stop

falls = st.lists(st.integers(0, 128), min_size=0, max_size=30)


@given(falls)
def test_the_stop_is_the_first_after_which_picks_gain_less_than_a_share_of_the_average(gains):
    k, total = len(gains), sum(gains)
    one_in = round(1 / STOP_SHARE)
    excess = [one_in * k * sum(gains[s:]) - (k - s) * total for s in range(1, k)]
    assume(0 not in excess)  # rounding would decide
    expected = next((s for s, value in enumerate(excess, 1) if value < 0), None)
    stop = suggest_stop(total - np.concatenate([[0.0], np.cumsum(gains)]))
    assert (stop.picks if stop else None) == expected


def test_a_curve_that_flattens_has_a_stop_where_it_does():
    gains = np.concatenate([np.full(10, 1.0), np.full(90, 0.001)])
    stop = suggest_stop(20.0 - np.concatenate([[0.0], np.cumsum(gains)]))
    assert stop.picks == 10
    assert stop.gain_after == pytest.approx(0.001)
    assert stop.gain_of_all == pytest.approx(10.09 / 100)
    assert stop.share_reached == pytest.approx(10 / 10.09)
    assert "You could stop at pick 10 of 100, with 99.1% of the fall" in explain_stop(stop, 100)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_a_curve_that_still_falls_has_none(rate):
    uncertainty = np.exp(-rate * np.linspace(0.0, 1.0, 50)) - np.linspace(0.0, 0.5, 50)
    assert suggest_stop(uncertainty) is None
    assert explain_stop(None, 49).startswith("No earlier stop is suggested")


def test_one_great_first_pick_stops_nothing():
    gains = np.concatenate([[1.0], np.full(40, 0.05)])
    assert suggest_stop(5.0 - np.concatenate([[0.0], np.cumsum(gains)])) is None


def test_nothing_to_gain_is_no_reason_to_stop():
    assert suggest_stop(np.ones(9)) is None
    assert suggest_stop(np.ones(1)) is None
