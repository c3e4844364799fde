"""The methods that are compared, and rules of the user's beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from sightline.checking import check_rule
from sightline.embeddings.functions import find_by_name
from sightline.experiments.gp.settings import NOISE_STD, Setting
from sightline.numerics import ZERO_VARIANCE
from sightline.posterior import State
from sightline.rules import (
    CTL,
    ITL,
    MMITL,
    VTL,
    LocalUncertainty,
    Random,
    Rule,
    TruVar,
    UncertaintySampling,
)
from sightline.rules.rule import is_random, targets_in_pool
from sightline.shapes import Float


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
        """Whether the picks differ between seeds; those of all others do not depend on y."""
        return is_random(self.rule)

    def with_seed(self, seed: int) -> Rule:
        return replace(self.rule, seed=seed) if hasattr(self.rule, "seed") else self.rule  # type: ignore[type-var]

    def applies(self, setting: Setting) -> bool:
        """Rules that need all targets in the pool are left out elsewhere, as in the paper."""
        wanted = targets_in_pool(self.rule)
        return (
            wanted is None
            or setting.has_all_targets
            or (wanted == "some" and bool(setting.is_target.any()))
        )


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


def read_methods(names: Sequence[str]) -> list[Method]:
    """Rules of the user's, each as ``package.module:MyRule``: a class or an instance."""
    found = [_read_method(name) for name in names]
    keys = [method.key for method in METHODS]
    for method in found:
        if method.key in keys:
            raise ValueError(
                f"--rule: there is a method {method.key!r} already; give the rule another name."
            )
        keys.append(method.key)
    return found


def _read_method(name: str) -> Method:
    if ":" not in name:
        raise ValueError(
            f"--rule must name a rule as package.module:MyRule, such as my_rules:Greedy; got "
            f"{name!r}."
        )
    _, found = find_by_name(name, "--rule", "a rule: a class, or an instance of one")
    made = _made(found, name)
    if not isinstance(made, Rule):
        raise TypeError(
            f"--rule: {name} must be a rule, with the attributes of sightline.rules.Rule; it is "
            f"of type {type(made).__name__}."
        )
    rule = check_rule(made)
    return Method(rule.name, rule.name, rule, is_extra=True, is_own=True)


def _made(found: Any, name: str) -> Any:
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as error:
        raise TypeError(
            f"--rule: {name} cannot be made without arguments ({error}). Give them defaults, or "
            f"name an instance."
        ) from error
