"""Pools, other rows, numbers and vectors are checked here before they are used."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Kernel
from tellmost.kernels.linear import Linear, matrix_size
from tellmost.rows.pool import GOLDEN, MIX, Fingerprint, Normalization, Pool, column_factors
from tellmost.rows.sources import Source, as_tensor
from tellmost.running.processes import Shard
from tellmost.shapes import Bool, Float, Int

SMALL_POOL_BYTES = 4 * 2**20
"""A pool up to this size in float64 stays in the caches and is converted once; larger ones are
converted block by block in every pass, which costs less than reading twice the bytes."""

FINGERPRINT_COLUMNS = 16
"""So many columns of a precomputed matrix identify it, beside its diagonal."""


@dataclass(frozen=True)
class CheckedPool:
    """A pool whose rows were all read once; the rows of all processes are finite."""

    pool: Pool  # normalised
    prior_variance: Float[Tensor, " n"]  # k(x, x) of every row of this process; may overflow
    fingerprint: str  # of the rows of all processes


def check_pool(
    pool: Pool, kernel: Kernel, normalize: str | None, shard: Shard | None
) -> CheckedPool:
    """Read each row once for everything; a mean to subtract takes another pass before it."""
    pool = converted_once(pool)
    normalization = normalization_of(pool, normalize, shard)
    is_fused = pool.is_fused and is_plain(kernel) and normalization.mean is None
    read = _read_on_gpu if is_fused else _read_blocks
    if shard is None:
        group, first, total = None, 0, len(pool)
    else:
        group, first, total = shard.group, shard.first, shard.total
    with nullcontext() if group is None else group.together():
        variance, inverse, sums = read(pool, kernel, normalization, first)
    ready = None if pool.ready is None else normalization.apply(pool.ready)
    pool = replace(pool, normalization=normalization, inverse_length=inverse, ready=ready)
    name = sums.name((total, *pool.shape[1:]), group)
    mark = matrix_mark(pool, kernel, shard)
    return CheckedPool(pool, variance, f"{name}{mark}")


def _read_blocks(
    pool: Pool, kernel: Kernel, normalization: Normalization, first: int
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"] | None, Fingerprint]:
    """The prior variances of the rows here, their inverse lengths, and their fingerprint.

    The rows are numbered from ``first`` on. There are inverse lengths only if all lengths are
    made one.
    """
    variance = torch.empty(len(pool), dtype=torch.float64, device=pool.device)
    inverse = torch.empty_like(variance) if normalization.to_unit_length else None
    sums = Fingerprint(pool.device)

    has_to_check = normalization.mean is None  # else they were checked when it was taken
    lengths_show = is_plain(kernel)  # rows that are not finite

    def look(start: int, stop: int, given: Tensor) -> Tensor:
        if has_to_check and not lengths_show:
            check_finite(start, given, pool.source, "pool")
        rows = given if given.ndim == 1 else normalization.centred(given)
        if inverse is not None:
            inverse[start:stop] = normalization.lengths(rows).reciprocal_()
            rows = rows * inverse[start:stop, None]
        own = variance[start:stop].copy_(kernel.diagonal(rows))
        if has_to_check and lengths_show and not isfinite(own.sum()):
            check_finite(start, given, pool.source, "pool")
        return sums.part(first + start, given)

    pool.each(look, sums.add_sum)
    return variance, inverse, sums


def is_plain(kernel: Kernel) -> bool:
    """Say whether k(x, x) is the squared length of x."""
    return isinstance(kernel, Linear) and kernel.covariance is None


def _read_on_gpu(
    pool: Pool, kernel: Kernel, normalization: Normalization, first: int
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"] | None, Fingerprint]:
    """The same as ``_read_blocks``, in one kernel for plain inner products without a mean."""
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
    return squares, inverse, sums


def normalization_of(
    pool: Pool, normalize: str | None, shard: Shard | None = None
) -> Normalization:
    """Find what ``normalize`` means for this pool. The mean is that of all rows."""
    parts = () if normalize is None else normalize.split("+")
    mean = checked_mean(pool, shard) if "center" in parts else None
    return Normalization(mean, to_unit_length="unit" in parts)


def checked_mean(pool: Pool, shard: Shard | None) -> Float[Tensor, " d"]:
    """The mean row of all processes; every row must be finite."""
    total = torch.zeros(pool.dimension, dtype=torch.float64, device=pool.device)

    def checked(start: int, stop: int, rows: Tensor) -> Tensor:
        check_finite(start, rows, pool.source, "pool")
        return rows.sum(dim=0)

    with nullcontext() if shard is None else shard.group.together():
        pool.each(checked, total.add_)
    return total / len(pool) if shard is None else shard.group.sum(total) / shard.total


def check_finite(start: int, rows: Tensor, source: Source, name: str) -> None:
    """Refuse rows with a NaN or an infinity; only rows whose sum is not finite are searched."""
    if rows.ndim == 1 or isfinite(rows.sum()):
        return  # of row numbers all is known
    suspects = (~torch.isfinite(rows.sum(dim=1))).nonzero()[:, 0]
    bad = suspects[~torch.isfinite(rows[suspects]).all(dim=1)]
    if len(bad):
        raise ValueError(
            f"{name} must be finite; {source.where(start + int(bad[0]))} has a NaN or an "
            f"infinity. Drop or repair such rows first."
        )


def matrix_mark(pool: Pool, kernel: Kernel, shard: Shard | None) -> str:
    """Make a mark that tells a precomputed matrix from others, if rows are numbers of its rows."""
    if matrix_size(kernel) is None:
        return ""
    rows = pool.rows(torch.arange(len(pool)))
    if shard is not None:
        rows = shard.whole(rows)
    spaced = rows[:: max(len(rows) // FINGERPRINT_COLUMNS, 1)]
    digest = hashlib.blake2b(digest_size=8)
    for values in (kernel.diagonal(rows), kernel.block(rows, spaced)):
        digest.update(values.cpu().numpy().tobytes())
    return f"+{digest.hexdigest()}"


def converted_once(pool: Pool) -> Pool:
    """The pool, kept as float64 as a whole if it is small enough."""
    is_small = 8 * len(pool) * pool.dimension <= SMALL_POOL_BYTES
    if len(pool.shape) == 1 or pool.is_streamed or not is_small:
        return pool
    return replace(pool, ready=pool.whole())


Number = TypeVar("Number", int, float)
NOT_NUMBERS = (str, bytes, bool, np.bool_)  # although float() and int() take them
LARGEST_SEED = 2**62 - 1  # twice as much and one still fit into 64 bits


def check_rows(data: Tensor, name: str) -> None:
    check_shape(tuple(data.shape), name)
    rows = Pool.of(data)
    rows.each(lambda start, _, block: check_finite(start, block, rows.source, name))


def check_shape(shape: tuple[int, ...], name: str) -> None:
    if 0 in shape:
        raise ValueError(f"{name} must not be empty; got shape {shape}.")
    if len(shape) != 2:
        raise ValueError(
            f"{name} must have two dimensions, rows x features; got shape {shape}. Reshape it "
            f"first; rows of one feature are (n, 1)."
        )


def check_features(shape: Sequence[int], name: str, pool: Sequence[int]) -> None:
    """Rows have as many features as the rows of the pool."""
    if tuple(shape[1:]) != tuple(pool[1:]):
        raise ValueError(
            f"pool and {name} must share their feature dimension; got pool {tuple(pool)} and "
            f"{name} {tuple(shape)}."
        )


def check_matrix_rows(data: Tensor, name: str, kernel: Kernel) -> Int[Tensor, " n"]:
    if data.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(data.shape)}.")
    if data.ndim != 1 or data.is_floating_point() or data.dtype == torch.bool:
        raise ValueError(
            f"with a Precomputed kernel {name} must be a vector of row numbers of its matrix; got "
            f"{kind_of(data)}."
        )
    data = data.to(torch.int64)
    check_range(data, matrix_size(kernel) or 0, name, "rows of the kernel's matrix")
    return data


def check_range(indices: Tensor, count: int, name: str, what: str) -> None:
    outside = indices[(indices < 0) | (indices >= count)]
    if len(outside):
        raise ValueError(f"{name} must name {what}, 0 to {count - 1}; got {int(outside[0])}.")


def kind_of(values: Tensor) -> str:
    """The dtype and the shape of the values, in words."""
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"


def check_indices(values: Any, name: str, n: int) -> Int[Tensor, " b"]:
    """Numbers of pool rows, or an error that says what came instead."""
    indices = as_tensor(values, name)
    if indices.ndim != 1 or indices.is_floating_point() or indices.dtype == torch.bool:
        raise TypeError(
            f"{name} must be a vector of integers, numbers of pool rows; got {kind_of(indices)}."
        )
    indices = indices.to(device="cpu", dtype=torch.int64)
    check_range(indices, n, name, "rows of the pool")
    return indices


def check_distinct(indices: Tensor, name: str, way_out: str) -> None:
    values, counts = torch.unique(indices, return_counts=True)
    if bool((counts > 1).any()):
        raise ValueError(f"{name} has row {int(values[counts > 1][0])} more than once. {way_out}")


def check_mask(mask: Bool[Tensor, "*_"], name: str, n: int) -> None:
    if mask.shape != (n,):
        raise ValueError(
            f"{name}, as a mask, must have an entry per pool row, ({n},); got {tuple(mask.shape)}."
        )


def check_vector(values: Any, name: str, count: int, per: str) -> Float[Tensor, " c"]:
    vector = as_tensor(values, name)
    if vector.shape != (count,):
        raise ValueError(
            f"{name} must have one entry per {per}, ({count},); got {tuple(vector.shape)}."
        )
    vector = vector.to(torch.float64)
    bad = (~torch.isfinite(vector)).nonzero()[:, 0]
    if len(bad):
        raise ValueError(f"{name} must be finite; entry {int(bad[0])} is {vector[bad[0]]:g}.")
    return vector


def check_all_positive(vector: Float[Tensor, " c"], name: str) -> None:
    bad = (vector <= 0).nonzero()[:, 0]
    if len(bad):
        row = int(bad[0])
        raise ValueError(f"{name} must be positive; row {row} has {float(vector[row]):g}.")


def check_positives(values: Any, name: str, count: int, per: str) -> Float[Tensor, " c"]:
    """A positive number for each of them, or one number for all."""
    if np.ndim(values) == 0:
        return torch.full((count,), check_positive(values, name), dtype=torch.float64)
    vector = check_vector(values, name, count, per)
    check_all_positive(vector, name)
    return vector


def check_squares(noise_std: Float[Tensor, " c"]) -> None:
    """The variances must be numbers that float64 can hold."""
    squares = noise_std.square()
    bad = noise_std[(squares == 0) | (squares == torch.inf)]
    if len(bad):
        raise ValueError(
            f"noise_std must have a variance that float64 can hold; got {float(bad[0]):g}, whose "
            f"square is 0 or infinite. Measure y in another unit."
        )


def check_positive(value: Any, name: str) -> float:
    return check_number(value, name, above=0)


def check_number(
    value: Any,
    name: str,
    *,
    above: float = -inf,
    least: float = -inf,
    most: float = inf,
    below: float = inf,
) -> float:
    """A finite number within bounds. It may equal ``least`` and ``most``, but not the others."""
    number = converted(value, float, name, "a number")
    if not (above < number < below and least <= number <= most):
        limits = {"above": above, "at least": least, "at most": most, "below": below}
        words = " and ".join(f"{word} {x:g}" for word, x in limits.items() if abs(x) < inf)
        what = f"a finite number{words and ', ' + words}"
        if words == "above 0":
            what = "a positive finite number"
        raise ValueError(f"{name} must be {what}; got {value}.")
    return number


def check_whole(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """A whole number from ``least`` to ``most``."""
    what = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    number = converted(value, int, name, what)
    if number != value or number < least or (most is not None and number > most):
        raise ValueError(f"{name} must be {what}; got {value}.")
    return number


def check_seed(seed: Any, name: str = "seed") -> int:
    return check_whole(seed, name, 0, LARGEST_SEED)


def check_word(value: Any, name: str, words: Sequence[str | None]) -> None:
    if not isinstance(value, str | None) or value not in words:  # an array is not compared
        *others, last = map(repr, words)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}; got {value!r}.")


def check_object(value: Any, name: str, kind: Any, example: str) -> Any:
    """An object that is of a class, or does what a protocol asks. The class itself is none."""
    if isinstance(value, type) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {example}; got {value!r:.200}.")
    return value


def converted(value: Any, kind: Callable[[Any], Number], name: str, what: str) -> Number:
    """The value as a float or an int, if it is a number."""
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        came = repr(value) if isinstance(value, str | float) else type(value).__name__
        came = kind_of(value) if isinstance(value, Tensor) else came
        raise TypeError(f"{name} must be {what}; got {came}.") from error
    if isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be {what}; got {value!r}.")
    return number
