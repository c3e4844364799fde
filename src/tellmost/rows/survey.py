"""The first look at a pool: everything that is asked of each row, in one pass."""

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tellmost.gpu import can_fuse
from tellmost.kernels import Kernel, Linear
from tellmost.kernels.linear import matrix_size
from tellmost.rows.pool import GOLDEN, MIX, Fingerprint, Normalization, Pool, column_factors
from tellmost.rows.sources import Source
from tellmost.running.processes import Place
from tellmost.shapes import Float

SMALL_POOL_BYTES = 4 * 2**20
"""A pool up to this size in float64 stays in the caches and is converted once; larger ones are
converted block by block in every pass, which costs less than reading twice the bytes."""

FINGERPRINT_COLUMNS = 16
"""Columns of a precomputed matrix that identify it, beside its diagonal."""


@dataclass(frozen=True)
class Survey:
    """The rows of this process, read once; those of all processes are finite."""

    pool: Pool  # normalised
    prior_variance: Float[Tensor, " n"]  # k(x, x) of every row; may overflow
    fingerprint: str  # of the rows of all processes


def survey(pool: Pool, kernel: Kernel, normalize: str | None, place: Place) -> Survey:
    """One pass; with a mean to subtract, one before it."""
    normalization = normalization_of(pool, normalize, place)
    with place.exchange.together():
        seen, sums = look_at_all(pool, kernel, normalization, place.first)
    name = sums.name((place.total, *pool.shape[1:]), place.exchange)
    return replace(seen, fingerprint=f"{name}{matrix_mark(pool, kernel, place)}")


def look_at_all(
    pool: Pool, kernel: Kernel, normalization: Normalization, first: int
) -> tuple[Survey, Fingerprint]:
    """All rows here, numbered from ``first`` on; the survey's fingerprint is still missing."""
    if can_fuse(pool.held) and is_plain(kernel) and normalization.mean is None:
        return fused_survey(pool, normalization, first)
    variance = torch.empty(len(pool), dtype=torch.float64, device=pool.device)
    inverse = torch.empty_like(variance) if normalization.to_unit_length else None
    sums = Fingerprint(pool.device)
    for start, stop, rows in pool.blocks():
        if normalization.mean is None:  # else they were checked when it was taken
            check_finite(start, rows, pool.source, "pool")
        sums.add(first + start, rows)
        rows = rows if rows.ndim == 1 else normalization.centred(rows)
        if inverse is not None:
            inverse[start:stop] = normalization.lengths(rows).reciprocal_()
            rows = rows * inverse[start:stop, None]
        variance[start:stop] = kernel.diagonal(rows)
    pool = replace(pool, normalization=normalization, inverse_length=inverse)
    return Survey(converted_once(pool), variance, fingerprint=""), sums


def is_plain(kernel: Kernel) -> bool:
    """Whether k(x, x) is the squared length of x."""
    return isinstance(kernel, Linear) and kernel.covariance is None


def fused_survey(
    pool: Pool, normalization: Normalization, first: int
) -> tuple[Survey, Fingerprint]:
    """The same on a GPU, in one kernel; only rows whose squares are not finite are searched."""
    from tellmost.gpu.passes import survey_rows

    assert pool.held is not None
    squares, total = survey_rows(pool.held, first, column_factors(pool.held), GOLDEN, MIX)
    if not bool(torch.isfinite(squares).all()):
        for start, _, rows in pool.blocks():
            check_finite(start, rows, pool.source, "pool")
    inverse = None
    if normalization.to_unit_length:
        inverse = torch.where(squares > 0, squares, 1.0).rsqrt()
        squares = squares * inverse.square()
    sums = Fingerprint(pool.device)
    sums.add_sum(total)
    pool = replace(pool, normalization=normalization, inverse_length=inverse)
    return Survey(converted_once(pool), squares, fingerprint=""), sums


def normalization_of(pool: Pool, normalize: str | None, place: Place) -> Normalization:
    """What ``normalize`` means for this pool; its mean is taken over all rows."""
    parts = () if normalize is None else normalize.split("+")
    mean = checked_mean(pool, place) if "center" in parts else None
    return Normalization(mean, to_unit_length="unit" in parts)


def checked_mean(pool: Pool, place: Place) -> Float[Tensor, " d"]:
    """The mean row of all processes, of rows that are all finite."""
    total = torch.zeros(pool.dimension, dtype=torch.float64, device=pool.device)
    with place.exchange.together():
        for start, _, rows in pool.blocks():
            check_finite(start, rows, pool.source, "pool")
            total += rows.sum(dim=0)
    return place.exchange.sum(total) / place.total


def check_finite(start: int, rows: Tensor, source: Source, name: str) -> None:
    """Row sums find suspects; only those are searched."""
    if rows.ndim == 1:
        return  # row numbers, of which all is known
    suspects = (~torch.isfinite(rows.sum(dim=1))).nonzero()[:, 0]
    bad = suspects[~torch.isfinite(rows[suspects]).all(dim=1)]
    if len(bad):
        raise ValueError(
            f"{name} must be finite; {source.where(start + int(bad[0]))} has a NaN or an "
            f"infinity. Drop or repair such rows first."
        )


def matrix_mark(pool: Pool, kernel: Kernel, place: Place) -> str:
    """Where rows are numbers of a matrix: what tells it from others. Else nothing."""
    if matrix_size(kernel) is None:
        return ""
    (rows,) = place.collect(torch.arange(place.total), lambda own: (pool.rows(own),))
    spaced = rows[:: max(len(rows) // FINGERPRINT_COLUMNS, 1)]
    digest = hashlib.blake2b(digest_size=8)
    for values in (kernel.diagonal(rows), kernel.block(rows, spaced)):
        digest.update(values.cpu().numpy().tobytes())
    return f"+{digest.hexdigest()}"


def converted_once(pool: Pool) -> Pool:
    """A pool that is so small that all of it is kept as float64, if it is one."""
    is_small = 8 * len(pool) * pool.dimension <= SMALL_POOL_BYTES
    if len(pool.shape) == 1 or pool.is_streamed or not is_small:
        return pool
    return replace(pool, ready=pool.whole(), inverse_length=None)
