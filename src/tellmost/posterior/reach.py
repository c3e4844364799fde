r"""How many columns to make in one pass: a model of what a pick costs.

A pass reads the rows once and multiplies them with r vectors for each of T columns. In units of
the reading time it costs :math:`1 + rT/B`, with the machine's balance B (``numerics.BALANCE``).
Of the T columns about :math:`T / (1 + T/R)` are used before the forecast fails, with its reach R
(``numerics.FORECAST_REACH``). The cost of a pick,

.. math:: \Big(1 + \frac{rT}{B}\Big) \Big(\frac1T + \frac1R\Big), \qquad
    \text{is least at} \quad T = \sqrt{B R / r}.
"""

from math import sqrt

from torch import Tensor

from tellmost import numerics
from tellmost.posterior.problem import Problem


def columns_ahead(problem: Problem, per_column: int, kept: Tensor | None) -> int:
    """T for a problem whose columns take so many products each, beside covariances that are kept;
    the caller's choice goes first, as far as memory and rows go."""
    best = problem.columns_ahead
    if best is None:
        by_cost = round(sqrt(balance_of(problem) * numerics.FORECAST_REACH / per_column))
        best = min(by_cost, numerics.MOST_COLUMNS_AHEAD)
    left = max(problem.memory - (0 if kept is None else 8 * kept.numel()), 0)
    room = left // (8 * per_column * problem.place.largest)
    here = max(1, min(best, room, problem.place.total))
    return problem.place.least(here)  # all processes look ahead alike


def balance_of(problem: Problem) -> float:
    """B for these rows, wherever they come from."""
    if problem.rows.held is None:
        return numerics.STREAMED_BALANCE
    return numerics.BALANCE.get(problem.device.type, numerics.BALANCE["cuda"])


def shortlist_length(problem: Problem, width: int) -> int:
    """Rows that a forecast looks at: as many as cost a quarter of a pass, if that is enough."""
    d = problem.rows.dimension
    affordable = problem.place.largest * width // (4 * max(d, 1))
    return min(max(affordable, 4 * width), numerics.SHORTLIST, problem.place.total)
