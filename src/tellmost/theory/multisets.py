"""Multisets of samples, all of one size: for what tiny sample spaces allow to be enumerated."""

from itertools import combinations_with_replacement
from math import comb

import torch
from torch import Tensor

from tellmost.numerics import ENUMERATED
from tellmost.shapes import Int


def count_multisets(n: int, size: int) -> int:
    return comb(n + size - 1, size)


def all_multisets(n: int, size: int) -> Int[Tensor, "c s"]:
    """A row each, in lexicographic order."""
    return torch.tensor(list(combinations_with_replacement(range(n), size)), dtype=torch.int64)


def check_enumerable(count: int, what: str, way_out: str) -> None:
    if count > ENUMERATED:
        raise ValueError(
            f'method="exact" tries every {what}, at most {ENUMERATED:,} (numerics.ENUMERATED); '
            f"here are {count:,}. {way_out}"
        )
