"""Where in a box a measurement teaches most: the best of its points, climbed to their summits."""

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.noise import Noise
from tellmost.numerics import REFINED_STARTS, TIE_TOLERANCE
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.refining import find_starts, refine
from tellmost.rules import Rule
from tellmost.rules.rule import is_random
from tellmost.selecting.choosers import score_all
from tellmost.shapes import Bool, Float
from tellmost.targets.box import Box


def best_in_box(
    tracker: FunctionTracker,
    rule: Rule,
    box: Box,
    noise: Noise,
    is_open: Bool[Tensor, " n"],
) -> Points:
    """The point of the largest gain, as a single row.

    Climbs start from the best of the points that stand for the box and of the targets in it, where
    ITL and MM-ITL have narrow summits. Where candidates are closed, the points that are open are
    all there is to choose from: nobody can say whether a point between them is. A random rule
    draws one of them, since its gains have no slope.
    """
    gains = score_all(tracker, rule)
    if is_random(rule) or not bool(is_open.all()):
        return best_row(tracker.points, torch.where(is_open, gains, -torch.inf))
    extra = targets_inside(tracker, box)
    points = torch.cat([tracker.points, extra])
    gains = torch.cat([gains, rule.gain(tracker.state_at(extra, noise.at(extra)))])
    if bool(gains.isposinf().any()):  # nothing was chosen yet, so that all are as far away
        return best_row(points, gains)

    def gain(x: Points) -> Float[Tensor, " b"]:
        return rule.gain(tracker.state_at(x, noise.near(x, box)))

    starts = points[find_starts(points, gains, REFINED_STARTS, box)]
    return best_row(*refine(gain, starts, box))


def targets_inside(tracker: FunctionTracker, box: Box) -> Points:
    targets = tracker.problem.targets
    if targets is None:
        return tracker.points[:0]
    return targets[box.contains(targets)]


def best_row(points: Points, gains: Float[Tensor, " n"]) -> Points:
    """The first of those whose gain is the largest, up to rounding."""
    best = gains.max()
    leads = gains >= best - TIE_TOLERANCE * best.abs() if bool(best.isfinite()) else gains == best
    return points[leads.nonzero()[:1, 0]]
