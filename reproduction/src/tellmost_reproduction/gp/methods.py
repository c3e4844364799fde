"""The methods that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import ZERO_VARIANCE
from tellmost.posterior.problem import State
from tellmost.rules import (
    CTL,
    ITL,
    MMITL,
    VTL,
    LocalUncertainty,
    Random,
    Rule,
    TruVar,
    UncertaintySampling,
    is_random,
    targets_in_pool,
)
from tellmost.shapes import Float
from tellmost_reproduction.gp.settings import NOISE_STD, Setting


@dataclass(frozen=True)
class SquaredCTL:
    r"""CTL with squared correlations, so that a strong negative one is as good as a positive one.

    .. math:: \sum_a w_a\, \mathrm{Cor}[f_x, f_a \mid D]^2

    Not the text's rule, which is signed; the authors' published code squares.
    """

    name: ClassVar[str] = "ctl-squared"
    unit: ClassVar[str] = "mean squared correlation with the targets"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "covariance", "prior_variance"})
    needs_targets: ClassVar[bool] = True
    weighs_targets: ClassVar[bool] = True
    gains_only_shrink: ClassVar[bool] = False
    is_signed: ClassVar[bool] = False

    def gain(self, state: State) -> Float[Tensor, " n"]:
        known = state.variance <= ZERO_VARIANCE * state.prior_variance
        settled = state.target_variance <= ZERO_VARIANCE * state.prior_target_variance
        weights = torch.where(settled, 0.0, state.target_weights / state.target_variance)
        return torch.where(known, 0.0, (state.covariance.square() @ weights) / state.variance)


@dataclass(frozen=True)
class Method:
    """A rule in an experiment; ``is_extra``: not among the paper's; ``is_own``: the user's."""

    key: str
    label: str
    rule: Rule
    is_extra: bool = False
    is_own: bool = False

    @property
    def is_random(self) -> bool:
        """Whether it is run with every seed; the picks of all others do not depend on y."""
        return is_random(self.rule) or has_seed(self.rule)

    def with_seed(self, seed: int) -> Rule:
        return replace(self.rule, seed=seed)  # type: ignore[type-var]

    def applies(self, setting: Setting) -> bool:
        """Rules that need all targets in the pool are left out elsewhere, as in the paper."""
        wanted = targets_in_pool(self.rule)
        return (
            wanted is None
            or setting.has_all_targets
            or (wanted == "some" and bool(setting.is_target.any()))
        )


def has_seed(rule: object) -> bool:
    """Whether another seed can be given to it: a dataclass with a field of this name."""
    return is_dataclass(rule) and any(one.name == "seed" and one.init for one in fields(rule))


METHODS = (
    Method("itl", "ITL", ITL()),
    Method("vtl", "VTL", VTL()),
    Method("ctl", "CTL", CTL()),
    Method("mm-itl", "MM-ITL", MMITL()),
    Method("uncertainty", "UnSa", UncertaintySampling()),
    Method("local-uncertainty", "local UnSa", LocalUncertainty()),
    Method("truvar", "TruVar", TruVar()),
    Method("random", "Random", Random()),
    Method("itl-y", "ITL about y", ITL(about="y", target_noise_std=NOISE_STD), is_extra=True),
    Method("ctl-squared", "squared CTL", SquaredCTL(), is_extra=True),
)


def methods_for(setting: Setting, own: Sequence[Method] = ()) -> list[Method]:
    return [method for method in (*METHODS, *own) if method.applies(setting)]
