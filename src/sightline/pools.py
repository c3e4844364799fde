"""Rows of numbers behind one small interface: arrays, tensors, memory maps and files.

A pool stays where it is, in its own dtype. Arithmetic sees float64 blocks of it, converted
(and normalised, if asked) on the fly.
"""

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from sightline import numerics
from sightline.gpu import can_fuse
from sightline.shapes import Float, Int


@dataclass(frozen=True)
class Normalization:
    """x -> (x - mean) / |x - mean|, either part of it, or nothing. A zero row stays zero."""

    mean: Float[Tensor, " d"] | None = None
    to_unit_length: bool = False

    def apply(self, rows: Tensor) -> Tensor:
        if self.mean is not None:
            rows = rows - self.mean.to(rows.device)
        if self.to_unit_length:
            length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
            rows = rows / torch.where(length > 0, length, 1.0)
        return rows


class Scratch:
    """Memory for one float64 block, kept between passes: fresh memory costs more than products."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.float64)

    def copy(self, rows: Tensor, device: torch.device) -> Float[Tensor, "b d"]:
        if self._memory.numel() < rows.numel() or self._memory.device != device:
            self._memory = torch.empty(rows.numel(), dtype=torch.float64, device=device)
        return self._memory[: rows.numel()].view(rows.shape).copy_(rows)


@dataclass(frozen=True)
class Pool:
    """All rows of an (n, d) array, or of an (n,) vector of row numbers."""

    data: Tensor
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    normalization: Normalization = field(default_factory=Normalization)
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    ready: Tensor | None = field(default=None, repr=False)  # all of a small pool, converted once
    inverse_length: Tensor | None = field(default=None, repr=False)  # of rows made unit

    def __len__(self) -> int:
        return len(self.data)

    @property
    def dimension(self) -> int:
        return self.data.shape[1] if self.data.ndim == 2 else 1

    @property
    def held(self) -> Tensor | None:
        """All rows, unconverted, if they are where the arithmetic is done."""
        return self._source if self._source.device == self.device else None

    def blocks(self) -> Iterator[tuple[int, int, Tensor]]:
        """Pieces of the pool in order: (first row, one past the last, float64 rows).

        A piece is good until the next one is asked for, and not to be changed.
        """
        for start, stop in spans(len(self), rows_per_block(self.dimension, self.device)):
            rows = self._source[start:stop]
            yield start, stop, self._converted(rows, self.scratch)

    def products(self, vectors: Float[Tensor, "r d"], out: Float[Tensor, "r n"]) -> None:
        """Inner products of vectors with all rows, in one pass; normalised afterwards."""
        if can_fuse(self.held):
            return fused_products(self, vectors, out)
        for start, stop in spans(len(self), rows_per_block(self.dimension, self.device)):
            rows = self._plain(self._source[start:stop], self.scratch)
            torch.mm(vectors, rows.T, out=out[:, start:stop])
        self._normalize_products(vectors, out, self.inverse_length)

    def block(self, start: int, stop: int) -> Tensor:
        """Consecutive rows, to keep."""
        return self._converted(self._source[start:stop])

    def whole(self) -> Tensor:
        """All rows, to keep; for pools that are known to be small."""
        return self._converted(self._source)

    def rows(self, indices: Int[Tensor, " b"]) -> Tensor:
        """Some rows, in the order asked for."""
        return self._converted(self._source[indices.to(self._source.device)])

    def take(self, indices: Int[Tensor, " b"] | None) -> "Pool | Rows":
        """The pool cut down to some rows, without a copy; all of it for None."""
        return self if indices is None else Rows(self, indices)

    def fingerprint(self) -> str:
        """A short name for the pool's content: its shape and a checksum of every row.

        The bits of each row's float64 values, added up: exact, whatever the order or the device.
        """
        digest = hashlib.blake2b(repr(tuple(self.data.shape)).encode(), digest_size=8)
        for start, stop in spans(len(self), rows_per_block(self.dimension, self.data.device)):
            bits = self.data[start:stop].to(torch.float64).view(torch.int64)
            sums = bits if bits.ndim == 1 else bits.sum(dim=1)
            digest.update(sums.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def _source(self) -> Tensor:
        return self.data if self.ready is None else self.ready

    def _converted(self, rows: Tensor, scratch: Scratch | None = None) -> Tensor:
        plain = self._plain(rows, scratch)
        is_final = self.ready is not None or plain.ndim == 1
        return plain if is_final else self.normalization.apply(plain)

    def _plain(self, rows: Tensor, scratch: Scratch | None) -> Tensor:
        """Rows as float64 (row numbers as int64) where the arithmetic is done."""
        if rows.ndim == 1:
            return rows.to(device=self.device, dtype=torch.int64)
        if rows.dtype == torch.float64 and rows.device == self.device:
            return rows
        if scratch is not None:
            return scratch.copy(rows, self.device)
        return rows.to(device=self.device, dtype=torch.float64)

    def _normalize_products(
        self, vectors: Tensor, out: Tensor, inverse_length: Tensor | None
    ) -> None:
        """<v, (x - mean) / |x - mean|> from <v, x>: far cheaper than normalising every row."""
        if self.ready is not None:
            return
        if self.normalization.mean is not None:
            out -= (vectors @ self.normalization.mean.to(out.device))[:, None]
        if inverse_length is not None:
            out *= inverse_length


@dataclass(frozen=True)
class Rows:
    """Some rows of a pool, seen as a pool."""

    pool: Pool
    indices: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def device(self) -> torch.device:
        return self.pool.device

    @property
    def dimension(self) -> int:
        return self.pool.dimension

    @property
    def held(self) -> Tensor | None:
        return self.pool.held

    def blocks(self) -> Iterator[tuple[int, int, Tensor]]:
        for start, stop in spans(len(self), rows_per_block(self.dimension, self.device)):
            yield start, stop, self.block(start, stop)

    def products(self, vectors: Float[Tensor, "r d"], out: Float[Tensor, "r n"]) -> None:
        pool = self.pool
        if can_fuse(self.held):
            return fused_products(pool, vectors, out, self.indices)
        for start, stop in spans(len(self), rows_per_block(self.dimension, self.device)):
            chosen = self.indices[start:stop].to(pool._source.device)
            torch.mm(vectors, pool._plain(pool._source[chosen], None).T, out=out[:, start:stop])
        lengths = pool.inverse_length
        some = None if lengths is None else lengths[self.indices.to(lengths.device)]
        pool._normalize_products(vectors, out, some)

    def block(self, start: int, stop: int) -> Tensor:
        return self.pool.rows(self.indices[start:stop])

    def whole(self) -> Tensor:
        return self.pool.rows(self.indices)

    def rows(self, indices: Int[Tensor, " b"]) -> Tensor:
        return self.pool.rows(self.indices[indices.to(self.indices.device)])


def fused_products(
    pool: Pool, vectors: Tensor, out: Tensor, some: Int[Tensor, " n"] | None = None
) -> None:
    """The same on a GPU, without a float64 copy of the rows."""
    from sightline.gpu.products import products

    is_final, device = pool.ready is not None, pool.device
    products(
        pool._source,
        vectors,
        out,
        some=None if some is None else some.to(device),
        mean=None if is_final or (mean := pool.normalization.mean) is None else mean.to(device),
        inverse_length=None if is_final else pool.inverse_length,
    )


def spans(count: int, step: int) -> Iterator[tuple[int, int]]:
    """(0, step), (step, 2 step), ... up to count."""
    for start in range(0, count, step):
        yield start, min(start + step, count)


def rows_per_block(dimension: int, device: torch.device) -> int:
    """A power of two, so that products of full blocks take the same path at every size."""
    is_cpu = device.type == "cpu"
    size = numerics.BLOCK_BYTES if is_cpu else numerics.GPU_BLOCK_BYTES
    rows = max(size // (8 * max(dimension, 1)), 1)
    return max(2 ** (rows.bit_length() - 1), 16)


def normalized(pool: Pool, normalize: str | None) -> Pool:
    """The pool under ``normalize``; the mean is taken over all its rows."""
    if normalize is not None:
        mean = column_mean(pool) if "center" in normalize else None
        unit = "unit" in normalize
        pool = replace(pool, normalization=Normalization(mean, to_unit_length=unit))
    if pool.data.ndim == 2 and 8 * pool.data.numel() <= numerics.SMALL_POOL_BYTES:
        return replace(pool, ready=pool.whole())
    is_unit = pool.normalization.to_unit_length
    return replace(pool, inverse_length=inverse_lengths(pool)) if is_unit else pool


def inverse_lengths(pool: Pool) -> Float[Tensor, " n"]:
    """1 / |x - mean| of every row, and 1 for a row of length zero."""
    inverse = torch.empty(len(pool), dtype=torch.float64, device=pool.device)
    centred = replace(pool, normalization=Normalization(pool.normalization.mean))
    for start, stop, block in centred.blocks():
        length = torch.linalg.vector_norm(block, dim=1)
        inverse[start:stop] = torch.where(length > 0, length, 1.0).reciprocal()
    return inverse


def column_mean(pool: Pool) -> Float[Tensor, " d"]:
    total = torch.zeros(pool.dimension, dtype=torch.float64, device=pool.device)
    for _, _, block in pool.blocks():
        total += block.sum(dim=0)
    return total / len(pool)


def first_bad_row(data: Tensor) -> int | None:
    """The first row with a NaN or an infinity. Row sums find suspects; only those are searched."""
    if not data.is_floating_point():
        return None
    for start, stop in spans(len(data), rows_per_block(data.shape[1], data.device)):
        block = data[start:stop]
        if block.itemsize == 1:
            block = block.to(torch.float32)  # torch has no sums of float8
        suspects = (~torch.isfinite(block.sum(dim=1))).nonzero()[:, 0]
        bad = suspects[~torch.isfinite(block[suspects]).all(dim=1)]
        if len(bad):
            return start + int(bad[0])
    return None


def as_tensor(array: object, name: str) -> Tensor:
    """A numeric array as a tensor that shares its memory where that is possible."""
    if isinstance(array, Tensor):
        if array.layout != torch.strided or array.is_nested:
            layout = "nested" if array.is_nested else str(array.layout).removeprefix("torch.")
            raise TypeError(
                f"{name} must be a dense tensor; got a {layout} one. Densify it first."
            )
        tensor = array.detach()
    else:
        tensor = _from_numpy(array, name)
    if tensor.is_complex():
        raise TypeError(
            f"{name} must hold real numbers; got {tensor.dtype}. Pass the real and the imaginary "
            f"part as features, or one of them."
        )
    return tensor


def _from_numpy(array: object, name: str) -> Tensor:
    if np.ma.is_masked(array):
        raise TypeError(f"{name} must not have masked entries. Fill or drop them first.")
    try:
        values = np.asarray(array)
    except ValueError as error:  # ragged nested lists
        raise ValueError(
            f"{name} must be a rectangular array of numbers, all rows of one length; numpy says: "
            f"{str(error).rstrip('.')}."
        ) from error
    if values.dtype.kind not in "fiubc":
        raise TypeError(
            f"{name} must be a numeric array; got dtype {values.dtype}. Convert it first, for "
            f"example with np.stack(rows).astype(np.float32)."
        )
    if values.dtype.char in "gG":  # long double, which torch does not have
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.complex128)
    size = values.itemsize
    if not values.dtype.isnative or any(step < 0 or step % size for step in values.strides):
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    with warnings.catch_warnings():  # torch warns of read-only memory; nothing here writes to it
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values)
