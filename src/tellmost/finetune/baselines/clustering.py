r"""k-means, and distances between points.

.. math:: \min_{c, z} \sum_i |x_i - c_{z_i}|^2

Lloyd's steps from a k-means++ start (Arthur and Vassilvitskii 2007). Its draws are those of
``tm.rules.KMeansPlusPlus``, without the posterior that ``tm.select`` keeps beside them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tellmost import numerics
from tellmost.posterior.nearness import squared_distance
from tellmost.posterior.problem import State
from tellmost.rows.sources import spans
from tellmost.rules import KMeansPlusPlus
from tellmost.shapes import Float, Int


def cluster(points: Float[Tensor, "n d"], count: int, seed: int) -> Int[Tensor, " n"]:
    """The number of each point's cluster, below ``count``; of few distinct points some are empty.

    Ends where no point changes its cluster, or after KMEANS_STEPS. Sums are products with a
    matrix of ones, so that they are made in the same order each time on a GPU too.
    """
    centers = points[draw_seeds(points, count, seed)]
    labels = nearest(points, centers)
    for _ in range(numerics.KMEANS_STEPS):
        centers = means(points, labels, centers)
        before, labels = labels, nearest(points, centers)
        if torch.equal(before, labels):
            break
    return labels


def draw_seeds(points: Float[Tensor, "n d"], count: int, seed: int) -> Int[Tensor, " c"]:
    """Rows to start from, likelier the farther they are from those before."""
    rule, lengths = KMeansPlusPlus(seed), points.square().sum(dim=1)
    rows, noise = torch.arange(len(points), device=points.device), torch.ones_like(lengths)
    apart, drawn = torch.full_like(lengths, torch.inf), rows[:0]
    for step in range(count):
        state = State(rows, step, noise, {"squared_distance_to_chosen": apart})
        pick = rule.gain(state).argmax()[None]  # stays on the device
        to_pick = squared_distance(points @ points[pick].T, lengths, lengths[pick])[:, 0]
        apart, drawn = torch.minimum(apart, to_pick), torch.cat([drawn, pick])
    return drawn


def nearest(points: Float[Tensor, "n d"], centers: Float[Tensor, "c d"]) -> Int[Tensor, " n"]:
    """The number of the nearest centre; the lowest of equals."""
    return (centers.square().sum(dim=1) - 2.0 * points @ centers.T).argmin(dim=1)


def means(
    points: Float[Tensor, "n d"], labels: Int[Tensor, " n"], centers: Float[Tensor, "c d"]
) -> Float[Tensor, "c d"]:
    """Of each cluster's points; an empty cluster's centre stays."""
    belongs = one_hot(labels, len(centers)).to(points)
    sizes = belongs.sum(dim=0)[:, None]
    return torch.where(sizes > 0, belongs.T @ points / sizes.clamp(min=1.0), centers)


def distances(x: Float[Tensor, "n d"], z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Euclidean, exactly 0 between a point and itself."""
    return squared_distance(x @ z.T, x.square().sum(dim=1), z.square().sum(dim=1)).sqrt()


def rows_of_distances(
    x: Float[Tensor, "n d"], z: Float[Tensor, "m d"]
) -> Iterator[tuple[int, int, Float[Tensor, "b m"]]]:
    """(first row, last row + 1, their distances to z), a few rows at a time."""
    for start, stop in spans(len(x), max(numerics.CHUNK_BYTES // (8 * max(len(z), 1)), 1)):
        yield start, stop, distances(x[start:stop], z)
