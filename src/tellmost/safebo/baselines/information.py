"""EIC: expected improvement, weighted by the probability that all constraints hold. Unsafe.

ISE: learn whether some other point is safe.

ISE-BO: learn whether some other point is safe, or what the best safe value is.
"""

from dataclasses import dataclass
from math import log, pi
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import CHUNK_BYTES, ZERO_VARIANCE
from tellmost.rows.checks import check_whole
from tellmost.rows.sources import spans
from tellmost.safebo.bounds import probability_safe
from tellmost.safebo.choice import best_row
from tellmost.safebo.constraints import Side
from tellmost.safebo.stages import Stage
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class EIC:
    r"""Expected improvement with constraints. **It asks for points that may violate them.**

    .. math:: \arg\max_{x \in X} E[\max(f(x) - f^+, 0)] \prod_i P(g_i(x) \ge 0)

    Gardner et al. 2014. :math:`f^+` is the best posterior mean of the objective at a measured
    point where all constraints are expected to hold; without such a point the probability alone
    decides. A query that nothing proves safe has the purpose "risk", and negative ``lower``.
    """

    keeps_safe: ClassVar[bool] = False

    def choose(self, scene: Scene) -> Choice:
        stage = scene.stage
        scores = probability_safe(stage.mean, stage.std, stage.model.sides)
        best = find_incumbent(stage)
        if best is not None:
            scores = scores * expected_improvement(stage, best)
        return Choice(best_row(scene.best_open(scores)), "explore")


def find_incumbent(stage: Stage) -> float | None:
    """Of what is to be large, in prior standard deviations."""
    sign = -1.0 if stage.model.is_minimized else 1.0
    is_kept = torch.ones_like(stage.is_candidate)
    for side in stage.model.sides:
        mean = stage.mean[side.output]
        is_kept &= side.margins(mean, mean)[0] >= 0
    rows = [row for row in stage.views[0].seen_rows if bool(is_kept[row])]
    return float((sign * stage.mean[0, rows]).max()) if rows else None


def expected_improvement(stage: Stage, best: float) -> Float[Tensor, " n"]:
    r""":math:`\sigma (z \Phi(z) + \phi(z))` with :math:`z = (\mu - f^+) / \sigma`."""
    sign = -1.0 if stage.model.is_minimized else 1.0
    ahead, std = sign * stage.mean[0] - best, stage.std[0]
    z = ahead / std.where(std > 0, 1.0)
    density = (-0.5 * z.square()).exp() / (2 * pi) ** 0.5
    uncertain = std * (z * torch.special.ndtr(z) + density)
    return uncertain.where(std > 0, ahead.clamp(min=0.0))


SHARPNESS = 1 / (pi * log(2))
"""c_1: the entropy of a sign, as a function of mean / sd, has this curvature at 0."""


@dataclass(frozen=True)
class ISE:
    r"""Information-theoretic safe exploration: expansion alone, whatever the objective.

    .. math:: \arg\max_{x \in S_n} \max_{x' \in X} I(1\{g(x') \ge 0\}; y_x \mid D_n)

    Bottero et al. 2022; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". With
    several limits the largest counts, as if each were x' of its own.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        return Choice(best_row(scene.best_open(safety_information(scene))), "expand")


def safety_information(scene: Scene) -> Float[Tensor, " n"]:
    """What observing each open row says about the safety of the point it says most about."""
    stage, n = scene.stage, len(scene.is_open)
    rows = scene.is_open.nonzero()[:, 0]
    most = torch.zeros(n, dtype=torch.float64)
    for start, stop in spans(len(rows), max(CHUNK_BYTES // (8 * n), 1)):
        some = rows[start:stop]
        for side in stage.model.sides:
            found = sign_information(stage, some, side)[:, stage.is_candidate].amax(dim=1)
            most[some] = torch.maximum(most[some], found)
    return most


def sign_information(stage: Stage, rows: Int[Tensor, " b"], side: Side) -> Float[Tensor, "b n"]:
    r"""About whether one limit is kept at each point, in nats.

    .. math::
        \ln 2 \left(e^{-c_1 m^2} - \sqrt{\tfrac{1 - r^2}{1 + c_2 r^2}}\,
        e^{-c_1 m^2 / (1 + c_2 r^2)}\right), \qquad c_1 = \tfrac{1}{\pi \ln 2},\; c_2 = 2 c_1 - 1,

    with m the mean over the standard deviation of the margin, and r the correlation of g(x') with
    y_x. From :math:`H(1\{g \ge 0\}) \approx \ln 2 \exp(-c_1 m^2)`, Bottero et al. 2022.
    """
    o, view = side.output, stage.views[side.output]
    variance = stage.std[o].square()
    is_open = variance > ZERO_VARIANCE * view.output.kernel.diagonal(stage.points)
    var = variance.where(is_open, 1.0)
    squared = view.covariance(rows).square()
    squared /= (variance[rows] + view.noise_variance[rows])[:, None] * var
    c1, c2 = SHARPNESS, 2 * SHARPNESS - 1
    m2 = (stage.mean[o] - side.limit).square() / var
    after = ((1 - squared) / (1 + c2 * squared)).sqrt() * (-c1 * m2 / (1 + c2 * squared)).exp()
    return (log(2) * ((-c1 * m2).exp() - after)).where(is_open, 0.0)


@dataclass(frozen=True)
class ISEBO:
    r"""ISE and max-value entropy search, whichever says more.

    .. math:: \arg\max_{x \in S_n} \max\{\alpha^{ISE}(x), \alpha^{MES}(x)\}

    Bottero et al. 2024; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". MES is
    about the largest objective in S_n, of which ``draws`` values are drawn from the posterior.
    """

    draws: int = 10

    keeps_safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self.draws, "ISEBO(draws)")

    def choose(self, scene: Scene) -> Choice:
        expanding, exploring = safety_information(scene), max_value_information(scene, self.draws)
        row = best_row(scene.best_open(torch.maximum(expanding, exploring)))
        return Choice(row, "explore" if bool(exploring[row] >= expanding[row]) else "expand")


def max_value_information(scene: Scene, draws: int) -> Float[Tensor, " n"]:
    r"""What the objective of each row says about the largest one in S_n, in nats.

    .. math::
        \frac1K \sum_{k} \frac{\gamma_k \phi(\gamma_k)}{2 \Phi(\gamma_k)} - \ln \Phi(\gamma_k),
        \qquad \gamma_k = \frac{f^*_k - \mu(x)}{\sigma(x)}

    Wang and Jegelka 2017, Eq. 6.
    """
    stage = scene.stage
    sign = -1.0 if stage.model.is_minimized else 1.0
    mean, std = sign * stage.mean[0], stage.std[0]
    drawn = stage.views[0].belief.sample_rows(draws, scene.generator, scene.is_safe)
    best = (sign * drawn).amax(dim=1)
    gamma = (best[:, None] - mean) / std.where(std > 0, 1.0)
    log_below = torch.special.log_ndtr(gamma)
    ratio = (-0.5 * gamma.square() - 0.5 * log(2 * pi) - log_below).exp()
    return (0.5 * gamma * ratio - log_below).mean(dim=0).where(std > 0, 0.0)
