"""The settings are those of the paper: their grids, their counts, their priors."""

import numpy as np
import pytest

from tellmost_reproduction.gp import settings as module
from tellmost_reproduction.gp.measures import rank
from tellmost_reproduction.gp.settings import FULL, SMOKE, check_counts, settings

ALL = settings()


def test_the_grid_has_the_papers_coordinates():
    axis = ALL["gp-fig3"].axis
    assert axis[[0, 1, -1]].tolist() == [-3.0, -2.88, 2.88] and len(axis) == 50
    sparse = ALL["gp-sparse"].axis
    assert sparse[[0, 1, -1]].tolist() == [-10.0, -9.6, 9.6] and len(sparse) == 50
    assert (FULL.rounds, FULL.seeds) == (500, 10)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("gp-fig3", (2500, 289, 289)),
        ("gp-laplace", (2500, 289, 289)),
        ("gp-extrapolation", (1089, 208, 36)),
        ("gp-extrapolation-laplace", (1089, 208, 36)),
        ("gp-heteroscedastic", (2500, 289, 289)),
        ("gp-sparse", (2500, 25, 25)),
    ],
)
def test_the_spaces_have_the_papers_counts(name, counts):
    setting = ALL[name]
    found = len(setting.samples), len(setting.targets), int(setting.is_target.sum())
    assert found == counts
    assert setting.has_all_targets == (counts[1] == counts[2])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gp-fig3", 51), ("gp-extrapolation", 48), ("gp-sparse", 25), ("gp-laplace", 289)],
)
def test_the_covariance_of_the_targets_has_this_rank_at_the_stated_tolerance(name, expected):
    assert rank(ALL[name]) == expected


def test_the_noise_is_loud_in_the_square_alone():
    setting = ALL["gp-heteroscedastic"]
    inside = (np.abs(setting.pool) <= 0.5).all(axis=1)
    assert inside.sum() == 81
    np.testing.assert_array_equal(setting.noise_std, np.where(inside, 1.0, 0.1))
    np.testing.assert_array_equal(setting.noise, setting.noise_std)
    assert ALL["gp-fig3"].noise == 0.1


def test_functions_are_drawn_from_the_prior():
    setting = settings(8)["gp-fig3"]
    draws = np.stack([setting.draw(seed) for seed in range(4_000)])
    squared = ((setting.domain[:, None] - setting.domain[None]) ** 2).sum(axis=-1)
    covariance = draws.T @ draws / len(draws)
    assert np.abs(covariance - np.exp(-0.5 * squared)).max() < 0.1  # five standard errors
    np.testing.assert_array_equal(setting.draw(3), setting.draw(3))


def test_a_grid_of_other_counts_is_no_setting_of_the_paper():
    with pytest.raises(RuntimeError, match=r"\(400, 49, 49\) points .*\(2500, 289, 289\)"):
        check_counts(settings(SMOKE.side)["gp-fig3"])


def test_boxes_include_their_ends():
    points = np.array([[-1.0, 1.0], [1.0, 1.0], [1.0001, 0.0], [0.0, -1.0001]])
    assert module.inside(points, module.SQUARE).tolist() == [True, True, False, False]
