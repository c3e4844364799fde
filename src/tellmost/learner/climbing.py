"""Finds where in a box the gain is largest, by climbs from the best of some points.

Each climb is a projected quasi-Newton ascent in the unit cube. With the slope g and an estimate H
of the inverse of the (negative) second derivatives, the step is H g. It is restricted to the
coordinates that are free to move, shortened to a trust radius, and cut at the faces of the box. H
is learned from the change of the slopes (BFGS; Nocedal and Wright 2006, eq. 6.17), also from steps
that failed. All climbs go side by side: a step is one evaluation and one backward pass of the
summed gains.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.record import Noise
from tellmost.numerics import REFINED_STARTS, TIE_TOLERANCE
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.rules import Rule, is_random
from tellmost.shapes import Bool, Float, Int
from tellmost.targets.box import Box

REFINING_STEPS = 100  # of a climb at most; smooth gains need 5 to 30, in 20 dimensions 60

FIRST_STEP = 0.01
"""The first step of a climb, as a share of each side of the box. It is below the spacing of
hundreds of candidates in two dimensions or more, so that a climb stays on its hill."""

FULL_STEP = 0.9  # a step of this share of the radius was held back: the next may be twice as long
SUFFICIENT_RISE = 1e-4  # the least share of the promised rise for which a step is taken
SHORTENING = 0.25  # a step that was not taken is tried again at this share of its length
LENGTHENING = 4.0  # of the next step, where the gain bends upwards: no maximum is near
LEAST_BEND = 1e-8  # a bend below this share of slope change x length is rounding
REFINED = 1e-12  # a climb ends where the next step would raise the gain by less than this share

Gain = Callable[[Float[Tensor, "b d"]], Float[Tensor, " b"]]
"""The gain of each point by itself, which must be differentiable."""


def find_starts(
    points: Float[Tensor, "n d"], gains: Float[Tensor, " n"], count: int, box: Box
) -> Int[Tensor, " _"]:
    """The rows of the best candidates that have no better one nearby, the best first.

    "Nearby" are the d + 1 nearest candidates (more where distances tie), so each start is likely
    to lie on a hill of its own. A hill between the candidates is not seen: with little noise ITL
    and MM-ITL have narrow ones at the targets, so let the targets be candidates too.
    """
    if bool(gains.isnan().any()):
        raise ValueError(
            f"gains must be numbers; got NaN for row {int(gains.isnan().nonzero()[0])}."
        )
    order = gains.argsort(descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    shares = points / box.width().to(points)
    near = min(box.dimension + 2, len(points))  # itself, and what encloses it: a simplex
    starts = order[:0]
    for rows in torch.split(order, 64):  # mostly enough, without a matrix of all pairs
        apart = torch.cdist(shares[rows], shares, compute_mode="donot_use_mm_for_euclid_dist")
        is_near = apart <= apart.kthvalue(near, keepdim=True).values
        is_better = rank < rank[rows][:, None]
        starts = torch.cat([starts, rows[~(is_near & is_better).any(dim=1)]])
        if len(starts) >= count:
            break
    return starts[:count]


def refine(
    gain: Gain, starts: Float[Tensor, "b d"], box: Box, *, steps: int = REFINING_STEPS
) -> tuple[Float[Tensor, "b d"], Float[Tensor, " b"]]:
    """The end of a climb from each start in the box, and its gain, which is at least the start's.

    A climb ends on a local maximum of a smooth gain, or after so many steps.
    """
    with torch.inference_mode(False), torch.enable_grad():  # slopes are needed in any mode
        here = evaluate(gain, starts.detach().clone(), box)
        trust = Trust.at_first(here)
        for _ in range(steps):
            step = propose(here, trust, box)
            if not bool(step.is_worth_it.any()):
                break
            there = evaluate(gain, step.points, box)
            is_taken = step.is_worth_it & (
                there.gains >= here.gains + SUFFICIENT_RISE * step.promised
            )
            trust = trust.after(step, here.slopes - there.slopes, is_taken)
            here = there.where(is_taken, here)
    return here.points, here.gains


@dataclass(frozen=True)
class Position:
    """The point that each climb has reached, with its gain and slope."""

    points: Float[Tensor, "b d"]
    gains: Float[Tensor, " b"]
    slopes: Float[Tensor, "b d"]  # per side of the box

    def where(self, chosen: Bool[Tensor, " b"], other: "Position") -> "Position":
        """This position for the chosen climbs, the other for the rest."""
        return Position(
            torch.where(chosen[:, None], self.points, other.points),
            torch.where(chosen, self.gains, other.gains),
            torch.where(chosen[:, None], self.slopes, other.slopes),
        )


@dataclass(frozen=True)
class ClimbStep:
    """The next point of each climb, which is taken if its gain is larger."""

    points: Float[Tensor, "b d"]
    moves: Float[Tensor, "b d"]  # in sides of the box
    promised: Float[Tensor, " b"]  # the rise that the slope promises
    is_worth_it: Bool[Tensor, " b"]  # if not, the climb has ended


@dataclass(frozen=True)
class Trust:
    """Each climb has learned how slopes change, and how far to trust that."""

    inverse: Float[Tensor, "b d d"]  # H, of the negative second derivatives
    radius: Float[Tensor, " b"]  # of the next step, in sides of the box
    is_new: Bool[Tensor, " b"]  # whether nothing was learned yet

    @classmethod
    def at_first(cls, here: Position) -> "Trust":
        """The first step goes straight uphill, and has a known length."""
        b, d = here.slopes.shape
        radius = torch.full_like(here.gains, FIRST_STEP)
        scale = radius / longest(here.slopes)
        eye = torch.eye(d).to(here.slopes)
        is_new = torch.ones(b, dtype=torch.bool, device=radius.device)
        return cls(scale[:, None, None] * eye, radius, is_new)

    def after(
        self, step: ClimbStep, falls: Float[Tensor, "b d"], is_taken: Bool[Tensor, " b"]
    ) -> "Trust":
        """Learn from how far the slopes fell. Without a step nothing is learned."""
        length = step.moves.abs().amax(dim=1)
        doubled = (2.0 * self.radius).clamp(max=1.0)
        taken = torch.where(length > FULL_STEP * self.radius, doubled, self.radius)
        radius = torch.where(is_taken, taken, SHORTENING * length)
        falls = falls.where(step.moves != 0, 0.0)  # what could not move teaches nothing
        bend = (step.moves * falls).sum(dim=1)
        least = LEAST_BEND * step.moves.norm(dim=1) * falls.norm(dim=1)
        is_bent = step.is_worth_it & (bend > least)
        scale = torch.where(self.is_new, bend / falls.square().sum(dim=1), 1.0)
        eye = torch.eye(falls.shape[1]).to(falls)
        inverse = torch.where(self.is_new[:, None, None], eye, self.inverse)
        # BFGS: the inverse that maps the falls to the moves, and otherwise changes least
        s, y, rho = step.moves[:, :, None], falls[:, :, None], 1.0 / bend[:, None, None]
        left = eye - rho * s @ y.mT
        learned = left @ (inverse * scale[:, None, None]) @ left.mT + rho * s @ s.mT
        longer = self.inverse * torch.where(is_taken, LENGTHENING, 1.0)[:, None, None]
        return Trust(
            torch.where(is_bent[:, None, None], learned, longer),
            torch.where(step.is_worth_it, radius, self.radius),
            self.is_new & ~is_bent,
        )


def evaluate(gain: Gain, points: Float[Tensor, "b d"], box: Box) -> Position:
    """The gains and slopes at some points. Slopes are 0 if no gain depends on its point."""
    points = points.detach().requires_grad_()
    gains, slopes = gain(points), None
    if gains.shape != (len(points),):
        raise ValueError(
            f"gain must return one number per point; got {tuple(gains.shape)} for "
            f"{tuple(points.shape)}."
        )
    if gains.requires_grad:
        (slopes,) = torch.autograd.grad(gains.sum(), points, allow_unused=True)
    values = gains.detach()
    is_flat = float(values.max() - values.min()) <= TIE_TOLERANCE * float(values.abs().max())
    if slopes is None and not is_flat:
        raise ValueError(
            "gain must be differentiable, but its values differ and do not depend on the points "
            "for autograd. Compute it in torch throughout, without detach() or torch.no_grad()."
        )
    slopes = torch.zeros_like(points) if slopes is None else slopes
    is_finite = values.isfinite() & slopes.isfinite().all(dim=1)
    if not bool(is_finite.all()):
        row = int((~is_finite).nonzero()[0])
        raise ValueError(
            f"gain and its gradient must be finite everywhere in {box!r}; at "
            f"{points[row].tolist()} they are {float(values[row])} and {slopes[row].tolist()}."
        )
    return Position(points.detach(), values, slopes * box.width().to(points))


def propose(here: Position, trust: Trust, box: Box) -> ClimbStep:
    """The next step of each climb, by the second derivatives or straight uphill."""
    low, high = box.corners().to(here.points)
    is_held = (here.points <= low) & (here.slopes < 0) | (here.points >= high) & (here.slopes > 0)
    is_held |= ~box.is_free.to(is_held.device)  # no point lies between two values
    slopes = here.slopes.where(~is_held, 0.0)
    curved = (trust.inverse @ slopes[:, :, None])[:, :, 0].where(~is_held, 0.0)
    straight = slopes / longest(slopes)[:, None] * trust.radius[:, None]

    def go(direction: Float[Tensor, "b d"]) -> ClimbStep:
        share = (trust.radius / longest(direction)).clamp(max=1.0)
        moves = direction * share[:, None] * (high - low)
        points = (here.points + moves).clamp(low, high)
        moves = (points - here.points) / (high - low)
        promised = (slopes * moves).sum(dim=1)
        return ClimbStep(points, moves, promised, promised > REFINED * here.gains.abs())

    by_curve = go(curved)
    climbs = by_curve.promised > 0  # a face of the box can turn a step downhill
    return go(torch.where(climbs[:, None], curved, straight))


def longest(vectors: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
    """The largest absolute entry of each vector, to divide by; infinite for a vector of zeros."""
    length = vectors.abs().amax(dim=1)
    return length.where(length > 0, torch.inf)


def best_in_box(
    tracker: FunctionTracker, rule: Rule, box: Box, noise: Noise, is_open: Bool[Tensor, " n"]
) -> Points:
    """The point of the largest gain in the box, as a single row.

    Climbs start from the best of the points that stand for the box and of the targets in it. If
    some candidates are closed, or if the rule is random, only the open points can be chosen.
    """
    gains = tracker.score(rule.gain)
    if is_random(rule) or not bool(is_open.all()):
        return tracker.points[[best_row(torch.where(is_open, gains, -torch.inf))]]
    targets = tracker.problem.targets
    extra = tracker.points[:0] if targets is None else targets[box.contains(targets)]
    points = torch.cat([tracker.points, extra])
    gains = torch.cat([gains, rule.gain(tracker.state_at(extra, noise.at(extra)))])
    if bool(gains.isposinf().any()):  # nothing was chosen yet: all are equally far away
        return points[[best_row(gains)]]

    def gain(x: Points) -> Float[Tensor, " b"]:
        return rule.gain(tracker.state_at(x, noise.near(x, box)))

    starts = points[find_starts(points, gains, REFINED_STARTS, box)]
    ends, gains = refine(gain, starts, box)
    return ends[[best_row(gains)]]


def best_row(gains: Float[Tensor, " n"]) -> int:
    """The lowest of the rows whose gain is the largest, up to rounding."""
    best = gains.max()
    leads = gains >= best - TIE_TOLERANCE * best.abs() if bool(best.isfinite()) else gains == best
    return int(leads.nonzero()[0])
