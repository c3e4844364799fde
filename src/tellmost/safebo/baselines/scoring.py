"""Methods that score every open row: random, UCB, uncertainty, EIC, ISE and ISE-BO."""

from dataclasses import dataclass
from math import log, pi
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import CHUNK_BYTES, ZERO_VARIANCE
from tellmost.rows.checks import check_whole
from tellmost.rows.sources import spans
from tellmost.safebo.bounds import probability_safe
from tellmost.safebo.constraints import Side
from tellmost.safebo.round_state import RoundState
from tellmost.safebo.strategies import Choice, RoundView
from tellmost.shapes import Float, Int

SHARPNESS = 1 / (pi * log(2))
"""c_1: the entropy of a sign, as a function of mean / sd, has this curvature at 0."""


@dataclass(frozen=True)
class SafeRandom:
    """Any safe point with equal probability, drawn from the optimizer's ``seed`` and the round."""

    keeps_safe: ClassVar[bool] = True

    def choose(self, view: RoundView) -> Choice:
        rows = view.is_open.nonzero()[:, 0]
        drawn = torch.randint(len(rows), (1,), generator=view.generator)
        return Choice(int(rows[drawn]), "explore")


@dataclass(frozen=True)
class SafeUCB:
    r"""The safe point whose objective may be the best. The safe set grows only by accident.

    .. math:: \arg\max_{x \in S_n} u_{n,f}(x)

    Srinivas et al. 2010, restricted to S_n.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, view: RoundView) -> Choice:
        _, upper = view.state.rising()
        return Choice(view.best(upper), "explore")


@dataclass(frozen=True)
class SafeUncertainty:
    r"""The safe point with the widest interval, in prior standard deviations.

    .. math:: \arg\max_{x \in S_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Schreiter et al. 2015.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, view: RoundView) -> Choice:
        return Choice(view.best(view.widths), "explore")


@dataclass(frozen=True)
class EIC:
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
class ISE:
    r"""Information-theoretic safe exploration: it expands, whatever the objective is.

    .. math:: \arg\max_{x \in S_n} \max_{x' \in X} I(1\{g(x') \ge 0\}; y_x \mid D_n)

    Bottero et al. 2022; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". With
    several limits the one counts that a measurement says most about.
    """

    keeps_safe: ClassVar[bool] = True

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
class ISEBO:
    r"""ISE or max-value entropy search, whichever says more.

    .. math:: \arg\max_{x \in S_n} \max\{\alpha^{ISE}(x), \alpha^{MES}(x)\}

    Bottero et al. 2024; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". MES is
    about the largest objective in S_n, of which ``draws`` values are drawn from the posterior.
    """

    draws: int = 10

    keeps_safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self.draws, "ISEBO(draws)")

    def choose(self, view: RoundView) -> Choice:
        expanding, exploring = safety_information(view), max_value_information(view, self.draws)
        row = view.best(torch.maximum(expanding, exploring))
        return Choice(row, "explore" if bool(exploring[row] >= expanding[row]) else "expand")


def max_value_information(view: RoundView, draws: int) -> Float[Tensor, " n"]:
    r"""Compute in nats what the objective of each row says about the largest one in S_n.

    .. math::
        \frac1K \sum_{k} \frac{\gamma_k \phi(\gamma_k)}{2 \Phi(\gamma_k)} - \ln \Phi(\gamma_k),
        \qquad \gamma_k = \frac{f^*_k - \mu(x)}{\sigma(x)}

    Wang and Jegelka 2017, Eq. 6.
    """
    state = view.state
    sign = -1.0 if state.model.is_minimized else 1.0
    mean, std = sign * state.mean[0], state.std[0]
    drawn = state.posteriors[0].belief.sample_rows(draws, view.generator, view.is_safe)
    best = (sign * drawn).amax(dim=1)
    gamma = (best[:, None] - mean) / std.where(std > 0, 1.0)
    log_below = torch.special.log_ndtr(gamma)
    ratio = (-0.5 * gamma.square() - 0.5 * log(2 * pi) - log_below).exp()
    return (0.5 * gamma * ratio - log_below).mean(dim=0).where(std > 0, 0.0)
