"""ISE: learn whether some other point is safe."""

from dataclasses import dataclass
from math import log, pi
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import CHUNK_BYTES, ZERO_VARIANCE
from tellmost.rows.sources import spans
from tellmost.safebo.choosing import best_row
from tellmost.safebo.constraints import Side
from tellmost.safebo.stages import Stage
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Float, Int

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
