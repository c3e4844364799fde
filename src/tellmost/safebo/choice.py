"""One turn: what is known now, what is best, and where to measure next.

The choice of a round: what is to be learned, and which of the open points teaches most.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.climbing import find_starts, refine
from tellmost.numerics import LEADERS, REFINED_STARTS, TIE_TOLERANCE
from tellmost.rules import is_random
from tellmost.safebo.reaching import check_start, find_reachable, nothing_safe, out_of_reach
from tellmost.safebo.spaces import Layout, Search, Space, with_context
from tellmost.safebo.stages import Look, Seeds, Stage, within_step, without_failed
from tellmost.safebo.strategies import Scene, Strategy, check_choice
from tellmost.safebo.trials import NoSafePoint, Purpose, Query, Recommendation, Trial
from tellmost.shapes import Bool, Float, Int
from tellmost.targets import Known, NoTargetsLeft, Targets
from tellmost.targets.box import Box
from tellmost.targets.known import Drawn

SKETCH_BAND = 1e-3
"""Rows whose sketched gain is within this share of the best are scored again without a sketch, so
that its error chooses neither between them nor between ties."""

SAFE_BISECTIONS = 20
"""Halvings of the way back from a point that is not safe: to a millionth of its length."""


Allowed = Callable[[Points], Bool[Tensor, " b"]]
"""Whether points anywhere may be asked for."""


@dataclass(frozen=True)
class Lesson:
    """What a round is to learn about: targets among its rows, and some of the outputs."""

    stage: Stage
    is_target: Bool[Tensor, " n"]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, targets: Targets, known: Known, stage: Stage) -> "Lesson":
        answer: Any = targets.choose(known)
        mask = torch.as_tensor(np.asarray(answer))
        if mask.dtype != torch.bool or mask.shape != (len(known.points),):
            raise ValueError(
                f"targets of a SafeOptimizer must be a mask over the points of the round, "
                f"({len(known.points)},) of bool; got {mask.dtype} of shape {tuple(mask.shape)}."
            )
        if not bool(mask.any()):
            raise NoTargetsLeft(
                "no point belongs to the targets any more: nothing is left to learn about."
            )
        outputs = list(range(len(stage.views)))
        if not getattr(targets, "about_objective", True):
            outputs = sorted({side.output for side in stage.model.sides})
        is_target = torch.zeros_like(stage.is_candidate)
        is_target[stage.is_candidate] = mask
        return cls(stage, is_target, tuple(outputs))

    def gains(self, is_open: Bool[Tensor, " n"], pending: Sequence[int]) -> Float[Tensor, " n"]:
        """Summed over outputs; -inf where a row is not open. Of a single open point 0."""
        rows = is_open.nonzero()[:, 0]
        gains = torch.full((len(is_open),), -torch.inf, dtype=torch.float64)
        if bool((self.stage.points[rows] == self.stage.points[rows[0]]).all()):
            gains[rows] = 0.0  # a single point: there is nothing to choose
            return gains
        gains[rows] = self._sum_gains(rows, pending)
        views = [self.stage.views[number] for number in self.outputs]
        if any(view.can_be_confirmed for view in views):
            leaders = find_leaders(gains)
            gains[leaders] = self._sum_gains(leaders, pending, is_dense=True)
        return gains

    def _sum_gains(
        self, rows: Int[Tensor, " b"], pending: Sequence[int], *, is_dense: bool = False
    ) -> Float[Tensor, " b"]:
        each = [
            count * self.stage.views[number].gains(rows, self.is_target, pending, is_dense)
            for number, count in self._count_alike().items()
        ]
        return torch.stack(each).sum(dim=0)

    def _count_alike(self) -> dict[int, int]:
        """Outputs of different variances, and how many have those of each."""
        counts: dict[int, int] = {}
        views = self.stage.views
        for number in self.outputs:
            alike = (other for other in counts if views[number].varies_as(views[other]))
            first = next(alike, number)
            counts[first] = counts.get(first, 0) + 1
        return counts

    def purpose_of_row(self, row: int) -> Purpose:
        noise = [self.stage.views[number].noise_of(row) for number in self.outputs]
        return self._purpose(self.stage.points[row : row + 1], noise)

    def purpose_at(self, point: Points) -> Purpose:
        """Of a point between the rows."""
        model, stage = self.stage.model, self.stage
        noise = [float(model.noise_at(o, point)) / stage.scale(o) ** 2 for o in self.outputs]
        return self._purpose(point, noise)

    def _purpose(self, point: Points, noise: Sequence[float]) -> Purpose:
        """To expand, if most of the variance it removes is at points not known to be safe."""
        removed = torch.zeros(int(self.is_target.sum()), dtype=torch.float64)
        for number, noise_variance in zip(self.outputs, noise, strict=True):
            removed += self.stage.views[number].removed(point, noise_variance, self.is_target)
        safely = removed[self.stage.sets.is_safe[self.is_target]].sum()
        return "explore" if 2 * float(safely) >= float(removed.sum()) else "expand"

    def climb(
        self,
        gains: Float[Tensor, " n"],
        box: Box,
        is_allowed: Allowed,
        pending: Sequence[int],
    ) -> Points:
        """From the best rows to where the gain is largest, without leaving what is allowed.

        What is allowed may end on the way to a summit, so a row itself can be the best.
        """
        is_open = gains > -torch.inf
        points = self.stage.points[is_open]
        starts = points[find_starts(points, gains[is_open], REFINED_STARTS, box)]
        gain = self._gain_anywhere(pending, box)
        ends, _ = refine(gain, starts, box)
        found = torch.cat([starts, last_allowed(starts, ends, box, is_allowed)])
        return found[best_row(gain(found))][None]

    def _gain_anywhere(
        self, pending: Sequence[int], box: Box
    ) -> Callable[[Points], Float[Tensor, " b"]]:
        stage, rule = self.stage, self.stage.model.rule
        views = [stage.views[number] for number in self.outputs]
        trackers = [view.about(self.is_target, pending) for view in views]

        def gain(x: Points) -> Float[Tensor, " b"]:
            each = []
            for number, tracker in zip(self.outputs, trackers, strict=True):
                noise = stage.model.noise_near(number, x, box) / stage.scale(number) ** 2
                each.append(rule.gain(tracker.state_at(x, noise)))
            return torch.stack(each).sum(dim=0)

        return gain


def find_leaders(gains: Float[Tensor, " n"]) -> Int[Tensor, " b"]:
    """Rows that may be the best for all that a sketch says; of many the likeliest."""
    best, rows = torch.topk(gains, min(LEADERS, len(gains)))
    return rows[best >= best[0] - SKETCH_BAND * best[0].abs()].sort().values


def best_row(gains: Float[Tensor, " n"]) -> int:
    """The lowest of the rows whose gain is the largest, up to rounding."""
    best = gains.max()
    return int((gains >= best - TIE_TOLERANCE * best.abs()).nonzero()[0])


def last_allowed(starts: Points, ends: Points, box: Box, is_allowed: Allowed) -> Points:
    """On the way from each start to its end the farthest point that was found allowed."""

    def go(share: Float[Tensor, "b 1"]) -> Points:
        return box.clip(starts * (1 - share) + ends * share)  # exact at both ends

    low = is_allowed(ends).to(starts)[:, None]  # 1: the end itself
    high = torch.ones_like(low)
    for _ in range(SAFE_BISECTIONS):
        middle = (low + high) / 2
        allowed = is_allowed(go(middle))[:, None]
        low, high = torch.where(allowed, middle, low), torch.where(allowed, high, middle)
    return go(low)


@dataclass(frozen=True)
class Task:
    """What is sought, where, and how far a step may go."""

    space: Space
    search: Search | None
    targets: Targets
    seeds: Seeds
    max_step: Float[Tensor, " d"] | None
    is_minimized: bool
    seed: int
    strategy: Strategy | None = None  # chooses in place of targets and rule


@dataclass(frozen=True)
class Turn:
    """A task at the stage of a round."""

    task: Task
    stage: Stage
    layout: Layout
    trials: Sequence[Trial]
    last_point: Float[Tensor, " d"] | None

    # ---- what is known

    @property
    def safe_rows(self) -> Bool[Tensor, " n"]:
        return self.stage.is_candidate & self.stage.sets.is_safe

    def recommend(self) -> Recommendation:
        """The best by its pessimistic bound of the rows known to be safe."""
        if not bool(self.safe_rows.any()):
            has_seeds = bool(self.task.seeds.standing(self.trials))
            raise nothing_safe(self.stage, self.stage.is_candidate, has_seeds=has_seeds)
        stage, scale = self.stage, self.stage.scale(0)
        lower, _ = stage.rising()
        row = int(lower.where(self.safe_rows, -torch.inf).argmax())
        return Recommendation(
            x=self._setting(row),
            index=row if self.task.space.box is None else None,
            bound=(-1.0 if self.task.is_minimized else 1.0) * float(lower[row]) * scale,
            mean=float(stage.mean[0, row]) * scale,
            std=float(stage.std[0, row]) * scale,
            names=self.task.space.names,
        )

    def regret_bound(self) -> float:
        """The best optimistic bound of what may be safe, less the best pessimistic one."""
        if not bool(self.safe_rows.any()):
            return float("inf")
        lower, upper = self.stage.rising()
        reachable = upper[self.stage.is_candidate & self.stage.sets.may_be_safe]
        gap = float(reachable.max() - lower[self.safe_rows].max())
        return max(gap, 0.0) * self.stage.scale(0)

    def restore_point(self) -> Float[np.ndarray, " d"] | None:
        """The trial that is farthest from every limit for sure, else a seed that stands."""
        parts = zip(self.layout.trials, self.trials, strict=True)
        told = [(row, t) for row, t in parts if t.status in ("safe", "marginal", "violated")]
        broken = {tuple(trial.x) for _, trial in told if trial.status == "violated"}
        rows = [row for row, trial in told if tuple(trial.x) not in broken]
        if rows and self.stage.model.sides:
            worst = self._margins_now(rows)
            if float(worst.max()) >= 0:
                return self._setting(rows[int(worst.argmax())])
        standing = self.task.seeds.standing(self.trials)
        return self.task.seeds.points[standing[0]].numpy().copy() if standing else None

    def _margins_now(self, rows: Sequence[int]) -> Float[Tensor, " b"]:
        """The smallest margin of what rows set, at worst, under the present context."""
        stage, d = self.stage, self.task.space.dimension
        if not self.task.space.contexts:
            return stage.sets.worst[:, list(rows)].amin(dim=0)
        now = stage.points[stage.is_candidate][0, d:]
        points = with_context(stage.points[list(rows), :d], now)
        return stage.look_at(points).sets.worst.amin(dim=0)

    def reachable(
        self, epsilon: Any, beta: Any, truth: Any, by: str, start: Any
    ) -> Bool[np.ndarray, " n"]:
        """See ``reaching``; from the safe rows and the standing seeds, unless told otherwise."""
        if self.task.space.box is not None:
            raise ValueError(
                "the reachable safe set is that of a finite domain; take points of the box, such "
                "as box.sobol(1024, seed=0), for the domain."
            )
        if start is None:
            safe = self.safe_rows.clone()
            safe[[self.layout.seeds[i] for i in self.task.seeds.standing(self.trials)]] = True
            safe = safe[self.stage.is_candidate]
        else:
            safe = check_start(start, int(self.stage.is_candidate.sum()))
        return find_reachable(self.stage, safe, epsilon, beta, truth, by).numpy()

    def lesson(self) -> Lesson:
        return Lesson.of(self.task.targets, self._known(), self.stage)

    def rows_of(self, waiting: Sequence[tuple[int | None, Tensor]]) -> list[int]:
        """Of pending points: those of a domain are its rows, unless their context was another."""
        behind = self.layout.pending or (None,) * len(waiting)
        rows = []
        for (row, x), extra in zip(waiting, behind, strict=True):
            is_row = row is not None and bool((self.stage.points[row] == x).all())
            rows.append(row if is_row else extra)
        return [row for row in rows if row is not None]

    # ---- where to measure next

    def choose(self, pending: Sequence[int], context: Float[Tensor, " c"]) -> Query:
        """A seed that was not told yet, the safe row that teaches most, or a seed again."""
        stage, within, is_near = self.stage, self._rows_within_step(), self._near_rows()
        standing = self.task.seeds.standing(self.trials)
        seeds = self._near_seeds(standing, is_near)
        untold = self._near_seeds(self.task.seeds.untold(self.trials), is_near)
        untold = [row for row in untold if not self._is_among(row, pending)]
        is_open = is_near & stage.sets.is_safe
        if untold:
            return self._query(untold[0], "seed", context)
        strategy = self.task.strategy
        if strategy is not None and not strategy.keeps_safe and bool(is_near.any()):
            return self._follow(strategy, is_near, seeds, pending, context)
        if not bool(is_open.any()):
            again = seeds or self._near_seeds(standing, within)  # a failure is no violation
            if not again:
                raise self._refuse(within)
            return self._query(max(again, key=self._smallest_margin), "seed", context)
        is_open[self._near_seeds(self.task.seeds.working(self.trials), is_near)] = True
        if strategy is not None:
            return self._follow(strategy, is_open, seeds, pending, context)
        lesson = self.lesson()
        gains = lesson.gains(is_open, pending)
        if self._is_climbed:
            return self._climb(lesson, gains, pending)
        row = best_row(gains)
        is_proven = bool(stage.sets.is_safe[row])
        return self._query(row, lesson.purpose_of_row(row) if is_proven else "seed", context)

    def _follow(
        self,
        strategy: Strategy,
        is_open: Bool[Tensor, " n"],
        seeds: Sequence[int],
        pending: Sequence[int],
        context: Float[Tensor, " c"],
    ) -> Query:
        """What a strategy chooses; pending rows are passed over, if others are left."""
        left = is_open.clone()
        for row in pending:
            left &= ~(self.stage.points == self.stage.points[row]).all(dim=1)
        left = left if bool(left.any()) else is_open
        scene = Scene(self.stage, left.clone(), self._seed_of_round)  # it may write to its own
        choice = check_choice(strategy.choose(scene), left, strategy)
        if bool(self.stage.sets.is_safe[choice.row]):
            return self._query(choice.row, choice.purpose, context)
        return self._query(choice.row, "seed" if choice.row in seeds else "risk", context)

    def _rows_within_step(self) -> Bool[Tensor, " n"]:
        return self.stage.is_candidate & self._is_near(self.stage.points)

    def _near_rows(self) -> Bool[Tensor, " n"]:
        """The same less what failed."""
        within, dimension = self._rows_within_step(), self.task.space.dimension
        return without_failed(self.stage.points, within, self.trials, dimension)

    def _refuse(self, within: Bool[Tensor, " n"]) -> NoSafePoint:
        """Why no point can be named: what is safe is out of reach, or nothing is."""
        safe = self.safe_rows.clone()
        safe[[self.layout.seeds[i] for i in self.task.seeds.standing(self.trials)]] = True
        if self.task.max_step is None or self.last_point is None or not bool(safe.any()):
            return nothing_safe(self.stage, within)
        apart = (self.stage.points[safe][:, : len(self.last_point)] - self.last_point).abs()
        nearest = apart[(apart / self.task.max_step).amax(dim=1).argmin()]
        return out_of_reach(nearest.tolist(), self.task.space.names)

    def _near_seeds(self, numbers: Sequence[int], is_near: Bool[Tensor, " n"]) -> list[int]:
        rows = [self.layout.seeds[number] for number in numbers]
        return [row for row in rows if bool(is_near[row])]

    def _is_among(self, row: int, others: Sequence[int]) -> bool:
        point = self.stage.points[row]
        return any(bool((self.stage.points[other] == point).all()) for other in others)

    def _is_near(self, points: Points) -> Bool[Tensor, " n"]:
        return within_step(points, self.last_point, self.task.max_step)

    @property
    def _is_climbed(self) -> bool:
        """Whether points between those of the round are looked at.

        Not after a failure: a climb would lead back to where it was.
        """
        search, has_failed = self.task.search, self.trials and self.trials[-1].status == "failed"
        if search is None or not search.is_refined or has_failed:
            return False
        return not self.task.space.contexts and not is_random(self.stage.model.rule)

    def _climb(self, lesson: Lesson, gains: Float[Tensor, " n"], pending: Sequence[int]) -> Query:
        assert self.task.space.box is not None

        def is_allowed(points: Points) -> Bool[Tensor, " b"]:
            return self.stage.look_at(points).sets.is_safe & self._is_near(points)

        point = lesson.climb(gains, self.task.space.box, is_allowed, pending)
        look = self.stage.look_at(point)
        purpose = lesson.purpose_at(point) if bool(look.sets.is_safe) else "seed"
        return self._describe(look, point[0].numpy(), None, purpose, torch.empty(0))

    def _query(self, row: int, purpose: Purpose, context: Float[Tensor, " c"]) -> Query:
        index = row if self.task.space.box is None else None
        look = self.stage.look_at_row(row)
        return self._describe(look, self._setting(row), index, purpose, context)

    def _describe(
        self, look: Look, x: np.ndarray, index: int | None, purpose: Purpose, context: Tensor
    ) -> Query:
        return Query(
            x=x,
            index=index,
            lower=look.lower_margins(),
            probability_safe=float(look.probability_safe()),
            purpose=purpose,
            names=self.task.space.names,
            context=context.numpy() if len(context) else None,
        )

    def _setting(self, row: int) -> Float[np.ndarray, " d"]:
        return self.stage.points[row, : self.task.space.dimension].numpy().copy()

    def _smallest_margin(self, row: int) -> float:
        return float(self.stage.sets.worst[:, row].amin())

    @property
    def _seed_of_round(self) -> int:
        return int(np.random.SeedSequence([self.task.seed, len(self.trials)]).generate_state(1)[0])

    def _known(self) -> Known:
        """For targets: at the points that may be asked for, in the unit of the objective."""
        stage, scale, rows = self.stage, self.stage.scale(0), self.stage.is_candidate
        lower, upper = (
            bound[0, rows] * scale for bound in (stage.bounds.lower, stage.bounds.upper)
        )
        return Known(
            points=stage.points[rows].numpy(),
            mean=stage.mean[0, rows].numpy() * scale,
            std=stage.std[0, rows].numpy() * scale,
            seed=self._seed_of_round,
            beta=stage.betas[0],
            draw=self._draw,
            limits=(lower.numpy(), upper.numpy()),
            safe=stage.sets.is_safe[rows].numpy(),
            perhaps_safe=stage.sets.may_be_safe[rows].numpy(),
            is_minimized=self.task.is_minimized,
        )

    def _draw(self, count: int, generator: torch.Generator) -> Drawn:
        rows = self.stage.is_candidate
        values, margins = self.stage.draw(count, generator)
        return values[:, rows], None if margins is None else margins[:, rows]
