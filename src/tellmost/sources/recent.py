"""Rows that were read lately, so that they need not be read again."""

from collections import OrderedDict

import torch
from torch import Tensor


class RecentRows:
    """The rows that were asked for last, at most so many, in memory taken once.

    Not a row at a time: small pieces between large blocks that come and go keep the memory of
    the blocks from being used again.
    """

    def __init__(self, most: int, row: tuple[int, ...], dtype: torch.dtype) -> None:
        self.most = most
        self._size, self._dtype = (most, *row), dtype
        self._memory: Tensor | None = None
        self._places: OrderedDict[int, int] = OrderedDict()  # the longest unused comes first

    def find(self, number: int) -> Tensor | None:
        """A row, good until another one is kept."""
        if self._memory is None or number not in self._places:
            return None
        self._places.move_to_end(number)
        return self._memory[self._places[number]]

    def has(self, number: int) -> bool:
        return number in self._places

    def keep(self, number: int, row: Tensor) -> None:
        if self._memory is None:
            self._memory = torch.empty(self._size, dtype=self._dtype, device=row.device)
        place = self._places.pop(number, len(self._places))
        if place == self.most:
            place = self._places.popitem(last=False)[1]
        self._memory[place] = row
        self._places[number] = place
