"""A strategy chooses among the points of a round, in place of targets and rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.learner.climbing import best_row
from tellmost.rows.checks import check_object, check_word
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.round_state import RoundState, Tracking
from tellmost.shapes import Bool, Float


@dataclass(frozen=True)
class RoundView:
    """A round as a strategy sees it."""

    state: RoundState
    is_open: Bool[Tensor, " n"]  # the rows that may be asked for: at least one
    seed: int  # of this round: the same data give the same number

    @property
    def is_safe(self) -> Bool[Tensor, " n"]:
        """S_n among the rows of the domain."""
        return self.state.safe_rows

    @property
    def widths(self) -> Float[Tensor, " n"]:
        """The width of the widest interval of each row, in prior standard deviations."""
        return (self.state.bounds.upper - self.state.bounds.lower).amax(dim=0)

    @property
    def generator(self) -> torch.Generator:
        """A generator for random choices of this round. It starts afresh each time."""
        return torch.Generator().manual_seed(self.seed)

    def best(
        self, scores: Float[Tensor, " n"], is_wanted: Bool[Tensor, " n"] | None = None
    ) -> int:
        """The open row of the highest score: of the wanted ones, if some of them are open."""
        among = self.is_open if is_wanted is None else self.is_open & is_wanted
        among = among if bool(among.any()) else self.is_open
        return best_row(scores.where(among, -torch.inf))


@dataclass(frozen=True)
class Choice:
    """A row, and what it is to teach: about points that are safe, or whether others are."""

    row: int
    purpose: Literal["explore", "expand"]


@runtime_checkable
class QueryStrategy(Protocol):
    """Chooses where to measure next.

    The seeds that were not told yet come first, whatever the strategy. A strategy that is
    ``Tracking`` makes a safe set of its own. If ``keeps_safe`` is False all near rows are open,
    and queries that nothing proves safe have the purpose "risk".
    """

    @property
    def keeps_safe(self) -> bool:
        """If true, it asks only for points that are known to be safe."""
        return True

    def choose(self, view: RoundView) -> Choice:
        """One of the open rows."""


def check_strategy(
    strategy: Any, constraints: Mapping[str, Constraint], is_alone: bool, has_horizon: bool
) -> QueryStrategy | None:
    """``is_alone``: neither a rule nor targets were given beside it."""
    if strategy is None:
        return None
    example = "an object of tellmost.safebo.baselines, or have keeps_safe and choose(view)"
    check_object(strategy, "strategy", QueryStrategy, example)
    if not is_alone:
        raise ValueError("strategy chooses in place of rule and targets: give one or the other.")
    if isinstance(strategy, Tracking) and has_horizon:
        raise ValueError(
            f"strategy {strategy!r} has a safe set of its own, whose risk is not known: give "
            f"confidence without horizon."
        )
    without = [name for name, one in constraints.items() if one.slope is None]
    if isinstance(strategy, Tracking) and without:
        raise ValueError(
            f"strategy {strategy!r} needs a Lipschitz constant of every constraint; "
            f"{without[0]!r} has none. Give tm.Constraint(..., lipschitz=...)."
        )
    return strategy


def check_choice(choice: Any, is_open: Bool[Tensor, " n"], strategy: QueryStrategy) -> Choice:
    """Refuse a wrong choice: a strategy of the caller's own must not become dangerous by it."""
    row: Any = getattr(choice, "row", None)
    is_number = isinstance(row, int | np.integer) and not isinstance(row, bool)
    is_row = isinstance(choice, Choice) and is_number and 0 <= row < len(is_open)
    if not is_row or not bool(is_open[row]):
        raise ValueError(
            f"strategy {strategy!r} must choose a row of view.is_open; it chose {choice!r}."
        )
    check_word(choice.purpose, f"the purpose of strategy {strategy!r}", ("explore", "expand"))
    return Choice(int(choice.row), choice.purpose)
