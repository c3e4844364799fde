"""TypiClust: typical points of uncovered clusters."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.activations import LastLayer
from tellmost.finetune.baselines.asking import check_count, has_labelled, read_directions
from tellmost.finetune.baselines.clustering import cluster, rows_of_distances
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Scene
from tellmost.shapes import Float, Int

SMALL_CLUSTER = 5
"""Clusters of so many points or fewer are outliers to Hacohen et al., and come last."""


@dataclass(frozen=True)
class TypiClust:
    r"""Prefer the most typical point of each of the largest clusters without a label.

    .. math:: \Big(\frac1K \sum_{z \in \mathrm{NN}_K(x)} |x - z|\Big)^{-1}

    Hacohen et al. 2022. Candidates and labelled points together, at unit length, are clustered by
    k-means into as many clusters as there are labels and picks, ``max_clusters`` at most. Clusters
    take turns, those with fewest labels first, of these the largest. Each gives its unlabelled
    point of highest typicality: K = ``neighbors`` others of the cluster count, or half of a small
    cluster. Clusters of five points or fewer, which the authors leave out, come only when all
    others are empty, so that k points are always found. (The authors' code averages squared
    distances; this is the formula of their paper.)
    """

    embedding: Embedding = field(default_factory=LastLayer)
    neighbors: int = 20
    max_clusters: int = 500
    name: ClassVar[str] = "typiclust"

    def __post_init__(self) -> None:
        if self.neighbors < 1 or self.max_clusters < 1:
            raise ValueError(
                f"TypiClust(neighbors, max_clusters) must be 1 or more each; got "
                f"{self.neighbors!r} and {self.max_clusters!r}."
            )

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        points = read_directions(scene, "candidates", self.embedding, "TypiClust")
        known = points[:0]
        if has_labelled(scene):
            known = read_directions(scene, "labelled", self.embedding, "TypiClust")
        both = torch.cat([points, known])
        count = min(len(known) + k, self.max_clusters, len(both))
        labels = cluster(both, count, scene.seed)
        return choose_typical(points, labels, k, self.neighbors)


def choose_typical(
    points: Float[Tensor, "n d"], labels: Int[Tensor, " nl"], k: int, most: int
) -> Int[np.ndarray, " k"]:
    """From large clusters, and when these are empty from small ones; labelled points are last."""
    of_points, of_known = labels[: len(points)], labels[len(points) :]
    large, small = rank_clusters(labels, of_known, int(labels.max()) + 1)
    picks = take_turns(points, of_points, large, k, most)
    picks += take_turns(points, of_points, small, k - len(picks), most)
    return np.array(picks, dtype=np.int64)


def rank_clusters(
    labels: Int[Tensor, " n"], of_known: Int[Tensor, " o"], count: int
) -> tuple[list[int], list[int]]:
    """Numbers of the large clusters and of the small ones, by labels within, then by size."""
    sizes = torch.bincount(labels, minlength=count).tolist()
    known = torch.bincount(of_known, minlength=count).tolist()
    order = sorted(range(count), key=lambda c: (known[c], -sizes[c]))
    return (
        [c for c in order if sizes[c] > SMALL_CLUSTER],
        [c for c in order if sizes[c] <= SMALL_CLUSTER],
    )


def take_turns(
    points: Float[Tensor, "n d"], labels: Int[Tensor, " n"], order: list[int], k: int, most: int
) -> list[int]:
    """The most typical of each cluster in turn, until there are k or all are empty."""
    members = [(labels == number).nonzero()[:, 0] for number in order]
    picks: list[int] = []
    while len(picks) < k and any(map(len, members)):
        for turn, rows in enumerate(members):
            if len(rows) and len(picks) < k:
                best = int(mean_distance(points[rows], min(most, len(rows) // 2)).argmin())
                picks.append(int(rows[best]))
                members[turn] = torch.cat([rows[:best], rows[best + 1 :]])
    return picks


def mean_distance(points: Float[Tensor, "n d"], neighbors: int) -> Float[Tensor, " n"]:
    """To the nearest others, one over typicality; 0 where there are none."""
    if neighbors == 0:
        return points.new_zeros(len(points))
    found = points.new_empty(len(points))
    for start, stop, apart in rows_of_distances(points, points):
        apart.diagonal(start).fill_(torch.inf)  # a point is no neighbour of itself
        found[start:stop] = apart.topk(neighbors, dim=1, largest=False).values.mean(dim=1)
    return found
