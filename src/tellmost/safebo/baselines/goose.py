"""GoOSE: expand the safe set only towards what an optimizer without limits would try."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import GOOSE_EPSILON
from tellmost.rows.opening import check_positive
from tellmost.safebo.choosing import best_row
from tellmost.safebo.slopes import Slopes, grow
from tellmost.safebo.stages import Stage, Track
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Bool, Float


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
