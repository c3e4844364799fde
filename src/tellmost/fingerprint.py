r"""A short name for the content of a pool, made block by block, on any device.

.. math::
    r_i = \sum_j \bigl(b_{ij} \oplus (b_{ij} \gg 32)\bigr)\, w_j, \qquad
    s = \sum_i \mathrm{mix}\bigl(r_i \oplus (i + 1)\, g\bigr)

with the bits b of the float64 values as integers, and odd factors w that look random, all modulo
2^64. The sums are exact, so neither block size nor device changes them; the factors and the row
numbers make them depend on the order of columns and rows. The upper half of the bits goes into the
lower one, since a product keeps low bits apart from high ones, but not the other way round: a sign
alone would be the same in every column.
"""

import hashlib

import torch
from torch import Tensor

from tellmost.running.processes import ALONE, Exchange
from tellmost.shapes import Int, Shaped

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
"""Shifts and factors of splitmix64 (Steele, Lea and Flood 2014), as signed numbers."""


class Fingerprint:
    """The checksum of the rows seen so far; ``name`` closes it."""

    def __init__(self, device: torch.device) -> None:
        self._sum = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, start: int, rows: Tensor) -> None:
        """Take in the rows from number ``start`` on, as float64; or row numbers, as they are."""
        bits = rows.to(torch.float64).view(torch.int64).reshape(len(rows), -1)
        sums = _shifted(bits, 32).bitwise_xor_(bits).mul_(column_factors(bits)).sum(dim=1)
        numbers = torch.arange(start + 1, start + 1 + len(rows), device=bits.device)
        self._sum += _mixed(sums ^ numbers.mul_(GOLDEN)).sum()

    def add_sum(self, total: Tensor) -> None:
        """Take in rows whose part of the sum was made elsewhere."""
        self._sum += total

    def name(self, shape: tuple[int, ...], exchange: Exchange = ALONE) -> str:
        """With the rows that the other processes have seen; the shape is that of all."""
        text = f"{shape} {int(exchange.sum(self._sum))}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def column_factors(rows: Shaped[Tensor, "n d"]) -> Int[Tensor, " d"]:
    """An odd number for each column, where the rows are."""
    numbers = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    return _mixed(numbers.mul_(GOLDEN)) | 1


def _mixed(values: Tensor) -> Tensor:
    """Every bit of the input changes about half of the output's."""
    for shift, factor in MIX:
        values = (values ^ _shifted(values, shift)) * factor
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left: torch would repeat the sign."""
    return (values >> by) & (2 ** (64 - by) - 1)
