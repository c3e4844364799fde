"""Random bits that are a function of a seed and a number: the same on every device, in any order.

The mixing is SplitMix64's (Steele, Lea and Flood 2014), in integers that wrap around.
"""

import torch
from torch import Tensor

from tellmost.shapes import Float, Int

GOLDEN = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
BITS = 64


def wrapped(number: int) -> int:
    """As a signed number of 64 bits."""
    number %= 2**BITS
    return number - 2**BITS if number >= 2 ** (BITS - 1) else number


def mixed(numbers: Int[Tensor, "*size"], seed: int) -> Int[Tensor, "*size"]:
    """64 random bits for each number."""
    z = (numbers + 1) * wrapped(GOLDEN) + wrapped((seed + 1) * MULTIPLIERS[0])
    for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
        z = (z ^ shifted(z, shift)) * wrapped(multiplier)
    return z ^ shifted(z, 31)


def shifted(z: Int[Tensor, "*size"], by: int) -> Int[Tensor, "*size"]:
    """To the right, with zeros coming in from the left."""
    return (z >> by) & (2 ** (BITS - by) - 1)


def signs(
    rows: Int[Tensor, " r"], columns: int, seed: int, dtype: torch.dtype
) -> Float[Tensor, "r c"]:
    """1 or -1 for each row and column: a bit each of the words of a row.

    Bytes are looked up in a table of their eight signs, several times faster than bit by bit.
    """
    words = -(-columns // BITS)
    numbers = rows[:, None] * words + torch.arange(words, device=rows.device)
    octets = mixed(numbers, seed).view(torch.uint8).flatten().to(torch.int32)
    return signs_of_bytes(dtype, rows.device)[octets].reshape(len(rows), -1)[:, :columns]


def signs_of_bytes(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "256 8"]:
    bits = torch.arange(256, device=device)[:, None] >> torch.arange(8, device=device)
    return (1 - 2 * (bits & 1)).to(dtype)
