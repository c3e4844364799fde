"""Whether observations tell the same about the targets, or more together than apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.shapes import Float
from tellmost.theory.joint import Joint
from tellmost.theory.reductions import reduce, rounding_of
from tellmost.theory.setting import check_picks, check_rule_name, check_setting


@dataclass(frozen=True, eq=False)
class Interaction:
    """What parts of a set tell each by itself, and what they tell together.

    ``value``, the difference, is their multivariate information: redundancy if positive, synergy
    if negative. ``rounding`` is how small it may be and mean nothing.
    """

    apart: Float[np.ndarray, " p"]
    together: float
    rounding: float

    @property
    def value(self) -> float:
        return float(self.apart.sum()) - self.together

    @property
    def is_redundant(self) -> bool:
        return self.value > self.rounding

    @property
    def is_synergistic(self) -> bool:
        return self.value < -self.rounding

    @property
    def ratio(self) -> float:
        """apart over together; 1 where nothing is told."""
        if self.together <= self.rounding:
            return 1.0
        return float(self.apart.sum()) / self.together


def multivariate_information(
    pool: Any, targets: Any, parts: Any, *, kernel: Any = None, noise_std: Any, given: Any = ()
) -> Interaction:
    r"""How far parts of a set of observations repeat each other, or need each other.

    .. math::
        I(f_A; y_Y; y_Z \mid y_D) = I(f_A; y_Y \mid y_D) + I(f_A; y_Z \mid y_D)
            - I(f_A; y_Y, y_Z \mid y_D)

    Hübotter et al. 2024, App. "Information Theory"; Murphy 2023. ``parts`` are row numbers, or
    lists of them: two parts are the paper's Y and Z, and for more of them the value is the sum of
    what each tells less what all tell, zero where they do not interact.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    n = len(setting.pool)
    each = [parts] if isinstance(parts, int | np.integer) else parts
    rows = [check_picks(np.atleast_1d(part), "parts", n) for part in each]
    joint = Joint.of(setting, check_picks(given, "given", n))
    return interact(joint, rows, "itl")


def information_ratio(
    pool: Any,
    targets: Any,
    picks: Any,
    *,
    rule: str = "itl",
    kernel: Any = None,
    noise_std: Any,
    given: Any = (),
) -> float:
    r"""What observations tell one by one, over what they tell together.

    .. math:: \bar\kappa(X \mid D) = \frac{\sum_{x \in X} \Delta_A(x \mid D)}{\Delta_A(X \mid D)}

    Hübotter et al. 2024, App. "The Information Ratio". Above 1 they are redundant, below 1
    synergistic. 0 / 0 is 1, as in the paper. Positive for Gaussians, but it may be as small as
    you like: even uncorrelated observations can be worth nothing alone.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    n = len(setting.pool)
    subset, known = check_picks(picks, "picks", n), check_picks(given, "given", n)
    rule = check_rule_name(rule)
    return interact(Joint.of(setting, known), [[row] for row in subset], rule).ratio


def interact(joint: Joint, parts: list[list[int]], rule: str) -> Interaction:
    whole = [row for part in parts for row in part]
    *apart, together = (
        float(reduce(joint, torch.tensor([rows], dtype=torch.int64), rule))
        for rows in [*parts, whole]
    )
    return Interaction(np.array(apart), together, rounding_of(joint, rule))
