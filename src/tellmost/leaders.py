"""The rows that may be the best: found by running gains, measured afresh, compared up to ties.

Processes that share a pool bring their own leaders together and decide alike. A process compares
its rows with the best of its own, which is at most the best of all, so no row that ties with the
best of all is left out; where it had to cut a long list of ties short, it makes the list again,
compared with the best of all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.eligibility import Eligibility
from tellmost.running.processes import Place
from tellmost.shapes import Float, Int

Measure = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Running gains, gains and scores of some rows of this process."""


NO_NUMBERS = (
    "the rule gave NaN or an infinity as a gain. (a) The noise is so small beside the prior "
    "variance that float64 cannot tell what is left from rounding: raise noise_std or "
    "noise_ratio; a ratio of 1e-12 is safe. (b) The rule is your own: "
    "tellmost.testing.check_rule says where."
)


@dataclass(frozen=True)
class Leaders:
    """Rows by their overall numbers, with their running gains, fresh gains and scores."""

    rows: list[int]
    running: list[float]
    gains: list[float]
    scores: list[float]

    def best(self, first: float | None) -> tuple[int, float]:
        return best_of(self.rows, self.gains, self.scores, first)

    @property
    def drift(self) -> float:
        """How far the running gains are from the fresh ones, relative to the largest."""
        scale = max(abs(gain) for gain in self.gains)
        pairs = zip(self.running, self.gains, strict=True)
        return max(abs(old - new) for old, new in pairs) / scale if scale > 0 else 0.0


def find_leaders(
    place: Place, scores: Float[Tensor, " n"], first: float | None, measure: Measure
) -> Leaders:
    """The leaders of all processes, from the scores of the rows here."""
    leaders, about = _compared_with(largest(scores), place, scores, first, measure)
    overall = best_of_all([best for best, _ in about])
    if _is_lossy(about, overall, first):
        leaders, _ = _compared_with(overall, place, scores, first, measure)
    return leaders


def _compared_with(
    best: float, place: Place, scores: Float[Tensor, " n"], first: float | None, measure: Measure
) -> tuple[Leaders, list[list[float]]]:
    """The leaders of all, and of each process its best and whether its list was cut short."""
    rows, is_cut = leading(scores, first, best)
    numbers = (rows + place.first).to(torch.float64)
    table = torch.stack([numbers, *measure(rows)], dim=1)
    joined, about = place.exchange.join(table, [best, is_cut], 2 * numerics.LEADERS)
    columns = joined.T.tolist()
    return Leaders([int(number) for number in columns[0]], *columns[1:]), about


def best_of_all(bests: list[float]) -> float:
    if any(best != best for best in bests):
        raise ValueError(NO_NUMBERS)
    return max(bests)


def _is_lossy(about: list[list[float]], overall: float, first: float | None) -> bool:
    """Whether a process cut its leaders short in a comparison with less than the best of all."""
    least = overall - tie_width(overall, first)
    return any(is_cut and least <= best < overall for best, is_cut in about)


def largest(values: Float[Tensor, " n"]) -> float:
    return float(values.max()) if len(values) else -torch.inf


def largest_open(
    gains: Float[Tensor, " n"], eligibility: Eligibility, place: Place
) -> float | None:
    """The largest gain of an eligible row, whatever it costs; None if there is none."""
    here = largest(gains.masked_fill(eligibility.closed, -torch.inf))
    overall = float(place.exchange.gather(torch.tensor(here, dtype=torch.float64)).max())
    return None if overall == -torch.inf else overall


def leading(
    scores: Float[Tensor, " n"], first: float | None, best: float
) -> tuple[Int[Tensor, " b"], bool]:
    """The rows that may be the best once scored afresh, ascending; whether some are left out."""
    if best == -torch.inf or best != best:
        return torch.empty(0, dtype=torch.int64, device=scores.device), False
    band = numerics.LEADER_BAND * abs(best) + tie_width(best, first)
    leaders = (scores >= best - band).nonzero()[:, 0]
    if len(leaders) <= numerics.LEADERS:
        return leaders, False
    ties = (scores >= best - tie_width(best, first)).nonzero()[: numerics.LEADERS, 0]
    highest = leaders[scores[leaders].topk(numerics.LEADERS).indices]
    return torch.unique(torch.cat([ties, highest])), True


def best_of(
    rows: list[int], gains: list[float], scores: list[float], first: float | None
) -> tuple[int, float]:
    """The first of the rows whose scores are the best up to ties, and its gain."""
    best = max(scores)  # a few numbers: plain Python is faster here
    if not all(score < inf for score in scores):  # NaN is not; -inf is: a gain below the least
        raise ValueError(NO_NUMBERS)
    least = best - tie_width(best, first)
    winner = min((row, i) for i, row in enumerate(rows) if scores[i] >= least)[1]
    return rows[winner], gains[winner]


def tie_width(best: float, first: float | None) -> float:
    """How far below the best a score still ties with it."""
    if best == -torch.inf:
        return 0.0
    return numerics.TIE_TOLERANCE * abs(best) + numerics.TIE_FLOOR * abs(first or 0.0)
