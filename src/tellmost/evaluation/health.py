r"""The health of a pool, from its rows alone: lengths, copies, directions.

Equal rows are found by 128 bits of each: two sums, modulo 2^64, as in ``fingerprint``:

.. math:: r_i = \sum_j \mathrm{fold}(b_{ij})\, w_j

with the bits b of the float64 values and odd factors w. The second fold brings the exponent down
to the lowest bits, which the first leaves zero for whole numbers.

Directions come from the mean and the second moment of the rows, which are added up block by block.
With :math:`M = \frac1n \sum_i x_i x_i^\top` the effective rank is :math:`(\mathrm{tr} M)^2 /
|M|_F^2`, the same as :math:`(\mathrm{tr} K)^2 / |K|_F^2` of the inner products of all rows. It is
d for isotropic rows, 1 for equal ones, 0 for zeros. Principal directions are the eigenvectors of
:math:`M - \mu\mu^\top`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.evaluation.statistics import bullet, count_of, entry, number, percent
from tellmost.kernels.linear import feature_form
from tellmost.rows.pool import Normalization, Pool, column_factors, shifted
from tellmost.rows.sources import spans
from tellmost.rules import Random
from tellmost.selecting.arguments import Meaning, check_data
from tellmost.selecting.data import SelectionData
from tellmost.shapes import Float, Int

NEAR_DUPLICATE = 0.99
"""Rows whose cosine reaches this are near-duplicates: the angle is 8 degrees, so a second
observation almost repeats the first. Copies of a text in other case or punctuation lie above.
Different sentences about one thing lie below for the usual embeddings."""

HEALTH_WORK = {"cpu": 1e11, "cuda": 1e13}
"""Each part of an examination may take so many floating-point operations, which is a few seconds.
Near-duplicates and directions come from all rows, or from as many as this allows."""

COSINE_WORK = 128  # writing and reading a cosine takes as long as so many operations of a product

LEAST_EXAMINED = 256
"""At least so many rows are compared with all others, however large the pool is. A share of them
has a standard error of 3 points at most."""

NORMS_DIFFER = 2.0  # so many times the length means four times the prior variance: worth a remark
SHARED_DIRECTION = 0.5  # rows are not centred with more of their squared length along their mean
MANY_NEAR_DUPLICATES = 0.05  # a larger share is worth a remark
FEW_DIRECTIONS = 5.0  # a lower effective rank of ten times as many features is worth a remark

UNIT = Normalization(to_unit_length=True)


@dataclass(frozen=True)
class Norms:
    """The lengths of the rows that a selection sees."""

    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    largest: float
    least_above_zero: float  # 0 if all rows are zero
    zero_rows: int

    @classmethod
    def of(cls, lengths: np.ndarray) -> "Norms":
        above = lengths[lengths > 0]
        a, b, c, d, e = np.quantile(lengths, [0, 0.25, 0.5, 0.75, 1]).tolist()
        least_above = float(above.min()) if len(above) else 0.0
        return cls(a, b, c, d, e, least_above, len(lengths) - len(above))

    @property
    def spread(self) -> float:
        """The longest row over the shortest that is not zero."""
        return self.largest / self.least_above_zero if self.largest > 0 else 1.0


@dataclass(frozen=True, repr=False)
class Health:
    """A pool in numbers. Each is about all rows unless a size beside it says otherwise.

    Duplicates are counted among the rows as given. All else is about the rows after ``normalize``,
    as a selection sees them.
    """

    rows: int
    features: int
    dtype: str
    normalize: str | None
    norms: Norms
    duplicates: int  # rows that equal an earlier one
    near_duplicates: float  # share of rows with another of cosine NEAR_DUPLICATE or more
    near_duplicates_from: int  # rows that were compared with all others
    effective_rank: float  # (tr M)^2 / |M|^2 of the second moment M
    share_along_mean: float  # |E x|^2 / E |x|^2
    directions_from: int  # rows that the second moment comes from
    mean: np.ndarray  # (d,)
    principal_directions: np.ndarray  # (2, d) about the mean; zero where there is none
    explained: tuple[float, float]  # their shares of the variance about the mean
    is_linear: bool = True  # whether the kernel is an inner product, so that angles count

    @property
    def remarks(self) -> list[str]:
        """Sentences about what is unusual in the pool."""
        return list(remarks_on(self))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Names, with a text about each."""
        norms = self.norms
        normalized = "" if self.normalize is None else f", normalised: {self.normalize}"
        yield "pool", f"{self.rows:,} rows of {self.features:,} {self.dtype}{normalized}"
        yield (
            "norms",
            f"{number(norms.least)} to {number(norms.largest)}, half of them from "
            f"{number(norms.lower_quartile)} to {number(norms.upper_quartile)}, median "
            f"{number(norms.median)}",
        )
        yield (
            "duplicates",
            f"{count_of(self.duplicates, 'row equals', 'rows equal')} an earlier one",
        )
        yield (
            "near-duplicates",
            f"{percent(self.near_duplicates)} of rows have another with a cosine of "
            f"{NEAR_DUPLICATE} or more{sampled(self.near_duplicates_from, self.rows)}",
        )
        yield (
            "effective rank",
            f"{number(self.effective_rank)} of {self.features:,}: (tr M)²/|M|² of the second "
            f"moment{sampled(self.directions_from, self.rows)}",
        )
        yield (
            "the mean row",
            f"has {percent(self.share_along_mean)} of the squared length; 0% for centred rows",
        )

    def project(self, rows: Float[Tensor, "b d"]) -> Float[np.ndarray, "b 2"]:
        """The places of normalised rows on the two principal directions, for a map."""
        return (rows.cpu().numpy() - self.mean) @ self.principal_directions.T

    def describe(self) -> str:
        """The findings as text for a terminal."""
        lines = [entry(name, text, 17) for name, text in self.facts()]
        return "\n".join([*lines, *map(bullet, self.remarks)])

    __repr__ = describe

    def to_dict(self) -> dict[str, Any]:
        """The findings for machines, ready for JSON. The vectors are left out."""
        left_out = ("mean", "principal_directions", "norms", "explained")
        plain = {name: value for name, value in vars(self).items() if name not in left_out}
        return plain | {
            "norms": dict(vars(self.norms)),
            "near_duplicate_cosine": NEAR_DUPLICATE,
            "explained": list(self.explained),
            "remarks": self.remarks,
        }


def check_pool(pool: Any, targets: Any, meaning: Meaning, **options: Any) -> SelectionData:
    """The pool, not read yet, with all the errors that ``select`` would give."""
    if isinstance(pool, np.ndarray | Tensor) and pool.ndim == 1:
        raise ValueError(
            f"pool must have rows of features to be examined; got shape {tuple(pool.shape)}. Row "
            f"numbers of a Precomputed kernel have no features; a single feature is (n, 1)."
        )
    return check_data(pool, targets, replace(meaning, targets_are="all"), Random(), **options)


def look(data: SelectionData, rng: np.random.Generator) -> Health:
    """Measure lengths, copies and directions of the rows in one pass."""
    pool = data.pool
    n, d = len(pool), pool.dimension
    work = HEALTH_WORK.get(pool.device.type, HEALTH_WORK["cuda"])
    # as many as the work and the room in memory allow, to compare them with all others
    most = min(int(work / (n * (2 * d + COSINE_WORK))), data.plan.kept // (8 * d))
    compared = draw_rows(rng, n, max(most, LEAST_EXAMINED))
    # as many as the work allows, but enough to see all directions
    counted = draw_rows(rng, n, max(int(work / (2 * d**2)), 4 * d))
    lengths, bits, cosines, moments = measure(pool, compared, counted)
    directions, explained = moments.principal()
    of_rows = bits.cpu().numpy()
    ordered = of_rows[np.lexsort(of_rows.T)]  # 128 equal bits are as good as certain
    return Health(
        rows=n,
        features=d,
        dtype=str(pool.source.dtype).removeprefix("torch."),
        normalize=data.normalize,
        norms=Norms.of(lengths.cpu().numpy()),
        duplicates=int((ordered[1:] == ordered[:-1]).all(axis=1).sum()),
        near_duplicates=float((cosines >= NEAR_DUPLICATE).double().mean()),
        near_duplicates_from=len(compared),
        effective_rank=moments.effective_rank(),
        share_along_mean=moments.share_along_mean(),
        directions_from=len(counted),
        mean=moments.mean.cpu().numpy(),
        principal_directions=directions.cpu().numpy(),
        explained=(float(explained[0]), float(explained[1])),
        is_linear=feature_form(data.kernel) is not None,
    )


def measure(
    pool: Pool, compared: Int[Tensor, " s"], counted: Int[Tensor, " c"]
) -> tuple[Float[Tensor, " n"], Int[Tensor, "n 2"], Float[Tensor, " s"], "Moments"]:
    """The lengths and the bits of all rows, the largest cosines of some, the moments of some."""
    normalization, pool = pool.normalization, as_given(pool)
    points = UNIT.apply(normalization.apply(pool.rows(compared)))
    bits = torch.empty(len(pool), 2, dtype=torch.int64, device=pool.device)
    lengths = torch.empty(len(pool), dtype=torch.float64, device=pool.device)
    total, squares = points.new_zeros(pool.dimension), points.new_zeros(2 * (pool.dimension,))
    largest, numbers = torch.full_like(points[:, 0], -1.0), compared.to(pool.device)

    def examine(start: int, stop: int, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bits[start:stop] = row_bits(block)
        rows = normalization.apply(block)
        lengths[start:stop] = rows.norm(dim=1)
        first, last = torch.searchsorted(counted, torch.tensor([start, stop])).tolist()
        chosen = rows if last - first == len(rows) else rows[counted[first:last] - start]
        cosines = largest_cosines(points, numbers, start, rows)
        return chosen.sum(dim=0), chosen.T @ chosen, cosines

    def take(seen: tuple[Tensor, Tensor, Tensor]) -> None:
        total.add_(seen[0])
        squares.add_(seen[1])
        torch.maximum(largest, seen[2], out=largest)

    pool.each(examine, take)
    return lengths, bits, largest, Moments(total / len(counted), squares / len(counted))


def as_given(pool: Pool) -> Pool:
    """The pool without normalisation."""
    return replace(pool, normalization=Normalization(), ready=None, inverse_length=None)


def draw_rows(rng: np.random.Generator, n: int, count: int) -> Tensor:
    """Draw row numbers at random, or take all if there are no more, in ascending order."""
    numbers = np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))
    return torch.from_numpy(numbers)


def sampled(count: int, n: int) -> str:
    return "" if count == n else f" (from {count:,} random rows)"


def remarks_on(health: Health) -> Iterator[str]:
    norms = health.norms
    if health.duplicates:
        yield (
            f"{count_of(health.duplicates, 'row copies', 'rows copy')} another: a copy may be "
            f"picked too, as a repeated observation. Drop copies if their label is the same."
        )
    if not health.is_linear:
        return
    if norms.zero_rows:
        yield (
            f"{count_of(norms.zero_rows, 'row is', 'rows are')} zero: nothing is uncertain there, "
            f"so nothing can be gained. Were all items embedded?"
        )
    if norms.spread > NORMS_DIFFER:
        yield (
            f"rows are not of one length: norms differ by a factor {number(norms.spread)}, and a "
            f"long row counts as more telling. Consider normalize='unit' (--normalize unit)."
        )
    if health.near_duplicates > MANY_NEAR_DUPLICATES:
        yield (
            f"{percent(health.near_duplicates)} of rows have a near-duplicate: picks that look "
            f"alike tell less. groups with max_per_group keeps them apart."
        )
    if health.share_along_mean > SHARED_DIRECTION:
        yield (
            f"rows are not centred: their mean has {percent(health.share_along_mean)} of their "
            f"squared length, and tells none from another. Consider normalize='center+unit'."
        )
    is_wide = health.features >= 10 * FEW_DIRECTIONS
    if is_wide and 0 < health.effective_rank < FEW_DIRECTIONS:
        yield (
            f"rows lie along few directions (effective rank {number(health.effective_rank)} of "
            f"{health.features:,}): a few picks settle most of what the pool can tell."
        )


def row_bits(rows: Float[Tensor, "b d"]) -> Int[Tensor, "b 2"]:
    """128 bits of each row. Minus zero counts as zero."""
    bits = (rows + 0.0).view(torch.int64)
    factors = column_factors(bits)
    first = (bits ^ shifted(bits, 32)).mul_(factors).sum(dim=1)
    second = bits ^ shifted(bits, 29) ^ shifted(bits, 52)
    return torch.stack([first, second.mul_(factors.flip(0)).sum(dim=1)], dim=1)


def largest_cosines(
    points: Float[Tensor, "s d"],
    numbers: Int[Tensor, " s"],
    start: int,
    block: Float[Tensor, "b d"],
) -> Float[Tensor, " s"]:
    """The largest cosine of each sampled row with any other row of a block."""
    block, found = UNIT.apply(block), torch.empty_like(points[:, 0])
    for first, last in spans(len(points), max(numerics.BLOCK_BYTES // (8 * len(block)), 1)):
        cosines = points[first:last] @ block.T
        own = numbers[first:last] - start
        here = ((own >= 0) & (own < len(block))).nonzero()[:, 0]
        cosines[here, own[here]] = -1.0
        torch.amax(cosines, dim=1, out=found[first:last])
    return found


@dataclass(frozen=True)
class Moments:
    """The mean and the second moment of rows."""

    mean: Float[Tensor, " d"]
    second: Float[Tensor, "d d"]

    def effective_rank(self) -> float:
        own = float(self.second.diagonal().sum()) ** 2
        return own / float(self.second.square().sum()) if own > 0 else 0.0

    def share_along_mean(self) -> float:
        """The share |E x|^2 / E |x|^2 that rows have in common: 0 if centred, 1 if equal."""
        total = float(self.second.diagonal().sum())
        return float(self.mean.square().sum()) / total if total > 0 else 0.0

    def principal(self) -> tuple[Float[Tensor, "2 d"], Float[Tensor, " 2"]]:
        """The two directions of most variance about the mean, and the share of each in it."""
        C = torch.addr(self.second, self.mean, self.mean, alpha=-1.0)
        values, vectors = torch.linalg.eigh(C)
        values, vectors = values.flip(0)[:2].clamp(min=0.0), vectors.flip(1)[:, :2].T
        total = float(C.diagonal().sum())
        shares = values / total if total > 0 else torch.zeros_like(values)
        largest = vectors.gather(1, vectors.abs().argmax(dim=1, keepdim=True))
        vectors = torch.where(shares[:, None] > 0, vectors * largest.sign(), 0.0)
        pad, short = torch.nn.functional.pad, 2 - len(vectors)
        return pad(vectors, (0, 0, 0, short)), pad(shares, (0, short))
