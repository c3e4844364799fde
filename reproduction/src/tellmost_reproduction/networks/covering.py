r"""ProbCover: balls that cover most candidates. TypiClust: typical points of unlabelled clusters.

Both find clusters by k-means, from a k-means++ start (Arthur and Vassilvitskii 2007):

.. math:: \min_{c, z} \sum_i |x_i - c_{z_i}|^2
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tellmost import numerics
from tellmost.finetune.baselines import read_logits
from tellmost.finetune.embedding import Embedding, check_inner_products
from tellmost.finetune.layers import LastLayer
from tellmost.finetune.strategies import RoundInputs, check_count
from tellmost.posterior.nearness import squared_distance
from tellmost.posterior.problem import State
from tellmost.rows.sources import spans
from tellmost.rules import KMeansPlusPlus
from tellmost.shapes import Bool, Float, Int

KMEANS_STEPS = 50
"""k-means takes so many steps at most. A thousand points settled after 1 to 25. The clusters of a
few points between two change last."""

SMALL_CLUSTER = 5
"""Hacohen et al. take clusters of so many points or fewer for outliers; here they come last."""


@dataclass(frozen=True)
class ProbCover:
    r"""Prefer the point whose ball holds most candidates that no labelled point's ball holds.

    .. math:: |B_\delta(x) \setminus \bigcup_{s \in D} B_\delta(s)|, \qquad
        B_\delta(x) = \{z : |x - z| < \delta\}

    Yehuda et al. 2022, for points at unit length; D holds what was labelled and the batch so far.
    The radius is the largest for which a share ``purity`` of the balls have a single label. The
    labels are the clusters of k-means, as many as the model has outputs, or ``clusters``:

    .. math:: \delta^* = \max\{\delta : P(B_\delta(x) \text{ is pure}) \ge \alpha\}

    A ball is pure up to the nearest point of another cluster, so the radius is a quantile of these
    distances, and needs no search. Equal counts go to the lowest position; once all candidates are
    covered, all counts are 0. Memory is a byte for each pair of candidates.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    purity: float = 0.95
    clusters: int | None = None
    radius: float | None = None
    name: ClassVar[str] = "probcover"

    def __post_init__(self) -> None:
        if not 0 < self.purity <= 1:
            raise ValueError(f"ProbCover(purity) must be in (0, 1]; got {self.purity!r}.")
        if self.clusters is not None and self.clusters < 2:
            raise ValueError(
                f"ProbCover(clusters) must be 2 or more, or None for the number of the model's "
                f"outputs; got {self.clusters!r}. With one, balls of any radius are pure."
            )
        if self.radius is not None and not self.radius > 0:
            raise ValueError(f"ProbCover(radius) must be positive; got {self.radius!r}.")

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        points, known = read_directions(inputs, self.embedding, "ProbCover")
        radius = self._radius(inputs, points)
        is_covered = torch.zeros(len(points), dtype=torch.bool, device=points.device)
        for start, stop, apart in rows_of_distances(points, known):
            is_covered[start:stop] = (apart < radius).any(dim=1)
        return cover(find_balls(points, radius), is_covered, k)

    def _radius(self, inputs: RoundInputs, points: Float[Tensor, "n d"]) -> float:
        if self.radius is not None:
            return self.radius
        count = self.clusters or read_logits(inputs, "candidates", "ProbCover").shape[1]
        labels = cluster(points, min(count, len(points)), inputs.seed)
        return pure_radius(points, labels, self.purity)


def read_directions(
    inputs: RoundInputs, embedding: Embedding, name: str
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "l p"]]:
    """Candidates and what was labelled, at unit length; points that are zero stay zero."""
    found: list[Tensor] = []
    for part in ("candidates", "labelled") if len(inputs.labelled) else ("candidates",):
        embedded = inputs.embed(part, embedding)
        check_inner_products(name, embedding, embedded.kernel)
        rows = torch.as_tensor(embedded.points).to(torch.float64)
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        found.append(rows / length.where(length > 0, 1.0))
    return found[0], found[1] if len(found) == 2 else found[0][:0]


def pure_radius(points: Float[Tensor, "n d"], labels: Int[Tensor, " n"], purity: float) -> float:
    """The largest radius at which this share of the balls holds one label; it may be infinite."""
    to_others = points.new_empty(len(points))
    for start, stop, apart in rows_of_distances(points, points):
        is_alike = labels[start:stop, None] == labels
        to_others[start:stop] = apart.masked_fill_(is_alike, torch.inf).amin(dim=1)
    shares = torch.arange(1, len(points) + 1).to(points) / len(points)
    radii = to_others.sort(descending=True).values  # the largest for each of these shares
    return float(radii[shares >= purity][0])


def find_balls(points: Float[Tensor, "n d"], radius: float) -> Bool[Tensor, "n n"]:
    """Mark the points that lie in the ball of each point."""
    n = len(points)
    balls = torch.empty(n, n, dtype=torch.bool, device=points.device)
    for start, stop, apart in rows_of_distances(points, points):
        balls[start:stop] = apart < radius
    return balls


def cover(
    balls: Bool[Tensor, "n n"], is_covered: Bool[Tensor, " n"], k: int
) -> Int[np.ndarray, " k"]:
    """The greedy cover: each pick is the ball that holds most of what is not covered yet."""
    counts = (balls & ~is_covered).sum(dim=1)
    picks: list[int] = []
    for _ in range(k):
        counts[picks] = -1  # below any count
        pick = int((counts == counts.max()).nonzero()[0])
        new = (balls[pick] & ~is_covered).nonzero()[:, 0]
        counts -= balls[:, new].sum(dim=1)
        is_covered = is_covered | balls[pick]
        picks.append(pick)
    return np.array(picks, dtype=np.int64)


@dataclass(frozen=True)
class TypiClust:
    r"""Prefer the most typical point of each of the largest clusters without a label.

    .. math:: \Big(\frac1K \sum_{z \in \mathrm{NN}_K(x)} |x - z|\Big)^{-1}

    Hacohen et al. 2022. k-means makes clusters of candidates and labelled points together, at unit
    length: as many as there are labels and picks, ``max_clusters`` at most. The clusters take
    turns; those with fewest labels come first, and of these the largest. Each gives its unlabelled
    point of highest typicality, by its K = ``neighbors`` nearest others in the cluster, or half of
    a small cluster. The authors leave out clusters of five points or fewer; here these come when
    all others are empty, so that k points are always found. (The authors' code averages squared
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

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        points, known = read_directions(inputs, self.embedding, "TypiClust")
        both = torch.cat([points, known])
        count = min(len(known) + k, self.max_clusters, len(both))
        labels = cluster(both, count, inputs.seed)
        return choose_typical(points, labels, k, self.neighbors)


def choose_typical(
    points: Float[Tensor, "n d"], labels: Int[Tensor, " nl"], k: int, most: int
) -> Int[np.ndarray, " k"]:
    """Picks from large clusters, and from small ones when these are empty.

    ``labels`` are those of the points and, behind them, of what was labelled.
    """
    of_points, of_known = labels[: len(points)], labels[len(points) :]
    sizes = torch.bincount(labels).tolist()
    known = torch.bincount(of_known, minlength=len(sizes)).tolist()
    order = sorted(range(len(sizes)), key=lambda c: (known[c], -sizes[c]))
    picks: list[int] = []
    for is_small in (False, True):
        some = [c for c in order if (sizes[c] <= SMALL_CLUSTER) == is_small]
        picks += take_turns(points, of_points, some, k - len(picks), most)
    return np.array(picks, dtype=np.int64)


def take_turns(
    points: Float[Tensor, "n d"], labels: Int[Tensor, " n"], order: list[int], k: int, most: int
) -> list[int]:
    """The most typical point of each cluster in turn, until there are k or all are empty."""
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
    """The mean distance to the nearest others, which is one over typicality; 0 without others."""
    if neighbors == 0:
        return points.new_zeros(len(points))
    found = points.new_empty(len(points))
    for start, stop, apart in rows_of_distances(points, points):
        apart.diagonal(start).fill_(torch.inf)  # a point is no neighbour of itself
        found[start:stop] = apart.topk(neighbors, dim=1, largest=False).values.mean(dim=1)
    return found


def cluster(points: Float[Tensor, "n d"], count: int, seed: int) -> Int[Tensor, " n"]:
    """The number of each point's cluster, below ``count``; some may be empty.

    It ends when no point changes its cluster, or after KMEANS_STEPS. Sums are products with a
    matrix of ones, so that a GPU makes them in the same order each time.
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
    """Rows to start from. They are likelier the farther they are from those before."""
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
    """The number of each point's nearest centre; the lowest of equals."""
    return (centers.square().sum(dim=1) - 2.0 * points @ centers.T).argmin(dim=1)


def means(
    points: Float[Tensor, "n d"], labels: Int[Tensor, " n"], centers: Float[Tensor, "c d"]
) -> Float[Tensor, "c d"]:
    """The mean of each cluster's points; the centre of an empty cluster stays."""
    belongs = one_hot(labels, len(centers)).to(points)
    sizes = belongs.sum(dim=0)[:, None]
    return torch.where(sizes > 0, belongs.T @ points / sizes.clamp(min=1.0), centers)


def rows_of_distances(
    x: Float[Tensor, "n d"], z: Float[Tensor, "m d"]
) -> Iterator[tuple[int, int, Float[Tensor, "b m"]]]:
    """(first row, last row + 1, their distances to z), a few rows at a time.

    The distance between a point and itself is exactly 0.
    """
    of_z = z.square().sum(dim=1)
    for start, stop in spans(len(x), max(numerics.CHUNK_BYTES // (8 * max(len(z), 1)), 1)):
        some = x[start:stop]
        of_some = some.square().sum(dim=1)
        yield start, stop, squared_distance(some @ z.T, of_some, of_z).sqrt()
