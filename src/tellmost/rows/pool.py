r"""Rows of numbers behind one small interface: arrays, tensors, memory maps and files.

A pool stays where it is, in its own dtype. Arithmetic sees float64 blocks of it, converted
(and normalised, if asked) on the fly.

The fingerprint of a pool is a checksum that is made block by block, on any device:

.. math::
    r_i = \sum_j \bigl(b_{ij} \oplus (b_{ij} \gg 32)\bigr)\, w_j, \qquad
    s = \sum_i \mathrm{mix}\bigl(r_i \oplus (i + 1)\, g\bigr)

with the bits b of the float64 values as integers, and odd factors w that look random, all modulo
2^64. The sums are exact, so neither block size nor device changes them; the factors and the row
numbers make them depend on the order of columns and rows. The upper half of the bits goes into the
lower half, because a product carries low bits upwards only: a changed sign alone would otherwise
be the same in every column.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.gpu import can_fuse
from tellmost.rows.sources import HeldRows, Piece, Source, Span, hold, spans
from tellmost.running import workers
from tellmost.running.processes import Group
from tellmost.shapes import Float, Int, Shaped


@dataclass(frozen=True)
class Normalization:
    """x -> (x - mean) / |x - mean|, either part of it, or nothing. A zero row stays zero."""

    mean: Float[Tensor, " d"] | None = None
    to_unit_length: bool = False

    def apply(self, rows: Tensor) -> Tensor:
        rows = self.centred(rows)
        return rows / self.lengths(rows)[:, None] if self.to_unit_length else rows

    def centred(self, rows: Tensor) -> Tensor:
        return rows if self.mean is None else rows - self.mean.to(rows.device)

    @staticmethod
    def lengths(rows: Tensor) -> Float[Tensor, " b"]:
        """Centred rows are divided by these: |x|, and 1 for a row of length zero."""
        length = torch.linalg.vector_norm(rows, dim=1)
        return torch.where(length > 0, length, 1.0)


class Scratch(threading.local):
    """Memory for one block of each thread, kept between passes: fresh memory costs more than
    products."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        self._memory = torch.empty(0, dtype=dtype)

    def room(self, shape: torch.Size, device: torch.device) -> Tensor:
        """Memory of this shape, good until this thread asks again."""
        count = shape.numel()
        if self._memory.numel() < count or self._memory.device != device:
            self._memory = torch.empty(count, dtype=self._memory.dtype, device=device)
        return self._memory[:count].view(shape)

    def copy(self, rows: Tensor, device: torch.device) -> Float[Tensor, "b d"]:
        return self.room(rows.shape, device).copy_(rows)


@dataclass(frozen=True)
class Pool:
    """The rows of an (n, d) source, or some of them; or an (n,) vector of row numbers."""

    source: Source
    device: torch.device
    block_bytes: int
    normalization: Normalization = field(default_factory=Normalization)
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    ready: Tensor | None = field(default=None, repr=False)  # all of a small source, converted once
    inverse_length: Tensor | None = field(default=None, repr=False)  # of all rows, if made unit
    chosen: Int[Tensor, " n"] | None = field(default=None, repr=False)  # ascending; None: all
    most_threads: int | None = None  # so many work on blocks at most, each in memory of its own

    @classmethod
    def of(cls, data: Tensor) -> "Pool":
        """The rows of a tensor, worked on where it is."""
        is_cpu = data.device.type == "cpu"
        size = numerics.BLOCK_BYTES if is_cpu else numerics.GPU_BLOCK_BYTES
        return cls(HeldRows(data), data.device, size)

    def take(self, indices: Int[Tensor, " c"] | None) -> "Pool":
        """The pool cut down to some of all its rows, ascending, without a copy; None: all."""
        return self if indices is None else replace(self, chosen=indices)

    def __len__(self) -> int:
        return self.source.shape[0] if self.chosen is None else len(self.chosen)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.source.shape[1:])

    @property
    def dimension(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def held(self) -> Tensor | None:
        """The source's tensor, in its own dtype and not normalised; None if it is not in memory
        where the arithmetic is done."""
        held = self.source.held
        return held if held is not None and held.device == self.device else None

    @property
    def is_streamed(self) -> bool:
        """If true, rows are read, or copied to the device, whenever they are needed."""
        return self.held is None

    @property
    def is_fused(self) -> bool:
        """If true, a pass over the rows is one kernel on a GPU."""
        return self.device.type == "cuda" and can_fuse(self.held)

    @property
    def threads(self) -> int | None:
        """So many share a pass at most; a GPU needs no more than one that calls it."""
        return self.most_threads if self.device.type == "cpu" else 1

    @property
    def rows_per_block(self) -> int:
        """A power of two, so that products of full blocks take the same path at every size."""
        rows = max(self.block_bytes // (8 * max(self.dimension, 1)), 1)
        return max(2 ** (rows.bit_length() - 1), numerics.LEAST_BLOCK_ROWS)

    def blocks(self, most: int | None = None) -> Iterator[Piece]:
        """Pieces of the pool in order: (first row, one past the last, float64 rows).

        A piece is good until the next one is asked for, and must not be changed; ``most`` limits
        its rows.
        """
        for start, stop, rows in self._stored(most):
            yield start, stop, self._converted(rows, self.scratch)

    def each(
        self,
        work: Callable[[int, int, Tensor], Any],
        in_turn: Callable[[Any], Any] | None = None,
        most: int | None = None,
    ) -> None:
        """Call ``work`` with every block, as ``blocks`` gives them, on the threads of the team.

        ``in_turn`` gets the results in the order of the blocks.
        """

        def normalized(start: int, stop: int, rows: Tensor) -> Any:
            return work(start, stop, self._normalized(rows))

        self._share(normalized, in_turn, most)

    def products(self, vectors: Float[Tensor, "r d"], out: Float[Tensor, "r n"]) -> None:
        """Inner products of vectors with all rows, in one pass."""
        if self.is_fused:
            return fused_products(self, vectors, out)
        mean = self.normalization.mean if self.ready is None else None
        along_mean = None if mean is None else (vectors @ mean.to(out.device))[:, None]
        inverse = None if self.ready is not None else self.inverse_length

        def multiply(start: int, stop: int, rows: Tensor) -> None:
            """<v, (x - mean) / |x - mean|> from <v, x> costs less than to normalise every row."""
            piece = torch.mm(vectors, rows.T, out=out[:, start:stop])
            if along_mean is not None:
                piece -= along_mean
            if inverse is not None:
                piece *= inverse[self._numbers_between(start, stop)]

        self._share(multiply)

    def squared_products(self, vectors: Float[Tensor, "r d"], out: Float[Tensor, " n"]) -> None:
        """Squares of inner products, added up over the vectors; for fused passes only."""
        fused_products(self, vectors, out, squared=True)

    def block(self, start: int, stop: int) -> Tensor:
        """Consecutive rows, to keep."""
        if self.chosen is not None:
            return self._converted(self._some(self.chosen[start:stop]))
        here = self._here
        return self._converted(self.source.read(start, stop) if here is None else here[start:stop])

    def whole(self) -> Tensor:
        """All rows, to keep; for pools that are known to be small."""
        return self.block(0, len(self))

    def rows(self, indices: Int[Tensor, " b"]) -> Tensor:
        """Some rows, in the order asked for."""
        return self._converted(self._some(self._numbers(indices)))

    def brought_here(self) -> "Pool":
        """The same pool, read into the memory of its device."""
        return replace(self, source=hold(self.source, self.device, self.rows_per_block))

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """Keep these rows when the next pass comes over them: asking for them is then free."""
        self.source.remember(self._numbers(indices))

    def at_hand(self, indices: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """Those of these rows that can be had without a pass. The next pass keeps all of them."""
        self.remember(indices)
        return indices[self.source.at_hand(self._numbers(indices)).to(indices.device)]

    def fingerprint(self) -> str:
        """A short name for the pool's content, as it was given: not normalised."""
        sums, plain = Fingerprint(self.device), replace(self, ready=None, chosen=None)
        plain._share(lambda start, _, rows: sums.part(start, rows), sums.add_sum)
        return sums.name(self.shape)

    @property
    def _here(self) -> Tensor | None:
        """All rows in memory: converted ones, or those of the source, on whatever device."""
        return self.source.held if self.ready is None else self.ready

    def _numbers(self, indices: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """Numbers in the source, from numbers among the chosen."""
        return indices if self.chosen is None else self.chosen[indices.to(self.chosen.device)]

    def _some(self, numbers: Int[Tensor, " b"]) -> Tensor:
        here = self._here
        return self.source.take(numbers) if here is None else here[numbers.to(here.device)]

    def _share(
        self,
        work: Callable[[int, int, Tensor], Any],
        in_turn: Callable[[Any], Any] | None = None,
        most: int | None = None,
    ) -> None:
        """The same as ``each``, with rows as float64 that are not normalised."""
        wanted = list(self._spans(most))
        if self._here is not None:

            def read(span: Span) -> Any:
                return work(*span, self._plain(self._held_between(*span), self.scratch))

            workers.each(wanted, read, in_turn, count=len(wanted), threads=self.threads)
            return

        def keep(piece: Piece) -> Piece:  # it changes when the next one is asked for
            return *piece[:2], self.scratch.copy(piece[2], self.device)

        workers.each(
            map(keep, self._stored(most)),
            lambda piece: work(*piece),
            in_turn,
            count=len(wanted),
            threads=self.threads,
        )

    def _spans(self, most: int | None) -> Iterator[Span]:
        return spans(len(self), min(self.rows_per_block, most or self.rows_per_block))

    def _stored(self, most: int | None = None) -> Iterator[Piece]:
        """Pieces of the pool as they are stored."""
        if self._here is not None:
            return ((*span, self._held_between(*span)) for span in self._spans(most))
        if self.chosen is None:
            return self.source.stream(list(self._spans(most)))
        return self._sifted(min(self.rows_per_block, most or self.rows_per_block))

    def _held_between(self, start: int, stop: int) -> Tensor:
        """Consecutive rows of those in memory."""
        if self.chosen is not None:
            return self._some(self.chosen[start:stop])
        assert self._here is not None
        return self._here[start:stop]

    def _numbers_between(self, start: int, stop: int) -> slice | Int[Tensor, " b"]:
        """What finds consecutive rows among those of the source."""
        if self.chosen is None:
            return slice(start, stop)
        return self.chosen[start:stop].to(self.device)

    def _sifted(self, step: int) -> Iterator[Piece]:
        """The chosen rows out of a stream of those blocks that have some of them."""
        assert self.chosen is not None
        wanted = list(spans(self.source.shape[0], step))
        edges = torch.tensor([start for start, _ in wanted] + [self.source.shape[0]])
        ends = torch.searchsorted(self.chosen.cpu(), edges).tolist()
        parts = {
            span: part
            for span, *part in zip(wanted, ends, ends[1:], strict=False)
            if part[0] < part[1]
        }
        for first, last, block in self.source.stream(list(parts)):
            start, stop = parts[first, last]
            yield start, stop, block[self.chosen[start:stop].to(block.device) - first]

    def _converted(self, rows: Tensor, scratch: Scratch | None = None) -> Tensor:
        return self._normalized(self._plain(rows, scratch))

    def _normalized(self, plain: Tensor) -> Tensor:
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


def fused_products(pool: Pool, vectors: Tensor, out: Tensor, *, squared: bool = False) -> None:
    """Inner products on a GPU, without a float64 copy of the rows; or their summed squares."""
    from tellmost.gpu.passes import products

    is_final, mean = pool.ready is not None, pool.normalization.mean
    rows = pool.ready if pool.ready is not None else pool.held
    assert rows is not None
    products(
        rows,
        vectors,
        out,
        squared=squared,
        some=None if pool.chosen is None else pool.chosen.to(pool.device),
        mean=None if is_final or mean is None else mean.to(pool.device),
        inverse_length=None if is_final else pool.inverse_length,
    )


GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
"""Shifts and factors of splitmix64 (Steele, Lea and Flood 2014), as signed numbers."""


TURNED = 2**15
"""So many bits are turned at a time: larger memory would be given back and asked for each time."""


class Fingerprint:
    """The checksum of the rows seen so far; ``name`` closes it."""

    def __init__(self, device: torch.device) -> None:
        self._sum = torch.zeros((), dtype=torch.int64, device=device)
        self._scratch, self._factors = Scratch(torch.int64), torch.empty(0)

    def add(self, start: int, rows: Tensor) -> None:
        """Take in the rows from number ``start`` on."""
        self.add_sum(self.part(start, rows))

    def part(self, start: int, rows: Tensor) -> Tensor:
        """The part of the rows from number ``start`` on, as float64, or of row numbers."""
        bits = rows.to(torch.float64).view(torch.int64).reshape(len(rows), -1)
        if len(self._factors) != bits.shape[1]:
            self._factors = column_factors(bits)
        if bits.is_cpu:  # numpy takes two thirds of the time
            sums = torch.empty(len(bits), dtype=torch.int64)
            for first, last in spans(len(bits), max(TURNED // bits.shape[1], 1)):
                given = bits[first:last].numpy().view(np.uint64)
                out = self._scratch.room(bits[first:last].shape, bits.device).numpy()
                as_given = out.view(np.uint64)
                np.bitwise_xor(np.right_shift(given, 32, out=as_given), given, out=as_given)
                np.einsum("ij,j->i", out, self._factors.numpy(), out=sums.numpy()[first:last])
        else:
            turned = self._scratch.room(bits.shape, bits.device)
            torch.bitwise_right_shift(bits, 32, out=turned).bitwise_and_(2**32 - 1)
            sums = turned.bitwise_xor_(bits).mul_(self._factors).sum(dim=1)
        numbers = torch.arange(start + 1, start + 1 + len(rows), device=bits.device)
        return mixed(sums ^ numbers.mul_(GOLDEN)).sum()

    def add_sum(self, total: Tensor) -> None:
        """Take in rows by their part of the sum."""
        self._sum += total

    def name(self, shape: tuple[int, ...], group: Group | None = None) -> str:
        """The name of the rows that all processes have seen; the shape is that of all."""
        total = self._sum if group is None else group.sum(self._sum)
        text = f"{shape} {int(total)}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def column_factors(rows: Shaped[Tensor, "n d"]) -> Int[Tensor, " d"]:
    """An odd number for each column, where the rows are."""
    numbers = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    return mixed(numbers.mul_(GOLDEN)) | 1


def mixed(values: Tensor) -> Tensor:
    """Every bit of the input changes about half of the output's."""
    for shift, factor in MIX:
        values = (values ^ shifted(values, shift)) * factor
    return values ^ shifted(values, 31)


def shifted(values: Tensor, by: int) -> Tensor:
    """The bits moved to the right, with zeros from the left: torch would repeat the sign."""
    return (values >> by).bitwise_and_(2 ** (64 - by) - 1)  # fresh memory costs more than both
