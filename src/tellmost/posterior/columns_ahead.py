r"""Looking ahead: forecast the next picks, and make their posterior columns in one pass.

With an inner product a column is a product of all rows with a vector, which depends on the rows
that are observed before. The vectors of several rows are therefore made for one order, in which
these rows are expected to be observed. Which rows these are is forecast by a draft: a small copy
of what is known, on which observations are tried. A wrong forecast costs a pass, never a pick.

How many columns should a pass make? It reads the rows once and multiplies them with r vectors for
each of T columns. In units of the reading time it costs :math:`1 + rT/B`, with the machine's
balance B (``BALANCE``). Of the T columns about :math:`T / (1 + T/R)` are used before the forecast
fails, with its reach R (at first ``numerics.FORECAST_REACH``). The cost of a pick,

.. math:: \Big(1 + \frac{rT}{B}\Big) \Big(\frac1T + \frac1R\Big), \qquad
    \text{is least at} \quad T = \sqrt{B R / r}.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Protocol, runtime_checkable

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
from tellmost.posterior.weight_space import Beliefs, Effect, Running
from tellmost.shapes import Float, Int

BALANCE = {"cpu": 11.0, "cuda": 32.0}
"""So many products with a vector take as long as reading the rows once. On one thread of a CPU a
block of 1,024 x 768 rows takes 0.27 ms, and 0.024 ms for each product."""

PRODUCTS_AT_ONCE = 8
"""A core makes so many products in one step: of 10,000 x 256 rows 48 take 5.1 ms, and 46 take
5.7 ms."""

COLUMNS_SHARE = 1 / 8
COLUMNS_BYTES = 32 * 2**20
"""Columns take at most this share of what the rows take as they are stored, or so much. Twice the
share is no faster on a CPU. Where passes count, from files and on a GPU, they take twice of it."""

STREAMED_BALANCE = 40.0
"""The balance for rows that come from a file: 30 GFLOP/s of two CPU cores against a disk that is
assumed to give 1.5 GB/s."""

SHORTLIST_SHARE = 1 / 48
"""A forecast in weight space looks at this share of the rows. Where rows come in clusters, the
best rows are near-copies of few, so a short list would not have the next picks. It takes about a
twentieth of the time of a pass."""

SHORTLIST_BYTES = 16 * 2**20
"""The features of these rows take so much memory at most."""

SHORTLIST = 512
"""A forecast looks at so many rows at most where their joint covariance or their covariances with
the targets are needed, where rows are streamed, or where processes tell each other features."""


@dataclass
class ColumnsAhead:
    """Columns of the rows that are expected to be observed next, in this order."""

    _memory: Float[Tensor, "_ n"]
    _rows: list[int] = field(default_factory=list)
    _effects: list[Effect] = field(default_factory=list)
    _columns: Tensor | None = None  # (q, T, n), one for each running value

    def room(
        self, values: int, rows: Sequence[int], effects: Sequence[Effect]
    ) -> Float[Tensor, "_qT _n"]:
        """Memory for so many columns of each of these rows, two at least; forgets all others.

        The columns of all rows for the first running value come first, then for the second.
        """
        needed, count = values * len(rows), self._memory.shape[1]
        if len(self._memory) < max(needed, 2):
            self._memory = self._memory.new_empty(max(needed, 2), count)
        self._columns = self._memory[:needed].view(values, len(rows), count)
        self._rows, self._effects = list(reversed(rows)), list(reversed(effects))
        return self._memory[: max(needed, 2)]

    def forget(self) -> None:
        self._rows.clear()

    def has(self, row: int) -> bool:
        """Say whether this row is the one that was expected to be next."""
        return bool(self._rows) and self._rows[-1] == row

    def effect_of(self, rows: Int[Tensor, " b"]) -> Effect | None:
        """What observing the next row does, if that is the only one of these rows."""
        return self._effects[-1] if len(rows) == 1 and self.has(int(rows[0])) else None

    def take(self) -> tuple[Effect, Float[Tensor, "q n"]]:
        """The next row's effect and columns, good until ``room`` is asked for again."""
        assert self._columns is not None
        self._rows.pop()
        return self._effects.pop(), self._columns[:, -1 - len(self._rows)]


def columns_ahead(problem: Problem, per_column: int, kept: Tensor | None) -> int:
    """Choose T, the number of columns that one pass makes.

    What the caller chose comes first, as far as memory and rows allow.
    """
    best = problem.columns_ahead
    if best is None:
        by_cost = width_by_cost(problem, per_column, numerics.FORECAST_REACH)
        stored = problem.rows.source.dtype.itemsize * problem.rows.dimension * problem.most_rows
        share = COLUMNS_SHARE * (1 if balance_of(problem) == BALANCE["cpu"] else 2)
        by_size = max(share * stored, COLUMNS_BYTES) // (8 * per_column * problem.most_rows)
        best = min(by_cost, int(by_size), numerics.MOST_COLUMNS_AHEAD)
    left = max(problem.memory - (0 if kept is None else 8 * kept.numel()), 0)
    room = left // (8 * per_column * problem.most_rows)
    here = max(1, min(best, room, problem.row_count))
    return problem.least(here)  # all processes look ahead alike


def width_by_cost(problem: Problem, per_column: int, reach: float) -> int:
    """So many columns cost least for each pick, if forecasts reach so far."""
    count = sqrt(balance_of(problem) * reach / per_column)
    full = round(count * per_column / PRODUCTS_AT_ONCE) * PRODUCTS_AT_ONCE
    return max(full // per_column, 1)


def width_to_take(problem: Problem, per_column: int, most: int, reach: float) -> int:
    """The same, at most so many; but what the caller chose, and what processes agreed on."""
    if problem.columns_ahead is not None or problem.shard is not None:
        return most
    return min(most, width_by_cost(problem, per_column, reach))


def balance_of(problem: Problem) -> float:
    if problem.rows.held is None:
        return STREAMED_BALANCE
    return BALANCE.get(problem.device.type, BALANCE["cuda"])


def shortlist_length(problem: Problem, width: int, *, is_joint: bool = False) -> int:
    """A forecast of so many picks looks at so many rows. It may need their joint covariance."""
    share = int(SHORTLIST_SHARE * problem.row_count)
    most_bytes = min(SHORTLIST_BYTES, problem.memory // 4)
    affordable = most_bytes // (8 * max(problem.rows.dimension, 1))
    length = max(min(share, affordable), 4 * min(width, problem.picks or width))
    is_costly = (
        problem.shard is not None or problem.rows.is_streamed or "covariance" in problem.needs
    )
    if is_joint or is_costly:
        length = min(length, SHORTLIST)
    return min(length, problem.row_count)


@runtime_checkable
class Draft(Protocol):
    """A small copy of what is known about some rows, to try observations on."""

    @property
    def state(self) -> State: ...

    def observe(self, place: int) -> None:
        """Condition on an observation of one of the rows, by its place among them."""


@dataclass
class WeightDraft:
    """A draft in weight space, which remembers the effects of the observations tried on it."""

    rows: Int[Tensor, " b"]
    step: int
    few: FewRows
    known: Beliefs
    running: Mapping[str, Running]
    fixed: Mapping[str, Tensor]  # fields that no observation changes
    covariance: Float[Tensor, "b m"] | None  # with the targets, if the rule reads them
    observed: list[int] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def state(self) -> State:
        fields = dict(self.fixed) | {name: run.values for name, run in self.running.items()}
        if self.covariance is not None:
            fields["covariance"] = self.covariance
        step, noise = self.step + len(self.observed), self.few.noise_variance
        return State(self.rows, step, noise, fields, self.known.targets.state)

    def observe(self, place: int) -> None:
        phi, noise = self.few.points[place], float(self.few.noise_variance[place])
        effect = self.known.observe(phi, noise, self.running)
        columns = {name: self.few.points @ vector for name, vector in effect.vectors.items()}
        update_rows_by(self.running, self.covariance, columns, effect)
        self.observed.append(int(self.rows[place]))
        self.effects.append(effect)


def update_rows_by(
    running: Mapping[str, Running],
    covariance: Float[Tensor, "n m"] | None,
    columns: Mapping[str, Float[Tensor, " n"]],
    effect: Effect,
) -> None:
    """Take an observation into all that is kept about some rows, in place."""
    for run in running.values():
        run.update(columns, effect)
    if covariance is not None and effect.of_targets is not None:
        s = effect.steps["variance"].s
        covariance.addr_(columns["variance"], effect.of_targets, alpha=-1.0 / s)


@dataclass
class JointDraft:
    """A draft in function space: a joint posterior of some rows and the targets."""

    state: State  # given with the fields that are not made of what follows
    needs: Set[str]
    variance: Float[Tensor, "b b"]
    given_targets: Float[Tensor, "b b"] | None = None
    covariance: Float[Tensor, "b m"] | None = None  # with the targets
    prior: Float[Tensor, "b b"] | None = None  # given if nearness to the chosen is read

    def __post_init__(self) -> None:
        targets = self.state.targets
        if targets is not None:  # the tracker updates its own in place
            targets = replace(targets, variance=targets.variance.clone())
        self.state = replace(self.state, fields=self._fields(), targets=targets)

    def observe(self, place: int) -> None:
        noise = self.state.noise_variance[place]
        column = self.variance[:, place].clone()
        s = float(column[place] + noise)
        if self.covariance is not None and self.state.targets is not None:
            of_targets = self.covariance[place].clone()
            variance = self.state.targets.variance
            nonnegative(variance.addcmul_(of_targets, of_targets, value=-1.0 / s))
            self.covariance.addr_(column, of_targets, alpha=-1.0 / s)
        self.variance.addr_(column, column, alpha=-1.0 / s)
        if self.given_targets is not None:
            seen = self.given_targets[:, place].clone()
            self.given_targets.addr_(seen, seen, alpha=-1.0 / float(seen[place] + noise))
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
        return fields


class RowsAtHand:
    """The rows that were looked at last, so that no process is asked for them again."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._kept: FewRows | None = None
        self._places: dict[int, int] = {}

    def keep(self, rows: Sequence[int]) -> FewRows:
        """Keep these rows, and forget all others."""
        if not self._has(rows):
            self._kept = None  # the new rows may take its memory
        self._kept = self.get(rows)
        self._places = {row: place for place, row in enumerate(rows)}
        return self._kept

    def get(self, rows: Sequence[int]) -> FewRows:
        if self._kept is not None and self._has(rows):
            return self._kept.some([self._places[row] for row in rows])
        return FewRows.read(self._problem, torch.tensor(rows))

    def _has(self, rows: Sequence[int]) -> bool:
        return self._kept is not None and all(row in self._places for row in rows)
