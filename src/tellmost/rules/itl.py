"""Information-based transductive learning."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rows.checks import check_positive, check_word
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class ITL(Rule):
    r"""Information-based transductive learning: prefer what says most about the targets.

    .. math:: I(f_A; y_x \mid D) = \tfrac12 \log \frac{k_D(x,x) + \rho^2}{k_{D,A}(x,x) + \rho^2}

    Hübotter et al. 2024, App. "Closed-form Decision Rules"; :math:`k_{D,A}` is the posterior had
    the targets been seen: f_A itself (``about="f"``) or noisy observations y_A (``about="y"``).
    With the pool inside the targets and equal noise this is uncertainty sampling; so it is when
    there are as many independent targets as feature dimensions. Two points can be worth more
    together than apart (synergy), so gains can grow.

    A singular covariance of the targets is inverted up to ``numerics.RANK_TOLERANCE``.
    """

    about: Literal["f", "y"] = "f"
    target_noise_std: float | None = None  # for y; None: the candidates' scalar noise

    unit: ClassVar[str] = "nats about the targets"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "variance_given_targets"})

    def __post_init__(self) -> None:
        check_word(self.about, "ITL(about)", ("f", "y"))
        if self.target_noise_std is None:
            return
        if self.about == "f":
            raise ValueError('ITL(target_noise_std) has a meaning only with about="y".')
        check_positive(self.target_noise_std, "ITL(target_noise_std)")

    @property
    def name(self) -> str:
        return "itl" if self.about == "f" else "itl-y"

    def gain(self, state: State) -> Float[Tensor, " n"]:
        explained = (state.variance - state.variance_given_targets).clamp_(min=0.0)  # rounding
        explained /= state.variance_given_targets + state.noise_variance
        return explained.log1p_().mul_(0.5)

    def target_noise_variance(self, noise_variance: float | None) -> float:
        """The noise with which the targets are seen; None for candidates of unequal noise."""
        if self.about == "f":
            return 0.0
        if self.target_noise_std is not None:
            return self.target_noise_std**2
        if noise_variance is None:
            raise ValueError(
                "rule 'itl-y' needs ITL(about=\"y\", target_noise_std=...) when noise_std is "
                "given per point: the noise at the targets cannot be guessed."
            )
        return noise_variance
