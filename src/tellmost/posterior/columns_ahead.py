r"""Looking ahead: forecast the next picks, and make their posterior columns in one pass.

A column is made for the posterior of that moment. Each observation since then has changed it by
a known multiple of the observed row's column, which is kept. So a column at hand is brought up to
date without reading the rows again:

.. math:: k_{t+1}(\cdot, x_j) = k_t(\cdot, x_j) - k_t(\cdot, x_i)\, k_t(x_i, x_j) / s_i.

The last factor is a product of features, since row j may be on another process. Which rows will
be observed is forecast by a Draft. A wrong forecast costs a pass, never a pick.

How many columns should a pass make? It reads the rows once and multiplies them with r vectors for
each of T columns. In units of the reading time it costs :math:`1 + rT/B`, with the machine's
balance B (``BALANCE``). Of the T columns about :math:`T / (1 + T/R)` are used before the forecast
fails, with its reach R (``numerics.FORECAST_REACH``). The cost of a pick,

.. math:: \Big(1 + \frac{rT}{B}\Big) \Big(\frac1T + \frac1R\Big), \qquad
    \text{is least at} \quad T = \sqrt{B R / r}.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import sqrt

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.posterior.nearness import nearer, nearness
from tellmost.posterior.problem import (
    CHOSEN_FIELDS,
    FewRows,
    Problem,
    State,
    covariance_fields,
    nonnegative,
)
from tellmost.posterior.weight_space import Change, Predictable, Taken
from tellmost.shapes import Float

BALANCE = {"cpu": 4.0, "cuda": 32.0}
"""So many products with a vector take as long as reading the rows once."""

STREAMED_BALANCE = 40.0
"""The balance for rows that come from a file: 30 GFLOP/s of two CPU cores against a disk that is
assumed to give 1.5 GB/s."""

SHORTLIST = 512
"""A forecast looks at this many of the best rows, at most."""


class ColumnsAhead:
    """Columns of some rows, one per running value of the rule, and those used since the pass."""

    def __init__(self, running: dict[str, Predictable], count: int, device: torch.device) -> None:
        """``count`` is the number of candidates."""
        self.running = running
        self._memory = torch.empty(0, count, dtype=torch.float64, device=device)
        self._places: dict[int, list[int]] = {}  # of each row; several if it may repeat
        self._columns = self._memory[None]
        self._features = self._memory  # of the rows whose columns these are
        self._taken: list[Taken] = []

    def room(self, rows: Sequence[int], features: Float[Tensor, "T d"]) -> Float[Tensor, "_qT _n"]:
        """Memory for the products that make the columns of these rows; forgets all others.

        The products of all rows for the first running value come first, then for the second.
        """
        needed, count = len(self.running) * len(rows), self._memory.shape[1]
        if len(self._memory) < needed:
            self._memory = self._memory.new_empty(max(needed, 2), count)
        self.forget()
        for place, row in enumerate(rows):
            self._places.setdefault(row, []).append(place)
        self._columns = self._memory[:needed].view(len(self.running), len(rows), count)
        self._features = features
        return self._memory[:needed]

    def forget(self) -> None:
        self._places.clear()
        self._taken.clear()

    def has(self, row: int) -> bool:
        return bool(self._places.get(row))

    def take(self, row: int) -> dict[str, Float[Tensor, " n"]]:
        """The columns of a row, brought up to date; good until ``room`` is asked for again."""
        place = self._places[row].pop(0)
        columns = dict(zip(self.running, self._columns[:, place], strict=True))
        phi = self._features[place]
        for taken in self._taken:
            for name, run in self.running.items():
                run.carry(columns[name], taken, phi)
        return columns

    def keep(self, columns: Mapping[str, Tensor], changes: Mapping[str, Change]) -> None:
        """Remember the columns of the row that was just observed."""
        self._taken.append(Taken(columns, changes))


def columns_ahead(problem: Problem, per_column: int, kept: Tensor | None) -> int:
    """Choose T, the number of columns that one pass makes.

    What the caller chose comes first, as far as memory and rows allow.
    """
    best = problem.columns_ahead
    if best is None:
        by_cost = round(sqrt(balance_of(problem) * numerics.FORECAST_REACH / per_column))
        best = min(by_cost, numerics.MOST_COLUMNS_AHEAD)
    left = max(problem.memory - (0 if kept is None else 8 * kept.numel()), 0)
    room = left // (8 * per_column * problem.most_rows)
    here = max(1, min(best, room, problem.row_count))
    return problem.least(here)  # all processes look ahead alike


def balance_of(problem: Problem) -> float:
    if problem.rows.held is None:
        return STREAMED_BALANCE
    return BALANCE.get(problem.device.type, BALANCE["cuda"])


def shortlist_length(problem: Problem, width: int) -> int:
    """A forecast looks at so many rows. They cost a quarter of a pass, if that is enough."""
    d = problem.rows.dimension
    affordable = problem.most_rows * width // (4 * max(d, 1))
    return min(max(affordable, 4 * width), SHORTLIST, problem.row_count)


@dataclass
class Draft:
    """A joint posterior of some rows and the targets; ``observe`` conditions it in place."""

    state: State  # given with the fields that are not made of what follows
    needs: Set[str]
    variance: Float[Tensor, "b b"]
    given_targets: Float[Tensor, "b b"] | None = None
    covariance: Float[Tensor, "b m"] | None = None  # with the targets
    # squared covariances by their names, as rows whose squares add up to them
    projected: Mapping[str, Float[Tensor, "b _r"]] = field(default_factory=dict)
    prior: Float[Tensor, "b b"] | None = None  # given if nearness to the chosen is read

    def __post_init__(self) -> None:
        targets = self.state.targets
        if targets is not None:  # the tracker updates its own in place
            targets = replace(targets, variance=targets.variance.clone())
        self.state = replace(self.state, fields=self._fields(), targets=targets)

    def observe(self, place: int) -> None:
        """Condition on an observation of one of the rows, by its place among them."""
        noise = self.state.noise_variance[place]
        column = self.variance[:, place].clone()
        s = column[place] + noise
        if self.covariance is not None and self.state.targets is not None:
            of_targets = self.covariance[place].square() / s
            nonnegative(self.state.targets.variance.sub_(of_targets))
        for against in (self.covariance, *self.projected.values(), self.variance):
            if against is not None:
                against.sub_(column[:, None] * (against[place] / s))
        if self.given_targets is not None:
            seen = self.given_targets[:, place].clone()
            self.given_targets.sub_(seen[:, None] * (seen / (seen[place] + noise)))
        fields = self._fields() | self._nearness(place)
        self.state = replace(self.state, step=self.state.step + 1, fields=fields)

    def _nearness(self, place: int) -> dict[str, Tensor]:
        """Nearness to the chosen, once the row at this place is chosen too."""
        if self.prior is None:
            return {}
        column, variance = self.prior[:, [place]], self.prior.diagonal()
        return {
            name: nearer(name, values, nearness(name, column, variance, variance[[place]])[:, 0])
            for name, values in self.state.fields.items()
            if name in CHOSEN_FIELDS
        }

    def _fields(self) -> dict[str, Tensor]:
        fields = dict(self.state.fields)
        if "variance" in self.needs:
            fields["variance"] = nonnegative(self.variance.diagonal().clone())
        if self.given_targets is not None:
            fields["variance_given_targets"] = nonnegative(self.given_targets.diagonal().clone())
        if self.covariance is not None and self.state.targets is not None:
            fields |= covariance_fields(self.covariance, self.state.targets, self.needs)
        for name, projected in self.projected.items():
            fields[name] = projected.square().sum(dim=1)
        return fields


class RowsAtHand:
    """The rows that were looked at last, so that no process is asked for them again."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._kept: FewRows | None = None
        self._places: dict[int, int] = {}

    def keep(self, rows: Sequence[int]) -> FewRows:
        """Keep these rows, and forget all others."""
        self._kept = self.get(rows)
        self._places = {row: place for place, row in enumerate(rows)}
        return self._kept

    def get(self, rows: Sequence[int]) -> FewRows:
        if self._kept is not None and all(row in self._places for row in rows):
            return self._kept.some([self._places[row] for row in rows])
        return FewRows.read(self._problem, torch.tensor(rows))
