"""Other methods of safe optimization: ``tm.SafeOptimizer(..., strategy=HeuristicSafeOpt())``.

All share domain, models, bounds, seeds and history with the optimizer, and differ in the choice.
``SafeOpt`` and ``GoOSE`` have a safe set of their own. ``EIC`` is not safe.
"""

from dataclasses import KW_ONLY, dataclass, replace
from math import log, pi
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.learner.climbing import best_row
from tellmost.numerics import CHUNK_BYTES, TIE_TOLERANCE, ZERO_VARIANCE
from tellmost.posterior.problem import nonnegative
from tellmost.rows.checks import check_positive, check_whole, check_word
from tellmost.rows.sources import spans
from tellmost.safebo.bounds import SafeSets, probability_safe
from tellmost.safebo.constraints import Side, find_reached, find_reaching
from tellmost.safebo.constraints import estimate_lipschitz as estimate_lipschitz
from tellmost.safebo.constraints import steepest_slope as steepest_slope
from tellmost.safebo.round_state import RoundState, Track
from tellmost.safebo.strategies import Choice, QueryStrategy, RoundView
from tellmost.shapes import Bool, Float, Int

GOOSE_EPSILON = 1e-3
"""GoOSE takes an interval narrower than this, in prior standard deviations, for a point: the
accuracy of the paper's experiments."""

SHARPNESS = 1 / (pi * log(2))
"""c_1: the entropy of a sign, as a function of mean / sd, has this curvature at 0."""


# ---- methods that score every open row


@dataclass(frozen=True)
class SafeRandom(QueryStrategy):
    """Any safe point with equal probability, drawn from the optimizer's ``seed`` and the round."""

    def choose(self, view: RoundView) -> Choice:
        rows = view.is_open.nonzero()[:, 0]
        drawn = torch.randint(len(rows), (1,), generator=view.generator)
        return Choice(int(rows[drawn]), "explore")


@dataclass(frozen=True)
class SafeUCB(QueryStrategy):
    r"""The safe point whose objective may be the best. The safe set grows only by accident.

    .. math:: \arg\max_{x \in S_n} u_{n,f}(x)

    Srinivas et al. 2010, restricted to S_n.
    """

    def choose(self, view: RoundView) -> Choice:
        _, upper = view.state.rising()
        return Choice(view.best(upper), "explore")


@dataclass(frozen=True)
class SafeUncertainty(QueryStrategy):
    r"""The safe point with the widest interval, in prior standard deviations.

    .. math:: \arg\max_{x \in S_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Schreiter et al. 2015.
    """

    def choose(self, view: RoundView) -> Choice:
        return Choice(view.best(view.widths), "explore")


@dataclass(frozen=True)
class EIC(QueryStrategy):
    r"""Expected improvement with constraints. **It asks for points that may violate them.**

    .. math:: \arg\max_{x \in X} E[\max(f(x) - f^+, 0)] \prod_i P(g_i(x) \ge 0)

    Gardner et al. 2014. :math:`f^+` is the best posterior mean of the objective at a measured
    point where all constraints are expected to hold; without such a point the probability alone
    decides. A query that nothing proves safe has the purpose "risk", and negative ``lower``.
    """

    keeps_safe: ClassVar[bool] = False

    def choose(self, view: RoundView) -> Choice:
        state = view.state
        scores = probability_safe(state.mean, state.std, state.model.sides)
        best = find_incumbent(state)
        if best is not None:
            scores = scores * expected_improvement(state, best)
        return Choice(view.best(scores), "explore")


def find_incumbent(state: RoundState) -> float | None:
    """The best of what is to be large, in prior standard deviations; None if nothing qualifies."""
    sign = -1.0 if state.model.is_minimized else 1.0
    is_kept = torch.ones_like(state.is_candidate)
    for side in state.model.sides:
        is_kept &= side.margin(state.mean[side.output]) >= 0
    rows = [row for row in state.posteriors[0].seen_rows if bool(is_kept[row])]
    return float((sign * state.mean[0, rows]).max()) if rows else None


def expected_improvement(state: RoundState, best: float) -> Float[Tensor, " n"]:
    r"""It is :math:`\sigma (z \Phi(z) + \phi(z))` with :math:`z = (\mu - f^+) / \sigma`."""
    sign = -1.0 if state.model.is_minimized else 1.0
    ahead, std = sign * state.mean[0] - best, state.std[0]
    z = ahead / std.where(std > 0, 1.0)
    density = (-0.5 * z.square()).exp() / (2 * pi) ** 0.5
    uncertain = std * (z * torch.special.ndtr(z) + density)
    return uncertain.where(std > 0, ahead.clamp(min=0.0))


@dataclass(frozen=True)
class ISE(QueryStrategy):
    r"""Information-theoretic safe exploration: it expands, whatever the objective is.

    .. math:: \arg\max_{x \in S_n} \max_{x' \in X} I(1\{g(x') \ge 0\}; y_x \mid D_n)

    Bottero et al. 2022; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". With
    several limits the one counts that a measurement says most about.
    """

    def choose(self, view: RoundView) -> Choice:
        return Choice(view.best(safety_information(view)), "expand")


def safety_information(view: RoundView) -> Float[Tensor, " n"]:
    """Compute what an open row says about the safety of the point that it says most about."""
    state, n = view.state, len(view.is_open)
    rows = view.is_open.nonzero()[:, 0]
    most = torch.zeros(n, dtype=torch.float64)
    for start, stop in spans(len(rows), max(CHUNK_BYTES // (8 * n), 1)):
        some = rows[start:stop]
        for side in state.model.sides:
            found = sign_information(state, some, side)[:, state.is_candidate].amax(dim=1)
            most[some] = torch.maximum(most[some], found)
    return most


def sign_information(
    state: RoundState, rows: Int[Tensor, " b"], side: Side
) -> Float[Tensor, "b n"]:
    r"""Compute in nats what each row says about whether a limit is kept at each point.

    .. math::
        \ln 2 \left(e^{-c_1 m^2} - \sqrt{\tfrac{1 - r^2}{1 + c_2 r^2}}\,
        e^{-c_1 m^2 / (1 + c_2 r^2)}\right), \qquad c_1 = \tfrac{1}{\pi \ln 2},\; c_2 = 2 c_1 - 1,

    with m the mean over the standard deviation of the margin, and r the correlation of g(x') with
    y_x. From :math:`H(1\{g \ge 0\}) \approx \ln 2 \exp(-c_1 m^2)`, Bottero et al. 2022.
    """
    o, posterior = side.output, state.posteriors[side.output]
    variance = state.std[o].square()
    is_open = variance > ZERO_VARIANCE * posterior.output.kernel.diagonal(state.points)
    var = variance.where(is_open, 1.0)
    squared = posterior.covariance(rows).square()
    squared /= (variance[rows] + posterior.noise_variance[rows])[:, None] * var
    c1, c2 = SHARPNESS, 2 * SHARPNESS - 1
    m2 = (state.mean[o] - side.limit).square() / var
    after = ((1 - squared) / (1 + c2 * squared)).sqrt() * (-c1 * m2 / (1 + c2 * squared)).exp()
    return (log(2) * ((-c1 * m2).exp() - after)).where(is_open, 0.0)


@dataclass(frozen=True)
class ISEBO(QueryStrategy):
    r"""ISE or max-value entropy search, whichever says more.

    .. math:: \arg\max_{x \in S_n} \max\{\alpha^{ISE}(x), \alpha^{MES}(x)\}

    Bottero et al. 2024; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". MES is
    about the largest objective :math:`f^*`, of which ``draws`` values are drawn: in S_n, or with
    "safe draws" wherever the drawn constraints allow, as the paper's published code does.
    """

    draws: int = 10
    _: KW_ONLY
    fstar: str = "safe set"

    def __post_init__(self) -> None:
        check_whole(self.draws, "ISEBO(draws)")
        check_word(self.fstar, "ISEBO(fstar)", ("safe set", "safe draws"))

    def choose(self, view: RoundView) -> Choice:
        best = self.draw_best(view)
        expanding, exploring = safety_information(view), max_value_information(view, best)
        row = view.best(torch.maximum(expanding, exploring))
        return Choice(row, "explore" if bool(exploring[row] >= expanding[row]) else "expand")

    def draw_best(self, view: RoundView) -> Float[Tensor, " k"]:
        """Draw values of f*. A draw that is safe nowhere has none."""
        state, sign = view.state, -1.0 if view.state.model.is_minimized else 1.0
        if self.fstar == "safe set":
            belief = state.posteriors[0].belief
            drawn = belief.sample_rows(self.draws, view.generator, view.is_safe)
            return (sign * drawn).amax(dim=1)
        values, margins = state.draw(self.draws, view.generator)
        among = state.is_candidate if margins is None else state.is_candidate & (margins >= 0)
        best = (sign * values / state.scale(0)).where(among, -torch.inf).amax(dim=1)
        return best[best > -torch.inf]


def max_value_information(view: RoundView, best: Float[Tensor, " k"]) -> Float[Tensor, " n"]:
    r"""Compute in nats what the objective of each row says about the largest one.

    .. math::
        \frac1K \sum_{k} \frac{\gamma_k \phi(\gamma_k)}{2 \Phi(\gamma_k)} - \ln \Phi(\gamma_k),
        \qquad \gamma_k = \frac{f^*_k - \mu(x)}{\sigma(x)}

    Wang and Jegelka 2017, Eq. 6. ``best`` are the values of f*; without any it is zero.
    """
    state = view.state
    sign = -1.0 if state.model.is_minimized else 1.0
    mean, std = sign * state.mean[0], state.std[0]
    if len(best) == 0:
        return torch.zeros_like(mean)
    gamma = (best[:, None] - mean) / std.where(std > 0, 1.0)
    log_below = torch.special.log_ndtr(gamma)
    ratio = (-0.5 * gamma.square() - 0.5 * log(2 * pi) - log_below).exp()
    return (0.5 * gamma * ratio - log_below).mean(dim=0).where(std > 0, 0.0)


# ---- methods that grow a safe set on purpose


@dataclass(frozen=True)
class SafeOpt(QueryStrategy):
    r"""Uncertainty sampling among maximizers and expanders, in a safe set made by slopes.

    .. math::
        M_n = \{x \in S_n : u_{n,f}(x) \ge \max_{S_n} l_{n,f}\}, \qquad
        G_n = \{x \in S_n : \exists x' \notin S_n,\; u_{n,i}(x) - L_i \|x - x'\| \ge 0
        \;\forall i\}, \qquad
        \arg\max_{x \in M_n \cup G_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Sui et al. 2015; for several constraints Berkenkamp et al. 2021; here as in Hübotter et al.
    2024, App. "Detailed Comparison with Prior Works". ``grow`` makes S_n by the constraints'
    Lipschitz constants, ``tm.Constraint(..., lipschitz=...)``. Widths are in prior standard
    deviations.
    """

    def track(self, state: RoundState, before: Track | None) -> Track:
        return grow(state, before)

    def choose(self, view: RoundView) -> Choice:
        is_maximizer = find_maximizers(view)
        is_wanted = is_maximizer | find_expanders_by_slope(view)
        row = view.best(view.widths, is_wanted)
        return Choice(row, "explore" if bool(is_maximizer[row]) else "expand")


def find_expanders_by_slope(view: RoundView) -> Bool[Tensor, " n"]:
    """G_n: safe points from which an unproven one may be within reach."""
    state, is_safe = view.state, view.is_safe
    beyond = state.points[state.is_candidate & ~is_safe]
    where, best = state.points[is_safe], state.sets.best[:, is_safe]
    found = torch.zeros_like(is_safe)
    found[is_safe] = find_reaching(state.model.slopes.values(), where, best, beyond)
    return found


def find_maximizers(view: RoundView) -> Bool[Tensor, " n"]:
    """Safe points that may be the best of the safe ones."""
    lower, upper = view.state.rising()
    return view.is_safe & (upper >= lower.where(view.is_safe, -torch.inf).max())


@dataclass(frozen=True)
class HeuristicSafeOpt(QueryStrategy):
    r"""Uncertainty sampling among maximizers and points that could enlarge the safe set.

    .. math:: G_n = \{x \in S_n : |S_{n+1}| > |S_n| \text{ if } y_{n+1} = u_n(x)\}

    and :math:`M_n`, widths and choice as in ``SafeOpt``; S_n is that of the confidence bounds.
    Berkenkamp et al. 2016; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works".
    Each limit imagines the value that is best for it: u for a lower limit, l for an upper one. The
    imagined bounds have the beta of the present ones.
    """

    def choose(self, view: RoundView) -> Choice:
        """Look for expanders widest first: one less wide than a found one is never chosen."""
        is_maximizer, widths = find_maximizers(view), view.widths
        is_known = view.is_open & is_maximizer
        reached = float(widths[is_known].max()) if bool(is_known.any()) else -torch.inf
        rows = (view.is_open & view.is_safe & ~is_maximizer).nonzero()[:, 0]
        rows = rows[widths[rows] >= reached * (1 - TIE_TOLERANCE)]
        by_width = widths[rows].argsort(descending=True, stable=True)
        is_wanted = is_known.clone()
        is_wanted[self._first_expanders(view, rows[by_width])] = True
        row = view.best(widths, is_wanted)
        return Choice(row, "explore" if bool(is_maximizer[row]) else "expand")

    def _first_expanders(self, view: RoundView, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """The expanders of the first block of rows that has some."""
        for start, stop in spans(len(rows), max(CHUNK_BYTES // (8 * len(view.is_open)), 1)):
            some = rows[start:stop]
            found = some[find_expanders(view.state, some)]
            if len(found):
                return found
        return rows[:0]


def find_expanders(state: RoundState, rows: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
    """Say whether the safe set would have more points if a row came out as well as it may."""
    is_row, is_kept = state.is_candidate, torch.ones(len(rows), len(state.points)).bool()
    for number, side in enumerate(state.model.sides):
        margin = imagine_margins(state, rows, side)
        if state.model.confidence.is_intersected:
            margin = torch.maximum(margin, state.sets.worst[number])
        is_kept &= margin >= 0
    return is_kept[:, is_row].sum(dim=1) > state.sets.is_safe[is_row].sum()


def imagine_margins(
    state: RoundState, rows: Int[Tensor, " b"], side: Side
) -> Float[Tensor, "b n"]:
    """The pessimistic margin of a limit at all points, if each row came out as well as it may."""
    o = side.output
    posterior, mean, std = state.posteriors[o], state.mean[o], state.std[o]
    hoped = (state.bounds.upper if side.is_lower else state.bounds.lower)[o, rows]
    covariance = posterior.covariance(rows)
    share = covariance / (std[rows].square() + posterior.noise_variance[rows])[:, None]
    after = mean + share * (hoped - mean[rows])[:, None]
    width = state.betas[o] * nonnegative(std.square() - share * covariance).sqrt()
    return side.margins(after - width, after + width)[0]


@dataclass(frozen=True)
class GoOSE(QueryStrategy):
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
    has one constraint; here one x has to reach x' by all of them. Epsilon is in prior standard
    deviations. Safe points may be goals too, even if epsilon would exclude them. In a box, and
    under contexts, every round looks at other points, so no goal outlives a round.
    """

    _: KW_ONLY
    epsilon: float = GOOSE_EPSILON

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "GoOSE(epsilon)")

    def track(self, state: RoundState, before: Track | None) -> Track:
        now = grow(state, before)
        if not seen_rows(state).issuperset(state.layout.seeds):
            return now  # nothing is chosen before all seeds were told
        goal = None if before is None else before.goal
        if before is None or goal is None or bool(before.sets.is_safe[goal]):  # it was measured
            return replace(now, goal=self._propose(state, now))
        stands = bool((now.sets.is_safe | self._optimistic(state, now))[goal])
        return replace(now, goal=goal if stands else self._propose(state, now))

    def choose(self, view: RoundView) -> Choice:
        track = view.state.track
        assert track is not None
        goal = self._propose(view.state, track) if track.goal is None else track.goal
        if goal is not None and bool((view.is_safe & view.is_open)[goal]):
            return Choice(goal, "explore")
        is_wanted = self._immediate_expanders(view, track, goal)
        return Choice(view.best(limit_widths(view.state), is_wanted), "expand")

    def _optimistic(self, state: RoundState, track: Track) -> Bool[Tensor, " n"]:
        where, best = state.points[track.sources], track.sets.best[:, track.sources]
        slopes = state.model.slopes.values()
        return find_reached(slopes, where, best - self.epsilon, state.points) & state.is_candidate

    def _propose(self, state: RoundState, track: Track) -> int | None:
        """Choose what UCB would, or None if nothing can be hoped to be safe."""
        among = self._optimistic(state, track) | (track.sets.is_safe & state.is_candidate)
        _, upper = state.rising()
        return best_row(upper.where(among, -torch.inf)) if bool(among.any()) else None

    def _immediate_expanders(
        self, view: RoundView, track: Track, goal: int | None
    ) -> Bool[Tensor, " n"]:
        """Wide safe points that reach the reachable target nearest to the goal."""
        state, slopes = view.state, view.state.model.slopes.values()
        is_wide = view.is_open & view.is_safe & (limit_widths(state) > self.epsilon)
        where, best = state.points[is_wide], state.sets.best[:, is_wide]
        rows = (self._optimistic(state, track) & ~view.is_safe).nonzero()[:, 0]
        rows = rows[find_reached(slopes, where, best, state.points[rows])]
        found = torch.zeros_like(is_wide)
        if len(rows) and goal is not None:
            apart = (state.points[rows] - state.points[goal]).abs().sum(dim=1)
            wanted = state.points[rows[apart == apart.min()]]
            found[is_wide] = find_reaching(slopes, where, best, wanted)
        return found


def seen_rows(state: RoundState) -> set[int]:
    """The rows where some output was observed."""
    return {row for posterior in state.posteriors for row in posterior.seen_rows}


def limit_widths(state: RoundState) -> Float[Tensor, " n"]:
    """The width of the widest interval of a constraint at each row."""
    outputs = sorted({side.output for side in state.model.sides}) or [0]
    return (state.bounds.upper - state.bounds.lower)[outputs].amax(dim=0)


# ---- what Lipschitz constants say


def grow(state: RoundState, before: Track | None) -> Track:
    r"""SafeOpt's safe set: what the safe points of the round before reach by their lower bounds.

    .. math:: S_n = \bigcup_{x \in S_{n-1}} \{x' : l_{n,i}(x) - L_i \|x - x'\| \ge 0 \;\forall i\}

    Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". S_0 is what the prior and
    its data prove, and the set may grow from the seeds as well. If bounds are not intersected, a
    point that was safe once counts again as soon as its bounds say so. A state that is made anew
    each round knows no earlier set, so what was measured stands for it.
    """
    slopes, points, worst = state.model.slopes.values(), state.points, state.sets.worst
    is_first = before is None and state.layout.is_kept and not state.layout.trials
    proven = state.sets.is_safe & state.is_candidate
    if before is not None:
        sources = before.sources | before.sets.is_safe
    else:
        measured = [] if is_first else sorted(seen_rows(state))
        sources = torch.zeros_like(proven) if measured else proven.clone()
        sources[[*measured, *state.layout.seeds]] = True
    if not is_first:
        proven = find_reached(slopes, points[sources], worst[:, sources], points)
        proven &= state.is_candidate
    raised = [
        slope.raise_lower(margin, points, points[sources], margin[sources])
        for slope, margin in zip(slopes, worst, strict=True)
    ]
    margins = torch.stack(raised) if raised else worst
    return Track(SafeSets(margins, state.sets.best, proven), sources)
