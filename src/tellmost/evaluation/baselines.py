r"""Ways to choose rows that people use, and that are no rule of ``select``.

They look at the cosine similarity s of rows as they are.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tellmost.shapes import Float, Int


def nearest_in_turn(
    pool: Float[Tensor, "n d"], targets: Float[Tensor, "m d"], k: int
) -> Int[Tensor, " k"]:
    """The nearest rows, where each target in turn takes its nearest row that is still there."""
    similarity = cosines(pool, targets)
    picks = []
    for t in range(k):
        picks.append(similarity[:, t % len(targets)].argmax())
        similarity[picks[-1]] = -torch.inf
    return torch.stack(picks)


def facility_location(
    pool: Float[Tensor, "n d"], targets: Float[Tensor, "m d"], k: int
) -> Int[Tensor, " k"]:
    r"""Facility-location mutual information (FLQMI), by greedy choice.

    .. math:: f(X) = \sum_{a \in A} \max_{x \in X} s(x, a) + \sum_{x \in X} \max_{a \in A} s(x, a)

    Kothawade et al. 2022, with both terms of the same weight.
    """
    similarity = cosines(pool, targets)
    own = similarity.amax(dim=1)
    covered = similarity.new_zeros(len(targets))
    picks = []
    for _ in range(k):
        picks.append(((similarity - covered).clamp_(min=0.0).sum(dim=1) + own).argmax())
        own[picks[-1]] = -torch.inf
        covered = covered.maximum(similarity[picks[-1]])
    return torch.stack(picks)


def cosines(pool: Float[Tensor, "n d"], targets: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    return normalize(pool, dim=1) @ normalize(targets, dim=1).T
