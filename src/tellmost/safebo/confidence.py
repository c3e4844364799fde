r"""How many standard deviations make a bound.

Either a probability for each query, at the present bounds; or a width that holds for all points
and rounds at once, so that bounds of different rounds may be intersected. The two must not be
mixed: pointwise intervals, intersected over time, come out empty though the model is right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, runtime_checkable

from tellmost.posterior.gp import name_of
from tellmost.rows.checks import NOT_NUMBERS
from tellmost.theory import confidence_width

DEFAULT_CONFIDENCE = 0.99
"""Probability, under the model, that a query satisfies all constraints, unless the caller says."""


Schedule = Callable[[int], float]
"""From the number of observations so far to a beta."""


@dataclass(frozen=True)
class Learned:
    """What a beta may depend on, of one output."""

    names: tuple[str, ...]
    observations: int
    information: float  # 1/2 log det(I + K / rho^2) of what was observed, in nats


@runtime_checkable
class Confidence(Protocol):
    """A beta for each output."""

    @property
    def is_intersected(self) -> bool:
        """Whether the bounds hold in all rounds at once, so that the tightest may be kept."""

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        """Standard deviations of a bound, of each output, with so many limits in all."""

    def describe(self, is_kept: bool) -> str:
        """In words; ``is_kept``: whether every round looks at the same points."""


@dataclass(frozen=True)
class PerQuery:
    r"""Each query satisfies all constraints with this probability, under the model.

    .. math:: \beta = \Phi^{-1}\big(1 - (1 - p) / q\big)

    One-sided, and shared over the q limits by a union bound. Current bounds, never intersected.
    """

    probability: float

    is_intersected: ClassVar[bool] = False

    def __post_init__(self) -> None:
        value: Any = self.probability
        if isinstance(value, NOT_NUMBERS) or not 0.5 < value < 1:
            raise ValueError(
                f"confidence must be a probability above 0.5 and below 1; got {value!r}."
            )

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        beta = NormalDist().inv_cdf(1 - (1 - self.probability) / max(sides, 1))
        return [beta] * len(outputs)

    def describe(self, is_kept: bool) -> str:
        return f"confidence {self.probability:g} for each query"


@dataclass(frozen=True, repr=False)
class Width:
    """A beta of the user's: a number, or a function of the number of observations."""

    beta: float | Schedule

    is_intersected: ClassVar[bool] = True

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        return [self._at(one.observations) for one in outputs]

    def _at(self, observations: int) -> float:
        beta: Any = self.beta(observations) if callable(self.beta) else self.beta
        if isinstance(beta, NOT_NUMBERS) or not 0 < beta < float("inf"):
            where = f"beta({observations})" if callable(self.beta) else "beta"
            raise ValueError(f"{where} must be a positive finite number; got {beta!r}.")
        return float(beta)

    def __repr__(self) -> str:
        return f"Width({name_of(self.beta) if callable(self.beta) else self.beta})"

    def describe(self, is_kept: bool) -> str:
        return say_when(is_kept)


@dataclass(frozen=True)
class RKHSBound:
    r"""A beta that covers every function of bounded norm, at all points and in all rounds.

    .. math::
        \beta_n = B + \sqrt{2 \big(\tfrac12 \log\det(I + K_n / \rho^2) + \log(q / \delta)\big)}

    ``tm.theory.confidence_width`` of the realised information of each output, with delta shared
    over the q outputs: |f - mean| <= beta_n sd everywhere and always, with probability 1 - delta,
    if f less the prior mean has norm at most B and the noise is sub-Gaussian of the stated size.

    ``norm`` is a number for all outputs, or {"objective": ..., "height": ...}.
    """

    norm: float | Mapping[str, float]
    delta: float = 0.05

    is_intersected: ClassVar[bool] = True

    def __post_init__(self) -> None:
        norms = self.norm.values() if isinstance(self.norm, Mapping) else [self.norm]
        for norm in norms:
            if isinstance(norm, NOT_NUMBERS) or not (isfinite(norm) and norm > 0):
                raise ValueError(f"RKHSBound(norm) must be positive; got {norm!r}.")
        if isinstance(self.delta, NOT_NUMBERS) or not 0 < self.delta < 1:
            raise ValueError(f"RKHSBound(delta) must be above 0 and below 1; got {self.delta!r}.")

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        self._check_names([name for one in outputs for name in one.names])
        share = self.delta / len(outputs)
        return [
            confidence_width(one.information, norm=self._norm_of(one), delta=share)
            for one in outputs
        ]

    def _check_names(self, names: Sequence[str]) -> None:
        for name in self.norm if isinstance(self.norm, Mapping) else ():
            if name not in names:
                raise ValueError(
                    f"RKHSBound(norm) names {name!r}; the outputs are {', '.join(names)}."
                )

    def _norm_of(self, output: Learned) -> float:
        if not isinstance(self.norm, Mapping):
            return self.norm
        found = [self.norm[name] for name in output.names if name in self.norm]
        if not found:
            raise ValueError(
                f"RKHSBound(norm) must have an entry for {output.names[0]!r}; it has "
                f"{', '.join(map(repr, self.norm))}."
            )
        return max(found)

    def describe(self, is_kept: bool) -> str:
        return f"RKHS norm {self.norm}, delta {self.delta:g}, {say_when(is_kept)}"


def say_when(is_kept: bool) -> str:
    """Bounds of rounds that look at other points cannot be intersected."""
    return "bounds intersected over time" if is_kept else "present bounds"


def check_confidence(confidence: Any, beta: Any) -> Confidence:
    """Exactly one of the two; neither is a confidence of DEFAULT_CONFIDENCE."""
    if confidence is not None and beta is not None:
        raise ValueError(
            "give confidence or beta, not both: confidence is a probability for each query, beta "
            "a width that holds in all rounds at once."
        )
    if beta is None:
        return PerQuery(DEFAULT_CONFIDENCE if confidence is None else confidence)
    if isinstance(beta, RKHSBound):
        return beta
    if isinstance(beta, type):
        raise TypeError(f"beta must be an instance, such as {beta.__name__}(norm=1.0).")
    width = Width(beta)
    width.betas([Learned(("objective",), 0, 0.0)], 1)
    return width
