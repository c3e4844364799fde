"""SafeOpt: measure what is known least among possible maximizers and expanders.

Heuristic SafeOpt: expanders by imagined observations instead of a Lipschitz constant.

GoOSE: expand the safe set only towards what an optimizer without limits would try.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import CHUNK_BYTES, TIE_TOLERANCE, nonnegative
from tellmost.rows.checks import check_positive
from tellmost.rows.sources import spans
from tellmost.safebo.choice import best_row
from tellmost.safebo.constraints import Side
from tellmost.safebo.slopes import Slopes, grow
from tellmost.safebo.stages import Stage, Track
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Bool, Float, Int

GOOSE_EPSILON = 1e-3
"""Width of an interval, in prior standard deviations, below which GoOSE takes it for a point: the
accuracy of the paper's experiments."""


@dataclass(frozen=True)
class SafeOpt:
    r"""Uncertainty sampling among maximizers and expanders, in a safe set made by slopes.

    .. math::
        M_n = \{x \in S_n : u_{n,f}(x) \ge \max_{S_n} l_{n,f}\}, \qquad
        G_n = \{x \in S_n : \exists x' \notin S_n,\; u_{n,i}(x) - L_i \|x - x'\| \ge 0
        \;\forall i\}, \qquad
        \arg\max_{x \in M_n \cup G_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Sui et al. 2015, several constraints: Berkenkamp et al. 2021; here as in Hübotter et al. 2024,
    App. "Detailed Comparison with Prior Works". S_n is that of ``slopes.grow``: the constants are
    those of the constraints, ``tm.Constraint(..., lipschitz=...)``. Widths are in prior standard
    deviations.
    """

    keeps_safe: ClassVar[bool] = True

    def track(self, stage: Stage, before: Track | None) -> Track:
        return grow(stage, before)

    def choose(self, scene: Scene) -> Choice:
        is_maximizer = find_maximizers(scene)
        is_wanted = scene.is_open & (is_maximizer | find_expanders_by_slope(scene))
        among = is_wanted if bool(is_wanted.any()) else scene.is_open  # a step may forbid them
        row = best_row(scene.widths.where(among, -torch.inf))
        return Choice(row, "explore" if bool(is_maximizer[row]) else "expand")


def find_expanders_by_slope(scene: Scene) -> Bool[Tensor, " n"]:
    """G_n: safe points from which an unproven one may be within reach."""
    stage, is_safe = scene.stage, scene.is_safe
    beyond = stage.points[stage.is_candidate & ~is_safe]
    where, best = stage.points[is_safe], stage.sets.best[:, is_safe]
    found = torch.zeros_like(is_safe)
    found[is_safe] = Slopes.of(stage.model).reaching(where, best, beyond)
    return found


def find_maximizers(scene: Scene) -> Bool[Tensor, " n"]:
    """Safe points that may be the best of the safe ones."""
    lower, upper = scene.stage.rising()
    return scene.is_safe & (upper >= lower.where(scene.is_safe, -torch.inf).max())


@dataclass(frozen=True)
class HeuristicSafeOpt:
    r"""Uncertainty sampling among maximizers and points that could enlarge the safe set.

    .. math:: G_n = \{x \in S_n : |S_{n+1}| > |S_n| \text{ if } y_{n+1} = u_n(x)\}

    and :math:`M_n`, widths and choice as in ``SafeOpt``; S_n is that of the confidence bounds.
    Berkenkamp et al. 2016; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works".
    Each limit imagines the best for itself: u for a lower limit, l for an upper one. The width of
    the imagined bounds is that of the present ones.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        """Widest first: a point less wide than one that was found cannot be chosen."""
        is_maximizer = find_maximizers(scene)
        widths = scene.best_open(scene.widths)
        is_known = scene.is_open & is_maximizer
        reached = float(widths[is_known].max()) if bool(is_known.any()) else -torch.inf
        rows = (scene.is_open & scene.is_safe & ~is_maximizer).nonzero()[:, 0]
        rows = rows[widths[rows] >= reached * (1 - TIE_TOLERANCE)]
        by_width = widths[rows].argsort(descending=True, stable=True)
        is_wanted = is_known.clone()
        is_wanted[self._first_expanders(scene, rows[by_width])] = True
        among = is_wanted if bool(is_wanted.any()) else scene.is_open  # a step may forbid them
        row = best_row(scene.widths.where(among, -torch.inf))
        return Choice(row, "explore" if bool(is_maximizer[row]) else "expand")

    def _first_expanders(self, scene: Scene, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """Those of the first block of rows that has some."""
        for start, stop in spans(len(rows), max(CHUNK_BYTES // (8 * len(scene.is_open)), 1)):
            some = rows[start:stop]
            found = some[find_expanders(scene.stage, some)]
            if len(found):
                return found
        return rows[:0]


def find_expanders(stage: Stage, rows: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
    """Whether the safe set would have more points if a row came out as well as it may."""
    is_row, is_kept = stage.is_candidate, torch.ones(len(rows), len(stage.points)).bool()
    for number, side in enumerate(stage.model.sides):
        margin = imagine_margins(stage, rows, side)
        if stage.model.confidence.is_intersected:
            margin = torch.maximum(margin, stage.sets.worst[number])
        is_kept &= margin >= 0
    return is_kept[:, is_row].sum(dim=1) > stage.sets.is_safe[is_row].sum()


def imagine_margins(stage: Stage, rows: Int[Tensor, " b"], side: Side) -> Float[Tensor, "b n"]:
    """Of one limit at all points, at worst, had each row come out at its optimistic bound."""
    o = side.output
    view, bounds, mean, std = stage.views[o], stage.bounds, stage.mean[o], stage.std[o]
    hoped = bounds.upper[o, rows] if side.is_lower else bounds.lower[o, rows]
    covariance = view.covariance(rows)
    share = covariance / (std[rows].square() + view.noise_variance[rows])[:, None]
    after = mean + share * (hoped - mean[rows])[:, None]
    width = stage.betas[o] * nonnegative(std.square() - share * covariance).sqrt()
    return side.margins(after - width, after + width)[0]


@dataclass(frozen=True)
class GoOSE:
    r"""Goal-oriented safe exploration with UCB: go to the best optimistic point, safely.

    .. math::
        \hat S_n = \bigcup_{x \in S_{n-1}} \{x' : u_{n,i}(x) - L_i \|x - x'\| - \epsilon \ge 0\},
        \qquad x^* = \arg\max_{\hat S_n} u_{n,f}

    and S_n as in ``SafeOpt``. If :math:`x^*` is safe, it is asked for. Else it stays the goal
    until it is safe or no longer in :math:`\hat S_n`: of the points of
    :math:`\hat S_n \setminus S_n` that a safe point reaches optimistically, the nearest to the
    goal (in the L1 norm) is wanted, and of the safe points that reach it and are wider than
    epsilon the widest is asked for.

    Turchetta et al. 2019; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works", which
    has one constraint: here one x has to reach x' by all of them. Epsilon is in prior standard
    deviations. Safe points may be goals too, where epsilon would exclude them. In a box, and under
    contexts, every round looks at other points, so that no goal outlives a round.
    """

    _: KW_ONLY
    epsilon: float = GOOSE_EPSILON

    keeps_safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "GoOSE(epsilon)")

    def track(self, stage: Stage, before: Track | None) -> Track:
        now = grow(stage, before)
        if not has_begun(stage):
            return now
        goal = None if before is None else before.goal
        if before is None or goal is None or bool(before.sets.is_safe[goal]):  # it was measured
            return replace(now, goal=self._propose(stage, now))
        stands = bool((now.sets.is_safe | self._optimistic(stage, now))[goal])
        return replace(now, goal=goal if stands else self._propose(stage, now))

    def choose(self, scene: Scene) -> Choice:
        track = scene.stage.track
        assert track is not None
        goal = self._propose(scene.stage, track) if track.goal is None else track.goal
        if goal is not None and bool((scene.is_safe & scene.is_open)[goal]):
            return Choice(goal, "explore")
        width = limit_widths(scene.stage)
        is_wanted = self._immediate_expanders(scene, track, goal)
        among = is_wanted if bool(is_wanted.any()) else scene.is_open  # a step may forbid them
        return Choice(best_row(width.where(among, -torch.inf)), "expand")

    def _optimistic(self, stage: Stage, track: Track) -> Bool[Tensor, " n"]:
        where, best = stage.points[track.sources], track.sets.best[:, track.sources]
        reached = Slopes.of(stage.model).reached(where, best - self.epsilon, stage.points)
        return reached & stage.is_candidate

    def _propose(self, stage: Stage, track: Track) -> int | None:
        """UCB; None: nothing can be hoped to be safe."""
        among = self._optimistic(stage, track) | (track.sets.is_safe & stage.is_candidate)
        _, upper = stage.rising()
        return best_row(upper.where(among, -torch.inf)) if bool(among.any()) else None

    def _immediate_expanders(
        self, scene: Scene, track: Track, goal: int | None
    ) -> Bool[Tensor, " n"]:
        """Wide safe points that reach the reachable target nearest to the goal."""
        stage, slopes = scene.stage, Slopes.of(scene.stage.model)
        is_wide = scene.is_open & scene.is_safe & (limit_widths(stage) > self.epsilon)
        where, best = stage.points[is_wide], stage.sets.best[:, is_wide]
        rows = (self._optimistic(stage, track) & ~scene.is_safe).nonzero()[:, 0]
        rows = rows[slopes.reached(where, best, stage.points[rows])]
        found = torch.zeros_like(is_wide)
        if len(rows) and goal is not None:
            apart = (stage.points[rows] - stage.points[goal]).abs().sum(dim=1)
            wanted = stage.points[rows[apart == apart.min()]]
            found[is_wide] = slopes.reaching(where, best, wanted)
        return found


def has_begun(stage: Stage) -> bool:
    """Whether all seeds were told: before that nothing is chosen."""
    told = {row for view in stage.views for row in view.seen_rows}
    return told.issuperset(stage.origin.seeds)


def limit_widths(stage: Stage) -> Float[Tensor, " n"]:
    """Of the widest interval of a constraint at each row."""
    outputs = sorted({side.output for side in stage.model.sides}) or [0]
    return (stage.bounds.upper - stage.bounds.lower)[outputs].amax(dim=0)
