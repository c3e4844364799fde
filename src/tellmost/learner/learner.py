"""ActiveLearner: ask, tell, predict."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.kernels.written import write
from tellmost.learner.arguments import (
    check_asked,
    check_pool,
    check_targets,
    check_told,
    open_rows,
    points_of,
    seeded,
)
from tellmost.learner.climbing import best_in_box
from tellmost.learner.record import (
    FORMAT,
    OUTSIDE,
    Noise,
    NoiseLike,
    Outlook,
    Told,
    as_arrays,
    check_same,
    read_state,
    read_told,
    write_state,
)
from tellmost.posterior.floor import compute_floor
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.gp import GP, Belief, as_gp
from tellmost.posterior.problem import TARGET_FIELDS, Observation, Problem
from tellmost.rows.checks import check_positive, check_seed, check_whole
from tellmost.rows.pool import Pool
from tellmost.rules import Rule, noise_of_targets, targets_in_pool
from tellmost.running.workers import calculating
from tellmost.selecting.arguments import (
    check_combination,
    check_placement,
    check_points,
    check_rule,
)
from tellmost.selecting.limits import NO_NUMBERS, Eligibility, Limits
from tellmost.selecting.loop import Eager
from tellmost.shapes import Bool, Float
from tellmost.targets import Known, Sampled
from tellmost.targets.box import Box

CONFIDENCE_BETA = 2.0
"""So many standard deviations make a bound where targets do not say: 95% of a normal
distribution, at each point by itself."""

NO_CANDIDATE = (
    "no candidate is left to ask for: every row of the pool was observed or is closed by "
    "candidates. Pass replace=True to measure again, or more rows."
)


class ActiveLearner:
    """Chooses where to measure next, so that the targets are known as soon as possible.

    A Gaussian process models what is believed about f. ``ask`` returns the candidates whose
    observation tells most about the targets, ``tell`` takes in what was measured there or
    anywhere else, and ``predict`` gives mean and standard deviation at any point.

    An observation costs O(n (d + t + m)) for n pool rows, t observations and m targets: it adds a
    row to a Cholesky factor, and nothing is factorised anew. Targets that change with the rounds
    cost O(n m t) more, and O(m^3) with ITL. Memory is O(n (t + m)). For millions of rows use
    ``tm.select``.

    ``ask`` depends on what was told and on the seed alone, so a second call answers the same.
    """

    @calculating()
    def __init__(
        self,
        kernel_or_gp: Any,
        *,
        pool: Any,
        targets: Any,
        noise_std: NoiseLike | None = None,
        rule: str | Rule = "vtl",
        mean: Any = 0.0,
        candidates: Any = None,
        replace: bool = True,
        seed: int = 0,
    ) -> None:
        """Take the prior, the points where measurements are possible, and the targets.

        Args:
            kernel_or_gp: a kernel of ``tm.kernels`` or gpytorch, with ``noise_std``; or a
                ``tm.GP``; or a fitted gpytorch or botorch model of one output, whose data count
                as told.
            pool: (n, d) points that may be measured, or a ``tm.Box`` to choose points from.
            targets: (m, d) points; a mask over the pool; an object of ``tm.targets``; a function
                of the posterior (see ``tm.targets.Known``) that returns points or a mask; or None
                for rules that learn about the whole pool.
            noise_std: standard deviation of a measurement: a number, one per pool row, or a
                function from (b, d) points to (b,) values.
            rule: a name or an object of ``tm.rules``, as in ``tm.select``.
            mean: the prior mean: a number, or a function from (b, d) points to (b,) values.
            candidates: which rows may be asked for: a mask, row numbers, or a function of the
                posterior that returns either, called anew each round. None for all.
            replace: whether a row may be asked for again.
            seed: of targets that are drawn, of random rules, and of a box's points.
        """
        self._seed = check_seed(seed)
        self._rule = seeded(check_rule(rule), rule, self._seed)
        self._targets = check_targets(targets)
        check_combination(self._rule, targets is not None, replace, True, False)
        gp, noise = _prior(kernel_or_gp, mean, noise_std)
        self._gp = gp
        self._box = pool if isinstance(pool, Box) else None
        self._points = check_pool(pool, gp, self._seed, replace=replace, noise_std=noise_std)
        self._noise = Noise.of(noise, self._points)
        self._candidates = candidates
        self._replace = replace
        self._start()

    # ---- the loop

    @calculating()
    def ask(self, n: int = 1) -> np.ndarray:
        """Say where to measure next: (n,) rows of the pool, or (n, d) points of a box.

        Several are chosen one after the other, each as if those before had been measured.
        """
        count = check_whole(n, "n")
        asked = count if self._replace or self._box is not None else min(count, len(self._points))
        columns = 1 + ("variance_given_targets" in self._rule.needs)
        check_asked(asked, len(self), len(self._points), columns)
        self._aim()
        tracker = self._tracker if count == 1 else self._tracker.fork()
        if self._box is not None:
            return self._ask_in_box(tracker, self._box, count)
        chooser = self._chooser(tracker)
        rows: list[int] = []
        while len(rows) < count:
            row = self._next(chooser)
            rows.append(row)
            if len(rows) < count:
                tracker.observe(row)
        return np.array(rows, dtype=np.int64)

    @calculating()
    def tell(self, indices_or_points: Any, y: Any, noise_std: Any = None) -> None:
        """Take in measurements of pool rows or of points anywhere, whether asked for or not.

        ``noise_std`` (a number, or one per measurement) overrides that of the learner.
        """
        is_box, pool, kernel = self._box is not None, self._points, self._gp.kernel
        for one in check_told(indices_or_points, y, noise_std, pool, kernel, self._noise, is_box):
            self._take_in(one)

    @calculating()
    def predict(self, X: Any = None) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
        """The mean and standard deviation of f at (b, d) points; None: at every pool row."""
        if X is None:
            mean, variance = self._belief.of_rows()
        else:
            shape = tuple(self._points.shape)
            points = check_points(X, "X", shape, self._gp.kernel).to(self._points.device)
            mean, variance = self._belief.at(points)
        return mean.cpu().numpy(), variance.sqrt().cpu().numpy()

    # ---- what is known, and what is left to know

    @property
    def points(self) -> np.ndarray:
        """The pool; for a box, the points that stand for it."""
        return self._points.cpu().numpy().copy()

    @property
    @calculating()
    def target_points(self) -> np.ndarray | None:
        """The targets of this round; None if the rule is about the whole pool."""
        self._aim()
        return None if self._aimed is None else self._aimed.cpu().numpy().copy()

    def __len__(self) -> int:
        """The number of measurements that were told."""
        return len(self._told)

    @calculating()
    def gains(self) -> Float[np.ndarray, " n"]:
        """The gain of a measurement of each pool row now, in the unit of the rule."""
        self._aim()
        return self._tracker.score(self._rule.gain).cpu().numpy().copy()

    @calculating()
    def uncertainty(self) -> float:
        """The mean variance of the targets now; without targets, that of the pool.

        Where targets are drawn from a finite set each round, it is that of the whole set.
        """
        self._aim()
        return self._uncertainty_by(self._tracker)

    @calculating()
    def floor(self) -> float:
        """The irreducible mean variance: what is left if f is known at every candidate.

        It is an upper bound for pools of more than ``numerics.FLOOR_EXACT_ROWS`` rows. For a box
        it is that of the points that stand for it.
        """
        self._aim()
        rows, reported = self._open().nonzero()[:, 0], self._reported()
        if reported is None:
            return 0.0 if len(rows) == len(self._points) else self._floor_of(self._points, rows)
        return self._floor_of(reported, rows)

    @calculating()
    def outlook(self, level: Any = None, at_most: Any = 1_000) -> Outlook:
        """Say what is left to reduce and, with a level, how many more observations reach it.

        The count comes from choosing ahead. Targets that are drawn each round are drawn as they
        will be, and others stay as they are now. In a box only the points that stand for it are
        chosen.
        """
        most = check_whole(at_most, "at_most")
        uncertainty, floor = self.uncertainty(), self.floor()
        if level is None:
            return Outlook(uncertainty, floor)
        wanted = check_positive(level, "level")
        is_possible = wanted > floor or uncertainty <= wanted
        count = self._count_to(wanted, most) if is_possible else None
        return Outlook(uncertainty, floor, wanted, count, most)

    # ---- save and resume

    def state_dict(self) -> dict[str, Any]:
        """The measurements that were told, and what tells this learner from others."""
        return {**self._identity(), **as_arrays(self._told, self._points[:0])}

    @calculating()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the learner whose state it is, which must be made with the same arguments."""
        check_same(state, self._identity(), "learner")
        data = self._data_of_prior()
        told = read_told(state, self._points, data)
        self._start()
        for one in told[len(data) :]:
            self._take_in(one)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was told to an .npz file, whole or not at all."""
        write_state(self.state_dict(), path)

    def load(self, path: str | os.PathLike[str]) -> "ActiveLearner":
        """Read what was told from a file written by ``save``; returns the learner itself."""
        self.load_state_dict(read_state(path))
        return self

    def __repr__(self) -> str:
        where = repr(self._box) if self._box is not None else f"{len(self._points):,} rows"
        return (
            f"ActiveLearner({self._gp.kernel!r}, pool={where}, rule={self._rule.name!r}, "
            f"{len(self)} observations)"
        )

    # ---- inside

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "pool": Pool.of(self._points).fingerprint(),
            "rule": repr(self._rule),
            "kernel": write(self._gp.kernel),
            "seed": self._seed,
        }

    def _start(self) -> None:
        """Begin with nothing told but the data of the prior."""
        self._told: list[Told] = []
        self._aimed: Points | None = None
        self._aimed_at = -1  # how many observations there were when the targets were chosen
        self._first: float | None = None  # the largest gain then, which is the scale of ties
        self._floor_kept: tuple[Any, float] | None = None  # what it is about, and the floor
        self._belief = Belief(FunctionTracker(self._problem()), self._gp.mean_of)
        if self._is_fixed:
            self._aim()  # before anything is observed
        for one in self._data_of_prior():
            self._take_in(one)

    def _data_of_prior(self) -> list[Told]:
        """The data that the prior brings along, which count as told."""
        data = self._gp.data
        if data is None:
            return []
        points = data.points.to(self._points)[:, None]
        parts = zip(points, data.y.tolist(), data.noise_variance.tolist(), strict=True)
        return [Told(OUTSIDE, *one) for one in parts]

    def _problem(self) -> Problem:
        """The problem about the pool alone. Targets come when they are chosen."""
        rule = self._rule
        return Problem(
            kernel=self._gp.kernel,
            rows=Pool.of(self._points),
            noise_variance=self._noise.of_rows,
            prior_variance=self._gp.kernel.diagonal(self._points),
            target_noise_variance=noise_of_targets(rule, self._noise.scalar),
            needs=rule.needs - TARGET_FIELDS | {"variance"},
            columns_ahead=1,
        )

    @property
    def _tracker(self) -> FunctionTracker:
        return self._belief.tracker

    @property
    def _is_fixed(self) -> bool:
        return self._targets is None or self._targets.is_fixed

    def _take_in(self, told: Told) -> None:
        self._belief.observe(told.point, told.y, told.noise_variance)
        self._told.append(told)

    def _aim(self) -> None:
        """Choose the targets: once for all if they are fixed, else once a round."""
        if self._aimed_at == len(self._told) or (self._is_fixed and self._aimed_at >= 0):
            return
        if self._targets is not None:
            self._aim_tracker(self._tracker, self._known())
            self._aimed = self._tracker.problem.targets
            check_placement(self._rule, self._tracker.problem)
        self._aimed_at = len(self._told)
        self._first = float(self._tracker.score(self._rule.gain).max())

    def _known(self) -> Known:
        mean, variance = self._belief.of_rows()
        everything = np.ones(len(mean), dtype=bool)
        return Known(
            points=self.points,
            mean=mean.cpu().numpy(),
            std=variance.sqrt().cpu().numpy(),
            seed=self._seed_after(len(self._told)),
            beta=CONFIDENCE_BETA,
            draw=lambda count, generator: (self._belief.sample_rows(count, generator), None),
            is_safe=everything,
            may_be_safe=everything,
        )

    def _seed_after(self, observations: int) -> int:
        """The seed of the round after so many observations."""
        return int(np.random.SeedSequence([self._seed, observations]).generate_state(1)[0])

    def _open(self) -> Bool[Tensor, " n"]:
        """Mark the rows that may be asked for now."""
        mask = open_rows(self._candidates, self._known, len(self._points))
        return mask.to(self._points.device)

    def _chooser(self, tracker: FunctionTracker, eligibility: Eligibility | None = None) -> Eager:
        if eligibility is None:
            is_open = self._open()
            if targets_in_pool(self._rule) is not None and not bool(is_open.all()):
                rows = is_open.nonzero()[:, 0]
                check_placement(self._rule, self._problem_of(rows, tracker.problem.targets))
            blocked = ~is_open
            if not self._replace:
                blocked[[one.row for one in self._told if one.row != OUTSIDE]] = True
            eligibility = Eligibility(Limits(blocked=blocked, replace=self._replace))
        return Eager(tracker, self._rule, eligibility, first=self._first)

    def _next(self, chooser: Eager) -> int:
        """Take the best row."""
        best = chooser.best(lambda first: -torch.inf)
        if best is None:
            raise ValueError(NO_CANDIDATE if chooser.eligibility.is_empty else NO_NUMBERS)
        chooser.eligibility.take(best.row)
        return best.row

    def _ask_in_box(self, tracker: FunctionTracker, box: Box, count: int) -> np.ndarray:
        is_open = self._open()
        if not bool(is_open.any()):
            raise ValueError(NO_CANDIDATE)
        points: list[Tensor] = []
        while len(points) < count:
            point = best_in_box(tracker, self._rule, box, self._noise, is_open)
            points.append(point)
            if len(points) < count:
                tracker.observe_point(point, float(self._noise.at(point)))
        return torch.cat(points).cpu().numpy()

    def _count_to(self, level: float, at_most: int) -> int | None:
        """Count the observations that bring the uncertainty down to a level; None: more."""
        tracker = self._tracker.fork()
        chooser = self._chooser(tracker)
        for count in range(at_most + 1):
            if self._uncertainty_by(tracker) <= level:
                return count
            if count == at_most or chooser.eligibility.is_empty:
                return None
            if count and isinstance(self._targets, Sampled):
                later = self._seed_after(len(self._told) + count)
                self._aim_tracker(tracker, replace(self._known(), seed=later))
                chooser = self._chooser(tracker, chooser.eligibility)
            tracker.observe(self._next(chooser))
        return None

    def _reported(self) -> Points | None:
        """What uncertainty and floor are about: all that may be targets; None: the whole pool."""
        whole = self._targets.all_points if isinstance(self._targets, Sampled) else None
        return self._aimed if whole is None else points_of(whole, self._points, self._gp.kernel)

    def _uncertainty_by(self, tracker: FunctionTracker) -> float:
        """The mean variance of what is reported about."""
        reported = self._reported()
        if reported is None:
            return tracker.mean_variance()
        if reported is self._aimed:
            return float(tracker.targets.known.variance.mean())
        return float(tracker.posterior.variance(reported).mean())

    def _aim_tracker(self, tracker: FunctionTracker, known: Known) -> None:
        """Aim the tracker at the targets that are chosen given what is known."""
        assert self._targets is not None
        targets = points_of(self._targets.choose(known), self._points, self._gp.kernel)
        tracker.aim_at(targets, self._rule.needs | {"variance"})

    def _floor_of(self, points: Points, rows: Tensor) -> float:
        """The floor, which changes with targets, candidates, and observations elsewhere."""
        inside = set(rows.tolist())
        outside = [one for one in self._told if one.row not in inside]
        about = self._aimed_at, frozenset(inside), len(outside)
        if self._floor_kept is None or self._floor_kept[0] != about:
            observed = tuple(Observation(one.point, one.noise_variance) for one in outside)
            problem = replace(self._problem_of(rows, points), observed=observed)
            self._floor_kept = about, float(compute_floor(problem, []).floor.mean())
        return self._floor_kept[1]

    def _problem_of(self, rows: Tensor, targets: Points | None) -> Problem:
        """The problem about some of the rows."""
        return replace(
            self._problem(),
            rows=Pool.of(self._points).take(rows),
            noise_variance=self._noise.of_rows[rows],
            prior_variance=self._gp.kernel.diagonal(self._points[rows]),
            targets=targets,
        )


def _prior(kernel_or_gp: Any, mean: Any, noise_std: Any) -> tuple[GP, Any]:
    """The prior, and the noise of future measurements."""
    is_number = noise_std is None or (not callable(noise_std) and np.ndim(noise_std) == 0)
    if is_number:
        gp = as_gp(kernel_or_gp, mean=mean, noise_std=noise_std)
        return gp, gp.noise_std
    if isinstance(kernel_or_gp, GP):
        return as_gp(kernel_or_gp, mean=mean), noise_std
    return as_gp(kernel_or_gp, mean=mean, noise_std=1.0), noise_std
