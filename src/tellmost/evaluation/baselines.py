r"""Ways to choose rows that people use, and that are no rule of ``select``.

They see the similarity :math:`s(x, a) = k(x, a) / \sqrt{k(x, x)\, k(a, a)}` of candidates and
targets, which is the cosine for inner products.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel, Linear
from tellmost.kernels.kernel import Points
from tellmost.shapes import Bool, Float, Int


def nearest_in_turn(similarity: Float[Tensor, "c m"], k: int) -> Int[Tensor, " k"]:
    """The nearest rows, where each target in turn takes its nearest row that is still there."""
    similarity = similarity.clone()
    picks = []
    for t in range(k):
        picks.append(similarity[:, t % similarity.shape[1]].argmax())
        similarity[picks[-1]] = -torch.inf
    return torch.stack(picks)


def facility_location(similarity: Float[Tensor, "c m"], k: int) -> Int[Tensor, " k"]:
    r"""Facility-location mutual information (FLQMI), by greedy choice.

    .. math:: f(X) = \sum_{a \in A} \max_{x \in X} s(x, a) + \sum_{x \in X} \max_{a \in A} s(x, a)

    Kothawade et al. 2022, with both terms of the same weight.
    """
    own = similarity.amax(dim=1)
    covered = similarity.new_zeros(similarity.shape[1])
    picks = []
    for _ in range(k):
        picks.append(((similarity - covered).clamp_(min=0.0).sum(dim=1) + own).argmax())
        own[picks[-1]] = -torch.inf
        covered = covered.maximum(similarity[picks[-1]])
    return torch.stack(picks)


def random_in_region(region: Bool[np.ndarray, " c"], k: int, seed: int) -> Int[np.ndarray, " k"]:
    """Rows of the region in random order, and then all others in random order."""
    order = np.random.default_rng(seed).permutation(len(region))
    return order[np.argsort(~region[order], kind="stable")][:k]


BY_SIMILARITY: dict[str, Callable[[Tensor, int], Tensor]] = {
    "nearest-in-turn": nearest_in_turn,
    "flqmi": facility_location,
}
IN_REGION = "random-in-region"
BASELINES = (*BY_SIMILARITY, IN_REGION)


def similarities(
    pool: Points, targets: Points, kernel: Kernel | None = None
) -> Float[Tensor, "n m"]:
    """The similarity s of rows and targets. A row of variance zero is like none."""
    kernel = kernel or Linear()
    lengths = (kernel.diagonal(points).sqrt() for points in (pool, targets))
    return (kernel.block(pool, targets) / torch.outer(*lengths)).nan_to_num_(nan=0.0)
