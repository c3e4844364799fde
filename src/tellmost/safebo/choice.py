"""One round: what is known, what is best, and where to measure next."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.climbing import best_row
from tellmost.rules import is_random
from tellmost.safebo.bounds import PointBeliefs
from tellmost.safebo.gains import RoundTargets
from tellmost.safebo.reaching import find_reachable, nothing_safe, out_of_reach
from tellmost.safebo.round_state import RoundState
from tellmost.safebo.spaces import Search, Space, with_context
from tellmost.safebo.strategies import QueryStrategy, RoundView, check_choice
from tellmost.safebo.trials import (
    Located,
    NoSafePoint,
    Purpose,
    Query,
    Recommendation,
    Seeds,
    Status,
    Trial,
)
from tellmost.shapes import Bool, Float
from tellmost.targets import Known, Targets
from tellmost.targets.known import Drawn

STEP_ROUNDING = 1e-9
"""Share by which a step may exceed the longest allowed: ten steps of 0.1 are to cover a unit."""


@dataclass(frozen=True)
class SafeTask:
    """A task says what is sought, where, and how far a step may go."""

    space: Space
    search: Search | None
    targets: Targets
    seeds: Seeds
    max_step: Float[Tensor, " d"] | None
    seed: int
    halts_on_violation: bool
    halts_on_miscalibration: bool


@dataclass(frozen=True)
class SafeRound:
    """A task, and what is known when its next point is chosen."""

    task: SafeTask
    state: RoundState
    trials: Sequence[Trial]
    last_point: Float[Tensor, " d"] | None  # where the system stands

    # ---- where to measure next

    def choose(self, waiting: Sequence[Located] = ()) -> Query:
        """Say where to measure next: the first line whose condition holds decides.

        ==================================== ================================= ==================
        condition                            what is asked for                 purpose
        ==================================== ================================= ==================
        a seed was not told yet              that seed                         seed
        a suspect value was not repeated,    the point where it was told       repeat
        and its point is safe
        the strategy does not keep safe      its choice among all near rows    its own, seed, risk
        no near row is safe; a seed stands   the seed of the largest margin    seed
        no near row is safe; no seed stands  nothing: NoSafePoint is raised
        there is a strategy                  its choice among the open rows    its own, seed
        otherwise                            the open row of the largest gain  explore, expand,
                                             about the targets                 seed
        ==================================== ================================= ==================

        Near are the candidates within a step, less what failed since a value was told. Open are
        the near rows that are safe for sure, and the near seeds whose last trial did not fail. A
        query is "seed" if it is a seed that the bounds do not prove, "risk" if nothing proves it.
        """
        pending, near = self._rows_of(waiting), self.near_rows()
        strategy, came = self.state.model.strategy, self._outcomes
        left = near & ~self._is_any_of(pending)
        untold = self._seed_rows([i for i, one in enumerate(came) if not one], left)
        within = self._rows_within_step()  # a failure is no danger
        standing = self._seed_rows(self.standing, near) or self._seed_rows(self.standing, within)
        is_safe = near & self.state.sets.is_safe
        is_open = is_safe.clone()
        sound = [i for i, one in enumerate(came) if one[-1:] != ["failed"]]
        is_open[self._seed_rows(sound, near)] = True

        if untold:
            return self._ask_for(untold[0], "seed")
        if repeats := self._suspect_rows(is_safe & left):
            return self._ask_for(repeats[0], "repeat")
        if strategy is not None and not strategy.keeps_safe and bool(near.any()):
            return self._follow(strategy, near, pending)
        if not bool(is_safe.any()) and standing:
            worst = self.state.sets.worst.amin(dim=0)
            return self._ask_for(max(standing, key=lambda row: float(worst[row])), "seed")
        if not bool(is_safe.any()):
            raise self._refusal()
        if strategy is not None:
            return self._follow(strategy, is_open, pending)
        return self._learn_most(is_open, pending)

    def judge(self, where: Located) -> Query:
        """What is known about a point of the user's own choice.

        Its purpose is "explore" if it is safe, "seed" if it is one that stands, and else "risk".
        """
        row, x = where
        points = with_context(x[None], self.context)
        beliefs = self.state.beliefs_at(points)
        if row is not None and not len(self.context):
            beliefs = self.state.beliefs_at_row(row)
        d = len(x)
        seeds = [self.task.seeds.points[number][:d] for number in self.standing]
        is_near = bool(self._is_near(points))
        purpose: Purpose = "risk"
        if is_near and bool(beliefs.sets.is_safe):
            purpose = "explore"
        elif is_near and any(torch.equal(x, seed) for seed in seeds):
            purpose = "seed"
        return self._query(beliefs, x.numpy(), row, purpose)

    def _follow(
        self, strategy: QueryStrategy, is_open: Bool[Tensor, " n"], pending: Sequence[int]
    ) -> Query:
        """Ask for what a strategy chooses. Pending rows are passed over if others are left."""
        left = is_open & ~self._is_any_of(pending)
        left = left if bool(left.any()) else is_open
        view = RoundView(self.state, left.clone(), self.seed)  # the strategy may write to its own
        choice = check_choice(strategy.choose(view), left, strategy)
        if bool(self.state.sets.is_safe[choice.row]):
            return self._ask_for(choice.row, choice.purpose)
        is_seed = choice.row in self._seed_rows(self.standing, is_open)
        return self._ask_for(choice.row, "seed" if is_seed else "risk")

    def _learn_most(self, is_open: Bool[Tensor, " n"], pending: Sequence[int]) -> Query:
        """The open row of the largest gain, or in a box the point that is climbed to from it."""
        targets = self.targets()
        gains = targets.gains(is_open, pending)
        if self._is_climbed:
            return self._climb(targets, gains, pending)
        row = best_row(gains)
        is_proven = bool(self.state.sets.is_safe[row])
        return self._ask_for(row, targets.purpose_of(row) if is_proven else "seed")

    @property
    def _is_climbed(self) -> bool:
        """If true, points between those of the round are looked at.

        They are not after a failure: a climb would lead back to where it was.
        """
        search, has_failed = self.task.search, self.trials and self.trials[-1].status == "failed"
        if search is None or not search.is_refined or has_failed:
            return False
        return not self.task.space.contexts and not is_random(self.state.model.rule)

    def _climb(
        self, targets: RoundTargets, gains: Float[Tensor, " n"], pending: Sequence[int]
    ) -> Query:
        assert self.task.space.box is not None

        limited = {side.output for side in self.state.model.sides}

        def is_allowed(points: Points) -> Bool[Tensor, " b"]:
            return self.state.beliefs_at(points, limited).sets.is_safe & self._is_near(points)

        point = targets.climb(gains, self.task.space.box, is_allowed, pending)
        beliefs = self.state.beliefs_at(point)
        purpose = targets.purpose_of(point) if bool(beliefs.sets.is_safe) else "seed"
        return self._query(beliefs, point[0].numpy(), None, purpose)

    def _refusal(self) -> NoSafePoint:
        """Say why no point can be named: what is safe is out of reach, or nothing is safe."""
        is_safe = self._safe_or_declared()
        if self.task.max_step is None or self.last_point is None or not bool(is_safe.any()):
            return nothing_safe(self.state, self._rows_within_step(), self._about_seeds())
        apart = (self.state.points[is_safe][:, : len(self.last_point)] - self.last_point).abs()
        nearest = apart[(apart / self.task.max_step).amax(dim=1).argmin()]
        return out_of_reach(nearest.tolist(), self.task.space.names)

    def _ask_for(self, row: int, purpose: Purpose) -> Query:
        beliefs = self.state.beliefs_at_row(row)
        return self._query(beliefs, self._setting(row), self._index(row), purpose)

    def _query(
        self, beliefs: PointBeliefs, x: np.ndarray, index: int | None, purpose: Purpose
    ) -> Query:
        """What Lipschitz constants prove is as sure as the bounds are."""
        probability = float(beliefs.probability_safe())
        if self.state.model.slopes and bool(beliefs.sets.is_safe):
            model = self.state.model
            sides = [side for side in model.sides if not model.is_bounded(side)]
            betas = [self.state.betas[side.output] for side in sides]
            probability = max(probability, 1 - sum(NormalDist().cdf(-beta) for beta in betas))
        parts = zip(self.task.seeds.points, self._outcomes, strict=True)
        told = [came for point, came in parts if point[: len(x)].tolist() == x.tolist()]
        counts = [sum(one != "failed" for one in came) for came in told]
        return Query(
            x=x,
            index=index,
            lower=beliefs.lower_margins(),
            probability_safe=probability,
            purpose=purpose,
            names=self.task.space.names,
            context=self.context.numpy().copy() if len(self.context) else None,
            times_told=max(counts) if purpose == "seed" else 0,
            **self.task.space.describe(x),
        )

    # ---- rows that are near, and seeds

    def near_rows(self) -> Bool[Tensor, " n"]:
        """Candidates within a step, less those that failed since a value was told.

        Where every candidate failed, all of them are near again.
        """
        within = self._rows_within_step()
        left, d = within.clone(), self.task.space.dimension
        for trial in reversed(self.trials):
            if trial.status != "failed":
                break
            left &= ~(self.state.points[:, :d] == torch.from_numpy(trial.x[:d])).all(dim=1)
        return left if bool(left.any()) else within

    def _rows_within_step(self) -> Bool[Tensor, " n"]:
        return self.state.is_candidate & self._is_near(self.state.points)

    def _is_near(self, points: Points) -> Bool[Tensor, " n"]:
        """Find what is at most a step away from where the system stands."""
        last, max_step = self.last_point, self.task.max_step
        if max_step is None or last is None:
            return torch.ones(len(points), dtype=torch.bool)
        apart = (points[:, : len(last)] - last).abs()
        return (apart <= max_step * (1 + STEP_ROUNDING)).all(dim=1)

    def withdrawn(self) -> dict[int, str]:
        """The seeds that were declared for this context and do not stand, and why.

        A seed is the user's statement about a point, and about a context if it has one. It stands
        until evidence speaks against it: a violation that was told of it, or bounds by which it
        breaks a limit under this context.
        """
        found = {}
        for number in self._declared:
            if against := self.state.evidence_against(self.state.layout.seeds[number]):
                found[number] = against
            if "violated" in self._outcomes[number]:
                found[number] = "a violation was told of it"
        return found

    @property
    def _declared(self) -> list[int]:
        """The seeds that were declared for this context, or for all."""
        d, points = self.task.space.dimension, self.task.seeds.points
        here = self.context
        return [i for i, x in enumerate(points) if len(x) == d or torch.equal(x[d:], here)]

    @cached_property
    def _outcomes(self) -> list[list[Status]]:
        return self.task.seeds.outcomes(self.trials)

    @cached_property
    def standing(self) -> list[int]:
        """The seeds that are taken for safe."""
        withdrawn = self.withdrawn()
        return [number for number in self._declared if number not in withdrawn]

    def _about_seeds(self) -> str:
        """What became of the seeds, where nothing is known to be safe."""
        withdrawn = self.withdrawn()
        if self.standing:
            return "ask() repeats a declared seed"
        each = [f". {self.task.seeds.describe(i)} is withdrawn: {withdrawn[i]}" for i in withdrawn]
        return f"no declared seed is left{''.join(each)}"

    def _suspect_rows(self, is_safe: Bool[Tensor, " n"]) -> list[int]:
        """Safe rows where a suspect value was told, which no later trial repeats.

        They are safe with the suspect value and without it, and no violation was told there.
        """
        rows = []
        for number, trial in enumerate(self.trials):
            if not trial.suspect or trial.status == "violated":
                continue
            later = [one for one in self.trials[number + 1 :] if (one.x == trial.x).all()]
            if not any(set(trial.suspect) & set(one.values) for one in later):
                is_there = (self.state.points == torch.from_numpy(trial.x)).all(dim=1)
                rows += (is_there & is_safe).nonzero()[:1, 0].tolist()
        return rows

    def _seed_rows(self, numbers: Sequence[int], near: Bool[Tensor, " n"]) -> list[int]:
        """The rows of those seeds that stand and are near."""
        rows = [self.state.layout.seeds[number] for number in numbers if number in self.standing]
        return [row for row in rows if bool(near[row])]

    def _safe_or_declared(self) -> Bool[Tensor, " n"]:
        """S_n and the seeds that stand."""
        is_safe = self.state.safe_rows.clone()
        is_safe[[self.state.layout.seeds[number] for number in self.standing]] = True
        return is_safe

    def _rows_of(self, waiting: Sequence[Located]) -> list[int]:
        """The rows of pending points: those of the domain, if they have the present context."""
        behind, points = iter(self.state.layout.pending), self.state.points
        extra = [next(behind, None) for _ in waiting]
        rows = [
            row if row is not None and torch.equal(points[row], x) else other
            for (row, x), other in zip(waiting, extra, strict=True)
        ]
        return [row for row in rows if row is not None]

    def _is_any_of(self, others: Sequence[int]) -> Bool[Tensor, " n"]:
        """Find the rows that hold the same points as some other rows."""
        is_same = torch.zeros_like(self.state.is_candidate)
        for other in others:
            is_same |= (self.state.points == self.state.points[other]).all(dim=1)
        return is_same

    def _setting(self, row: int) -> Float[np.ndarray, " d"]:
        return self.state.points[row, : self.task.space.dimension].numpy().copy()

    def _index(self, row: int) -> int | None:
        return row if self.task.space.box is None else None

    # ---- what is known

    def targets(self) -> RoundTargets:
        return RoundTargets.of(self.task.targets, self.known(), self.state)

    def known(self) -> Known:
        """Targets may depend on this: the candidates, in the unit of the objective."""
        state, scale, rows = self.state, self.state.scale(0), self.state.is_candidate
        lower, upper = (b[0, rows] * scale for b in (state.bounds.lower, state.bounds.upper))
        return Known(
            points=state.points[rows].numpy(),
            mean=state.mean[0, rows].numpy() * scale,
            std=state.std[0, rows].numpy() * scale,
            seed=self.seed,
            beta=state.betas[0],
            draw=self._draw,
            limits=(lower.numpy(), upper.numpy()),
            is_safe=state.sets.is_safe[rows].numpy(),
            may_be_safe=state.sets.may_be_safe[rows].numpy(),
            is_minimized=state.model.is_minimized,
            chance=state.chance_of_others()[rows].numpy(),
            within=state.model.limits_of_objective,
        )

    def _draw(self, count: int, generator: torch.Generator) -> Drawn:
        rows = self.state.is_candidate
        values, margins = self.state.draw(count, generator)
        return values[:, rows], None if margins is None else margins[:, rows]

    @property
    def seed(self) -> int:
        """The seed of random choices in this round: the same data give the same number."""
        return int(np.random.SeedSequence([self.task.seed, len(self.trials)]).generate_state(1)[0])

    @property
    def context(self) -> Float[Tensor, " c"]:
        """The present context, with which the first points of every round come."""
        return self.state.points[0, self.task.space.dimension :]

    def recommend(self) -> Recommendation:
        """The best of the rows known to be safe, by its pessimistic bound."""
        state, scale, is_safe = self.state, self.state.scale(0), self.state.safe_rows
        if not bool(is_safe.any()):
            raise nothing_safe(state, state.is_candidate, self._about_seeds())
        lower, _ = state.rising()
        row = int(lower.where(is_safe, -torch.inf).argmax())
        return Recommendation(
            x=self._setting(row),
            index=self._index(row),
            bound=(-1.0 if state.model.is_minimized else 1.0) * float(lower[row]) * scale,
            mean=float(state.mean[0, row]) * scale,
            std=float(state.std[0, row]) * scale,
            names=self.task.space.names,
            **self.task.space.describe(self._setting(row)),
        )

    def regret_bound(self) -> float:
        """The best optimistic bound of what may be safe, less the best pessimistic one."""
        state = self.state
        if not bool(state.safe_rows.any()):
            return float("inf")
        lower, upper = state.rising()
        reachable = upper[state.is_candidate & state.sets.may_be_safe]
        return max(float(reachable.max() - lower[state.safe_rows].max()), 0.0) * state.scale(0)

    def restore_point(self) -> Float[np.ndarray, " d"] | None:
        """The trial that is farthest from every limit for sure, else a seed that stands."""
        parts = zip(self.state.layout.trials, self.trials, strict=True)
        told = [
            (row, one)
            for row, one in parts
            if one.status != "failed" and self.task.space.has(one.x[: self.task.space.dimension])
        ]
        broken = {tuple(trial.x) for _, trial in told if trial.status == "violated"}
        rows = [row for row, trial in told if tuple(trial.x) not in broken]
        if rows and self.state.model.sides:
            worst = self.state.sets.worst[:, rows].amin(dim=0)
            if len(self.context):  # the trials had others
                settings = self.state.points[rows, : self.task.space.dimension]
                there = self.state.beliefs_at(with_context(settings, self.context))
                worst = there.sets.worst.amin(dim=0)
            if float(worst.max()) >= 0:
                return self._setting(rows[int(worst.argmax())])
        if not self.standing:
            return None
        return self.task.seeds.points[self.standing[0]][: self.task.space.dimension].numpy().copy()

    def reachable(
        self, epsilon: Any, beta: Any, truth: Any, by: str, start: Any
    ) -> Bool[np.ndarray, " n"]:
        """The reachable safe set, from the safe rows and standing seeds unless told otherwise."""
        if self.task.space.box is not None:
            raise ValueError(
                "the reachable safe set is that of a finite domain; take points of the box, such "
                "as box.sobol(1024, seed=0), for the domain."
            )
        if start is None:
            start = self._safe_or_declared()[self.state.is_candidate]
        return find_reachable(self.state, start, epsilon, beta, truth, by).numpy()
