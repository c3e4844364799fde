"""Which points a round looks at: what may be asked for, and where something is known already."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.safebo.spaces import Space, with_context
from tellmost.shapes import Bool, Float


@dataclass(frozen=True)
class Layout:
    """Points of a round, and the rows at which things are found among them."""

    points: Points
    is_candidate: Bool[Tensor, " n"]
    seeds: tuple[int, ...]  # a row for each declared seed
    trials: tuple[int, ...]  # a row for each trial
    data: tuple[tuple[int, ...], ...]  # of each output, a row for each observation of its prior
    pending: tuple[int, ...]


class _Rows:
    """Points that are put one under the other."""

    def __init__(self) -> None:
        self._points: list[Points] = []
        self._is_candidate: list[Tensor] = []
        self._count = 0

    def add(self, points: Points, is_candidate: bool) -> tuple[int, ...]:
        self._points.append(points)
        self._is_candidate.append(torch.full((len(points),), is_candidate))
        self._count += len(points)
        return tuple(range(self._count - len(points), self._count))

    def together(self) -> tuple[Points, Bool[Tensor, " n"]]:
        return torch.cat(self._points), torch.cat(self._is_candidate)


def lay_out_rows(
    rows: Float[Tensor, "n d"], seeds: Sequence[int], data: Sequence[Points]
) -> Layout:
    """A finite domain: its rows, and behind them where the priors have data elsewhere."""
    together = _Rows()
    together.add(rows, True)
    of_data = tuple(together.add(points, False) for points in data)
    points, is_candidate = together.together()
    return Layout(points, is_candidate, tuple(seeds), (), of_data, ())


def lay_out_round(
    space: Space,
    searched: Points,
    context: Float[Tensor, " c"],
    *,
    seeds: Sequence[tuple[int | None, Tensor]],
    trials: Sequence[Tensor],
    extra: Sequence[Tensor],
    data: Sequence[Points],
    pending: Sequence[Tensor],
) -> Layout:
    """A box, or a domain under a context: what is searched now, and where something is known.

    Trials come with the context they had; what they set may be asked for under the present one.
    Seeds of a domain are rows of it, which come first.
    """
    d, width = space.dimension, space.dimension + len(space.contexts)
    together = _Rows()
    together.add(with_context(searched, context), True)
    of_seeds = tuple(row for row, _ in seeds if row is not None)
    if space.box is not None:
        declared = _stack([point for _, point in seeds], d)
        of_seeds = together.add(with_context(declared, context), True)
    known = _stack(trials, width)
    of_trials = together.add(known, not len(context))
    if len(context) and space.box is not None:
        together.add(with_context(known[:, :d], context), True)
    together.add(with_context(_stack(extra, d), context), True)
    of_data = tuple(together.add(points, False) for points in data)
    of_pending = together.add(_stack(pending, width), False)
    points, is_candidate = together.together()
    return Layout(points, is_candidate, of_seeds, of_trials, of_data, of_pending)


def _stack(points: Sequence[Tensor], width: int) -> Points:
    if not points:
        return torch.empty(0, width, dtype=torch.float64)
    return torch.stack(list(points))
