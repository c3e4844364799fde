"""Baselines that are no rule, beside the sums that define them."""

import numpy as np
import torch

from tellmost.evaluation.runs import (
    facility_location,
    nearest_in_turn,
    random_in_region,
    similarities,
)


def cosines(seed=0, n=25, m=4):
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    X[0] = 0.0
    return similarities(torch.from_numpy(X), torch.from_numpy(A)), X, A


def test_similarities_are_cosines_for_inner_products():
    S, X, A = cosines()
    lengths = np.linalg.norm(X[1:], axis=1)[:, None] * np.linalg.norm(A, axis=1)
    np.testing.assert_allclose(S[1:], X[1:] @ A.T / lengths)
    assert not S[0].any()


def test_each_target_in_turn_takes_its_nearest_row():
    S, _, _ = cosines()
    picks, left = [], set(range(25))
    for t in range(9):
        picks.append(max(left, key=lambda row: S[row, t % 4]))
        left.remove(picks[-1])
    assert nearest_in_turn(S, 9).tolist() == picks


def test_facility_location_adds_the_row_that_raises_its_sum_most():
    S, _, _ = cosines(1)

    def value(rows):
        nearest = np.maximum(S[rows].numpy().max(axis=0), 0.0)
        return nearest.sum() + S[rows].numpy().max(axis=1).sum()

    picks = []
    for _ in range(6):
        left = [row for row in range(25) if row not in picks]
        picks.append(max(left, key=lambda row: value([*picks, row])))
    assert facility_location(S, 6).tolist() == picks


def test_random_in_region_takes_the_region_first():
    region = np.zeros(50, dtype=bool)
    region[[3, 17, 41]] = True
    picks = random_in_region(region, 8, 0).tolist()
    assert set(picks[:3]) == {3, 17, 41} and len(set(picks)) == 8
    assert picks != random_in_region(region, 8, 1).tolist()
