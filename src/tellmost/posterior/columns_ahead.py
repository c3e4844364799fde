r"""Posterior columns of rows that are likely to be observed soon, all made in one pass.

A column is made for the posterior of that moment. Each observation since then has changed it by
a known multiple of its own column, which is kept, so a column at hand is brought up to date
without reading the rows again:

.. math:: k_{t+1}(\cdot, x_j) = k_t(\cdot, x_j) - k_t(\cdot, x_i)\, k_t(x_i, x_j) / s_i.

The last factor is a product of features, since row j may be on another process.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.posterior.weight_quantities import Predictable, Taken
from tellmost.shapes import Float


@dataclass
class ColumnsAhead:
    """Columns of some rows, one per running value of the rule, and those used since the pass."""

    running: dict[str, Predictable]
    count: int  # of candidates
    device: torch.device

    def __post_init__(self) -> None:
        self._memory = torch.empty(0, self.count, dtype=torch.float64, device=self.device)
        self._places: dict[int, list[int]] = {}  # of each row; several if it may repeat
        self._columns = self._memory.view(0, 0, self.count)
        self._features = self._memory  # of the rows whose columns these are
        self._taken: list[Taken] = []

    def room(self, rows: Sequence[int], features: Float[Tensor, "T d"]) -> Float[Tensor, "_qT _n"]:
        """Memory for the products that make the columns of these rows; forgets all others.

        The products of all rows for the first running value come first, then for the second.
        """
        needed = len(self.running) * len(rows)
        if len(self._memory) < needed:
            self._memory = self._memory.new_empty(max(needed, 2), self.count)
        self.forget()
        for place, row in enumerate(rows):
            self._places.setdefault(row, []).append(place)
        self._columns = self._memory[:needed].view(len(self.running), len(rows), self.count)
        self._features = features
        return self._memory[:needed]

    def forget(self) -> None:
        self._places.clear()
        self._taken.clear()

    def has(self, row: int) -> bool:
        return bool(self._places.get(row))

    def take(self, row: int) -> dict[str, Float[Tensor, " n"]]:
        """The columns of a row, as of now; good until ``room`` is asked for again."""
        place = self._places[row].pop(0)
        columns = dict(zip(self.running, self._columns[:, place], strict=True))
        phi = self._features[place]
        for taken in self._taken:
            for name, run in self.running.items():
                run.carry(columns[name], taken, phi)
        return columns

    def keep(self, columns: dict[str, Tensor]) -> None:
        """Remember the columns of the row that was just observed."""
        vectors = {name: run.vector() for name, run in self.running.items()}
        scales = {name: run.scale for name, run in self.running.items()}
        self._taken.append(Taken(columns, vectors, scales))
