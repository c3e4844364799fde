r"""What baselines ask of a scene: logits, points, directions.

k-means, and distances between points.

.. math:: \min_{c, z} \sum_i |x_i - c_{z_i}|^2

Lloyd's steps from a k-means++ start (Arthur and Vassilvitskii 2007). Its draws are those of
``tm.rules.KMeansPlusPlus``, without the posterior that ``tm.select`` keeps beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tellmost import numerics
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.layers import Outputs
from tellmost.finetune.strategies import Part, Scene
from tellmost.kernels import Kernel, Linear
from tellmost.posterior.nearness import squared_distance
from tellmost.posterior.problem import State
from tellmost.rows.sources import spans
from tellmost.rules import KMeansPlusPlus
from tellmost.shapes import Float, Int

KMEANS_STEPS = 50
"""Lloyd's steps at most: a thousand points settled after 1 to 25, sooner the more clusters they
had, and what changes last is the cluster of a few points between two."""


@dataclass(frozen=True, eq=False)
class Points:
    """In float64, on the model's device, with the kernel that compares them."""

    rows: Float[Tensor, "n p"]
    kernel: Kernel


def check_count(scene: Scene, k: int) -> None:
    """k candidates can be chosen."""
    n = len(scene.candidates)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        raise ValueError(
            f"k must be a whole number from 1 to {n}, the number of candidates; got {k!r}. Draw "
            f"more candidates, or choose fewer."
        )


def read_logits(scene: Scene, part: Part, name: str) -> Float[Tensor, "n c"]:
    """The outputs of a classifier, for a baseline of this name."""
    logits = torch.as_tensor(scene.embed(part, Outputs()).points).to(torch.float64)
    if logits.shape[1] < 2:
        raise ValueError(
            f"{name} needs a classifier with an output for each of two classes or more; the model "
            f"has {logits.shape[1]}. Of one output z make two, 0 and z."
        )
    return logits


def read_points(scene: Scene, part: Part, embedding: Embedding) -> Points:
    embedded = scene.embed(part, embedding)
    rows = torch.as_tensor(embedded.points).to(torch.float64)
    return Points(rows, Linear() if embedded.kernel is None else embedded.kernel)


def read_directions(
    scene: Scene, part: Part, embedding: Embedding, name: str
) -> Float[Tensor, "n p"]:
    """Points at unit length, where a baseline is about Euclidean distances; zeros stay zeros."""
    embedded = scene.embed(part, embedding)
    if embedded.kernel is not None:
        raise ValueError(
            f"{name} needs points that are compared by inner products; those of {embedding!r} "
            f"have a kernel of their own. Materialise or project them: "
            f"LossGradients(materialize=True), Projected(...)."
        )
    rows = torch.as_tensor(embedded.points).to(torch.float64)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length.where(length > 0, 1.0)


def find_largest(scores: Float[Tensor, " n"], k: int) -> Int[np.ndarray, " k"]:
    """Positions of the k largest scores, the best first; the lowest position of equals."""
    return scores.sort(descending=True, stable=True).indices[:k].cpu().numpy()


def has_labelled(scene: Scene) -> bool:
    """Whether anything was labelled before, inside the task or outside."""
    return len(scene.labelled) > 0


def cluster(points: Float[Tensor, "n d"], count: int, seed: int) -> Int[Tensor, " n"]:
    """The number of each point's cluster, below ``count``; of few distinct points some are empty.

    Ends where no point changes its cluster, or after KMEANS_STEPS. Sums are products with a
    matrix of ones, so that they are made in the same order each time on a GPU too.
    """
    centers = points[draw_seeds(points, count, seed)]
    labels = nearest(points, centers)
    for _ in range(KMEANS_STEPS):
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
