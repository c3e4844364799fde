"""ISE-BO: learn whether some other point is safe, or what the best safe value is."""

from dataclasses import dataclass
from math import log, pi
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.rows.opening import check_whole
from tellmost.safebo.baselines.ise import safety_information
from tellmost.safebo.choosing import best_row
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Float


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
