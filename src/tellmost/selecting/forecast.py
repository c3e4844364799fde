"""Which rows will be picked next: greedy selection on the best rows of now.

A wrong forecast costs a pass over the rows, never a pick.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import Rule
from tellmost.running.processes import Place
from tellmost.selecting.limits import Eligibility
from tellmost.shapes import Bool, Float, Int

REMEMBERED = 1_024
"""So many of the best rows are kept during a pass over rows that cannot be had singly."""


@dataclass(frozen=True)
class Shortlist:
    """The best rows by their scores, by their overall numbers."""

    rows: Int[Tensor, " b"]
    is_open: Bool[Tensor, " b"]
    cost: Float[Tensor, " b"]  # what gains are divided by

    def led_by(self, row: int) -> "Shortlist":
        """The same with this row, which may be missing, in front."""
        order = torch.cat([(self.rows == row).nonzero()[:, 0], (self.rows != row).nonzero()[:, 0]])
        led = Shortlist(self.rows[order], self.is_open[order], self.cost[order])
        if len(led.rows) and int(led.rows[0]) == row:
            return led
        return Shortlist(
            torch.cat([led.rows.new_tensor([row]), led.rows]),
            torch.cat([led.is_open.new_zeros(1), led.is_open]),
            torch.cat([led.cost.new_ones(1), led.cost]),
        )


def find_shortlist(
    scores: Float[Tensor, " n"],
    tracker: Tracker,
    eligibility: Eligibility,
    place: Place,
    length: int,
) -> Shortlist:
    """The best rows of all processes, from the scores of the rows here."""
    most = min(max(length, REMEMBERED), len(scores))
    rows = tracker.shortlisted(scores.topk(most).indices)[:length]
    is_open, cost = eligibility.terms(rows)
    numbers = (rows + place.first).double()
    table = torch.stack([numbers, scores[rows], is_open.double(), cost], dim=1)
    joined, _ = place.exchange.join(table, [], length)
    best = joined[joined[:, 1].topk(min(length, len(joined))).indices].to(scores.device)
    return Shortlist(best[:, 0].long(), best[:, 2] > 0, best[:, 3])


def scores_to_come(
    tracker: Tracker, rule: Rule, eligibility: Eligibility, steps: int
) -> Float[Tensor, " n"]:
    """Of a rule that draws anew at each step: how near each row comes to the best of any of the
    next steps, were nothing to change but the draws. A draw is known before its step."""
    nearest = torch.full_like(eligibility.closed, -torch.inf, dtype=torch.float64)
    for ahead in range(1, steps + 1):
        gains = [
            rule.gain(replace(state, step=state.step + ahead)) for _, _, state in tracker.states()
        ]
        scores = eligibility.score(torch.cat([nearest[:0], *gains]))
        best = float(scores.max()) if len(scores) else 0.0
        nearest = torch.maximum(nearest, scores / best if best > 0 else scores)
    return nearest


def forecast(
    tracker: Tracker,
    rule: Rule,
    shortlist: Shortlist,
    row: int,
    count: int,
    *,
    repeats: bool,
) -> list[int]:
    """The row and the next picks, were the shortlist all there is; budget and groups apart."""
    shortlist = shortlist.led_by(row)
    draft, expected = tracker.draft(shortlist.rows), [0]
    is_open = shortlist.is_open.clone()
    while len(expected) < count:
        draft.observe(expected[-1])
        scores = rule.gain(draft.state) / shortlist.cost
        is_open[expected[-1]] &= repeats
        scores = scores.masked_fill(~is_open, -torch.inf)
        best = int(scores.argmax())
        if float(scores[best]) == -torch.inf:
            break
        expected.append(best)
    return shortlist.rows[expected].tolist()
