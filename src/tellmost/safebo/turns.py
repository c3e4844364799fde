"""One turn: what is known now, what is best, and where to measure next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.rules.rule import is_random
from tellmost.safebo.choosing import Lesson, best_row
from tellmost.safebo.failing import NoSafePoint
from tellmost.safebo.layouts import Layout
from tellmost.safebo.opening import Seeds, within_step, without_failed
from tellmost.safebo.query import Purpose, Query, Recommendation
from tellmost.safebo.reaching import check_start, find_reachable
from tellmost.safebo.refusing import nothing_safe, out_of_reach
from tellmost.safebo.searches import Search
from tellmost.safebo.spaces import Space, with_context
from tellmost.safebo.stages import Look, Stage
from tellmost.safebo.strategies import Scene, Strategy, check_choice
from tellmost.safebo.trials import Trial
from tellmost.shapes import Bool, Float
from tellmost.targets import Known, Targets
from tellmost.targets.known import Drawn


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
