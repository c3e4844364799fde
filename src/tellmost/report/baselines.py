"""What other methods would have picked, under the same conditions."""

import warnings
from collections.abc import Iterator

import numpy as np

from tellmost.rules import Rule
from tellmost.selecting.replay import Recalled
from tellmost.shapes import Int

RANDOM_DRAWS = 10

BLIND_TO_NOISE = frozenset({"random", "cosine", "top-k", "mmr", "k-center", "k-means++"})
"""Rules that look at similarities or distances alone: other noise would change no pick."""


def draw_at_random(recalled: Recalled, k: int) -> Iterator[Int[np.ndarray, " k"]]:
    """So many random choices among what might have been picked; seeds 0, 1, ..."""
    rows = find_eligible(recalled)
    for seed in range(RANDOM_DRAWS):
        yield np.random.default_rng(seed).choice(rows, min(k, len(rows)), replace=False)


def find_eligible(recalled: Recalled) -> Int[np.ndarray, " c"]:
    """The candidates that were not observed before."""
    chosen = recalled.chosen
    rows = chosen.candidate_indices
    rows = np.arange(len(recalled.pool)) if rows is None else rows
    return np.setdiff1d(rows, chosen.observed_indices)


def pick_again(
    recalled: Recalled, rule: str | Rule, k: int, *, noise_factor: float = 1.0
) -> Int[np.ndarray, " k"]:
    """The picks of another rule, or of the same at other noise."""
    with warnings.catch_warnings():
        # such as of small noise: the caller asked for a page, not for this selection
        warnings.simplefilter("ignore", UserWarning)
        return recalled.select(rule, k, noise_factor=noise_factor, progress=False).indices
