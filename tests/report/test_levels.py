"""What a pool can still tell about the targets, whatever number of picks was asked for."""

import numpy as np
import pytest

import tellmost as tm
from tellmost.report.levels import find_levels, still_to_tell


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 6)), rng.standard_normal((5, 6))


def test_what_the_pool_can_still_tell_is_what_the_other_rows_would_lower(rows):
    pool, targets = rows
    chosen = tm.select(pool, targets, 6, noise_std=0.7, floor=True, kernel="linear")
    K = pool @ pool.T + 0.49 * np.eye(40)
    told = targets @ pool.T
    left = (targets**2).sum(axis=1) - (told @ np.linalg.inv(K) * told).sum(axis=1)
    level, fall = still_to_tell(chosen, find_levels(chosen))
    assert level.value == pytest.approx(left.mean())
    assert fall == pytest.approx(chosen.uncertainty[-1] - left.mean())


def test_it_does_not_depend_on_how_many_picks_were_asked_for(rows):
    few, many = (
        tm.select(*rows, k, noise_ratio=1.0, floor=True, kernel="linear") for k in (5, 20)
    )
    assert still_to_tell(few, find_levels(few)) == still_to_tell(many[:5], find_levels(many[:5]))
    assert still_to_tell(few, find_levels(few))[1] > still_to_tell(many, find_levels(many))[1] > 0


def test_it_is_unknown_where_the_whole_pool_was_not_computed(rows):
    chosen = tm.select(*rows, 5, kernel="linear")
    assert still_to_tell(chosen, find_levels(chosen)) is None
