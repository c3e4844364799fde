"""The methods that are compared: those of the paper, and rules of the user."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tellmost.kernels import Gaussian
from tellmost.numerics import ZERO_VARIANCE
from tellmost.posterior.problem import State
from tellmost.rows.embedding_models import find_by_name
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
from tellmost.testing.cases import cases
from tellmost.testing.rules import ExaminedRule, check_attributes, check_gains
from tellmost_reproduction.gp.settings import NOISE_STD, Setting


@dataclass(frozen=True)
class SquaredCTL:
    r"""CTL with squared correlations, so that a strong negative one is as good as a positive one.

    .. math:: \sum_a w_a\, \mathrm{Cor}[y_x, f_a \mid D]^2 \quad\text{or}\quad
        \sum_a w_a\, \mathrm{Cor}[f_x, f_a \mid D]^2

    The rule of the paper's text is signed. The authors' published code squares the correlation of
    the noisy observation (``about="y"``).
    """

    about: Literal["f", "y"] = "y"

    unit: ClassVar[str] = "mean squared correlation with the targets"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "covariance", "prior_variance"})
    needs_targets: ClassVar[bool] = True
    weighs_targets: ClassVar[bool] = True
    gains_only_shrink: ClassVar[bool] = False
    is_signed: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "ctl-published" if self.about == "y" else "ctl-squared"

    def gain(self, state: State) -> Float[Tensor, " n"]:
        known = state.variance <= ZERO_VARIANCE * state.prior_variance
        settled = state.target_variance <= ZERO_VARIANCE * state.prior_target_variance
        weights = torch.where(settled, 0.0, state.target_weights / state.target_variance)
        own = state.variance + state.noise_variance if self.about == "y" else state.variance
        return torch.where(known, 0.0, (state.covariance.square() @ weights) / own)


@dataclass(frozen=True)
class Method:
    """A rule in an experiment."""

    key: str
    label: str
    rule: Rule
    is_extra: bool = False  # it is not among the paper's
    is_own: bool = False  # it is the user's

    @property
    def is_random(self) -> bool:
        """True if it is run with every seed. The picks of all others do not depend on y."""
        return is_random(self.rule) or has_seed(self.rule)

    def with_seed(self, seed: int) -> Rule:
        return replace(self.rule, seed=seed)  # type: ignore[type-var]

    def applies(self, setting: Setting) -> bool:
        """True if the rule is defined there: some need the targets in the pool."""
        wanted = targets_in_pool(self.rule)
        return (
            wanted is None
            or setting.has_all_targets
            or (wanted == "some" and bool(setting.is_target.any()))
        )


def has_seed(rule: object) -> bool:
    """True if another seed can be given to it: a dataclass with a field of this name."""
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
    Method("ctl-published", "CTL as published", SquaredCTL(about="y")),
    Method("ctl-squared", "squared CTL", SquaredCTL(about="f"), is_extra=True),
    Method("ctl-y", "CTL about y", CTL(about="y"), is_extra=True),
)


def methods_for(setting: Setting, own: Sequence[Method] = ()) -> list[Method]:
    return [method for method in (*METHODS, *own) if method.applies(setting)]


def read_methods(names: Sequence[str]) -> list[Method]:
    """Find the user's rules, each named as ``package.module:MyRule``: a class or an instance."""
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
    made = _make(found, name)
    if not isinstance(made, Rule):
        raise TypeError(
            f"--rule: {name} must be a rule, with the attributes of tellmost.rules.Rule; it is "
            f"of type {type(made).__name__}."
        )
    try:
        check_promises(made)
    except (AssertionError, ValueError) as error:
        raise ValueError(f"--rule: {name}: {error}") from error
    return Method(made.name, made.name, made, is_extra=True, is_own=True)


def _make(found: Any, name: str) -> Any:
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as error:
        raise TypeError(
            f"--rule: {name} cannot be made without arguments ({error}). Give them defaults, or "
            f"name an instance."
        ) from error


def check_promises(rule: Rule) -> None:
    """Try a rule on a small problem, and check what the experiments rely on."""
    check_attributes(rule)
    if not rule.name.strip() or "|" in rule.name or not rule.name.isprintable():
        raise ValueError(
            f"name must be one line of text without a |, as it heads a row of tables; got "
            f"{rule.name!r}."
        )
    if (is_random(rule) or hasattr(rule, "seed")) and not has_seed(rule):
        raise ValueError(
            "a rule that draws is run with every seed, so it must be a dataclass with a field "
            "seed: int = 0; this one has is_random or seed, and no such field."
        )
    small = next(case for case in cases(rule, 0) if isinstance(case.kernel, Gaussian))
    check_gains(ExaminedRule(rule, small))
