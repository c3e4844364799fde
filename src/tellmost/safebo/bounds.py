r"""The bounds of the outputs have a width, and they prove points safe.

With :math:`l_{n,i}` and :math:`u_{n,i}` the bounds of the margin of limit i, beta standard
deviations below and above its mean (Hübotter et al. 2024, Sec. 5),

.. math::
    S_n = \{x : l_{n,i}(x) \ge 0 \;\forall i\}, \qquad
    \hat S_n = \{x : u_{n,i}(x) \ge 0 \;\forall i\}.

Beta is either of a probability for each query, at the present bounds, or a width that holds for
all points and rounds at once, so that bounds of different rounds may be intersected. The two must
not be mixed: intervals for single queries, intersected over time, come out empty although the
model is right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.posterior.gp import name_of
from tellmost.rows.checks import check_number, check_positive, check_whole
from tellmost.safebo.constraints import Lipschitz, Side
from tellmost.shapes import Bool, Float
from tellmost.theory import confidence_width

if TYPE_CHECKING:
    from tellmost.safebo.round_state import SafeModel

DEFAULT_CONFIDENCE = 0.99
"""Probability, under the model, that a query satisfies all constraints, unless the caller says."""

LEAST_RISK_OF_QUERY = 1e-12
"""A query that may risk no more than this may risk nothing: float64 cannot tell 1 - p from 1."""

Schedule = Callable[[int], float]
"""A function from the number of observations so far to a beta."""


@dataclass(frozen=True)
class Learned:
    """It says what was learned about one output, as far as a beta may depend on it."""

    names: tuple[str, ...]
    observations: int
    information: float  # 1/2 log det(I + K / rho^2) of its observations, in nats


@runtime_checkable
class Confidence(Protocol):
    """Says how many standard deviations make a bound: a beta for each output."""

    @property
    def is_intersected(self) -> bool:
        """If true, the bounds hold in all rounds at once, so that the tightest may be kept."""

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        """The beta of each output; ``sides`` is the number of limits in all."""


@dataclass(frozen=True)
class PerQuery:
    r"""Each query satisfies all constraints with this probability, under the model.

    .. math:: \beta = \Phi^{-1}\big(1 - (1 - p) / q\big)

    The bound is one-sided, and a union bound shares it over the q limits. Only the present bounds
    count; they are never intersected with earlier ones.
    """

    probability: float

    is_intersected: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(self.probability, "confidence, a probability,", above=0.5, below=1)

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        return [self.beta(sides)] * len(outputs)

    def beta(self, sides: int) -> float:
        return NormalDist().inv_cdf(1 - (1 - self.probability) / max(sides, 1))

    def __str__(self) -> str:
        return f"confidence {self.probability:g} for each query"


@dataclass(frozen=True)
class ForRun:
    r"""All queries of a run satisfy all constraints with this probability, under the model.

    With R = 1 - p, and spent the sum of the risks of the queries so far, the next one may risk

    .. math:: \frac{R - \text{spent}}{\text{queries left}}.

    A query that risks less leaves more to the others.
    """

    probability: float
    horizon: int | float

    is_intersected: ClassVar[bool] = False

    def __post_init__(self) -> None:
        PerQuery(self.probability)  # it checks it
        check_whole(self.horizon, "horizon")
        if self.allow([]) is None:
            raise ValueError(
                f"confidence {self.probability!r} over a horizon of {self.horizon} leaves a query "
                f"less risk than {LEAST_RISK_OF_QUERY:g}, which rounding hides. Lower one of them."
            )

    def allow(self, risks: Sequence[float]) -> PerQuery | None:
        """The confidence of the next query, or None if nothing more may be risked."""
        left = self.horizon - len(risks)
        risk = (1 - self.probability - sum(risks)) / left if left > 0 else 0.0
        return PerQuery(1 - risk) if risk > LEAST_RISK_OF_QUERY else None

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        """Those of the first query."""
        return PerQuery(1 - (1 - self.probability) / self.horizon).betas(outputs, sides)

    def __str__(self) -> str:
        return f"confidence {self.probability:g} for {self.horizon} queries together"


@dataclass(frozen=True, repr=False)
class Width:
    """A beta that the user gives: a number, or a function of the number of observations."""

    beta: float | Schedule

    is_intersected: ClassVar[bool] = True

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        return [self._at(one.observations) for one in outputs]

    def _at(self, observations: int) -> float:
        if callable(self.beta):
            return check_positive(self.beta(observations), f"beta({observations})")
        return check_positive(self.beta, "beta")

    def __repr__(self) -> str:
        return f"Width({name_of(self.beta) if callable(self.beta) else self.beta})"


@dataclass(frozen=True)
class RKHSBound:
    r"""A beta that covers every function of bounded norm, at all points and in all rounds.

    .. math::
        \beta_n = B + \sqrt{2 \big(\tfrac12 \log\det(I + K_n / \rho^2) + \log(q / \delta)\big)}

    This is ``tm.theory.confidence_width`` of the realised information of each output; the q
    outputs share delta. With probability 1 - delta, abs(f - mean) <= beta_n sd everywhere, always,
    if f less the prior mean has norm at most B and the noise is sub-Gaussian of the stated size.

    ``norm`` is a number for all outputs, or {"objective": ..., "height": ...}.
    """

    norm: float | Mapping[str, float]
    delta: float = 0.05

    is_intersected: ClassVar[bool] = True

    def __post_init__(self) -> None:
        norms = self.norm.values() if isinstance(self.norm, Mapping) else [self.norm]
        for norm in norms:
            check_positive(norm, "RKHSBound(norm)")
        check_number(self.delta, "RKHSBound(delta)", above=0, below=1)

    def betas(self, outputs: Sequence[Learned], sides: int) -> list[float]:
        names, share = [n for one in outputs for n in one.names], self.delta / len(outputs)
        norm = self.norm if isinstance(self.norm, Mapping) else dict.fromkeys(names, self.norm)
        norms = [[norm[name] for name in one.names if name in norm] for one in outputs]
        if not set(norm) <= set(names) or not all(norms):
            raise ValueError(
                f"RKHSBound(norm) must have an entry for each output, {', '.join(names)}; it has "
                f"{', '.join(map(repr, norm))}."
            )
        return [
            confidence_width(one.information, norm=max(found), delta=share)
            for one, found in zip(outputs, norms, strict=True)
        ]

    def __str__(self) -> str:
        return f"RKHS norm {self.norm}, delta {self.delta:g}"


def check_confidence(confidence: Any, beta: Any, horizon: Any = None) -> Confidence:
    """The caller gives one of the first two, or neither for the DEFAULT_CONFIDENCE."""
    if horizon is not None:
        if confidence is None:
            raise ValueError(
                "horizon needs confidence, the probability that none of so many queries violates "
                "a constraint; with beta= all rounds are covered anyway."
            )
        return ForRun(confidence, horizon)
    if confidence is not None and beta is not None:
        raise ValueError(
            "give confidence or beta, not both: confidence is a probability for each query, and "
            "beta is a width that holds in all rounds at once."
        )
    if beta is None:
        return PerQuery(DEFAULT_CONFIDENCE if confidence is None else confidence)
    if isinstance(beta, RKHSBound):
        return beta
    if isinstance(beta, type):
        raise TypeError(f"beta must be an instance, such as {beta.__name__}(norm=1.0).")
    return Width(beta)


@dataclass(frozen=True)
class ConfidenceBounds:
    """Lower and upper bounds of f / scale, with a row per output."""

    lower: Float[Tensor, "o n"]
    upper: Float[Tensor, "o n"]

    @classmethod
    def around(
        cls, mean: Float[Tensor, "o n"], std: Float[Tensor, "o n"], betas: Sequence[float]
    ) -> "ConfidenceBounds":
        width = torch.tensor(betas, dtype=torch.float64)[:, None] * std
        return cls(mean - width, mean + width)

    def intersect(self, other: "ConfidenceBounds") -> "ConfidenceBounds":
        lower = torch.maximum(self.lower, other.lower)
        return ConfidenceBounds(lower, torch.minimum(self.upper, other.upper))

    def widened(self, other: "ConfidenceBounds") -> "ConfidenceBounds":
        """The intervals that hold both."""
        lower = torch.minimum(self.lower, other.lower)
        return ConfidenceBounds(lower, torch.maximum(self.upper, other.upper))

    def at(self, rows: Bool[Tensor, " n"] | slice) -> "ConfidenceBounds":
        return ConfidenceBounds(self.lower[:, rows], self.upper[:, rows])

    def extended(
        self,
        slopes: Mapping[Side, Lipschitz],
        points: Points,
        safe_points: Points,
        there: "ConfidenceBounds",
    ) -> "ConfidenceBounds":
        """The bounds tightened by Lipschitz constants, from the bounds at points that are safe."""
        lower, upper = self.lower.clone(), self.upper.clone()
        for side, slope in slopes.items():
            o = side.output
            if side.is_lower:
                lower[o] = slope.raise_lower(lower[o], points, safe_points, there.lower[o])
            else:
                upper[o] = -slope.raise_lower(-upper[o], points, safe_points, -there.upper[o])
        return ConfidenceBounds(lower, upper)


@dataclass(frozen=True)
class SafeSets:
    """The margins say which points are safe for sure, and which may be."""

    worst: Float[Tensor, "s n"]  # margin of each side
    best: Float[Tensor, "s n"]
    proven: Bool[Tensor, " n"] | None = None  # S_n, if a strategy makes it by a rule of its own

    @classmethod
    def of(cls, bounds: ConfidenceBounds, sides: Sequence[Side]) -> "SafeSets":
        worst = bounds.lower.new_empty(len(sides), bounds.lower.shape[1])
        best = torch.empty_like(worst)
        for i, side in enumerate(sides):
            worst[i], best[i] = side.margins(bounds.lower[side.output], bounds.upper[side.output])
        return cls(worst, best)

    def at(self, rows: slice) -> "SafeSets":
        """The same of some rows alone."""
        proven = None if self.proven is None else self.proven[rows]
        return SafeSets(self.worst[:, rows], self.best[:, rows], proven)

    def joined(self, other: "SafeSets") -> "SafeSets":
        """Safe is what both prove, and may be safe what one of them allows."""
        worst, best = torch.minimum(self.worst, other.worst), torch.maximum(self.best, other.best)
        has_own = self.proven is not None or other.proven is not None
        return SafeSets(worst, best, self.is_safe & other.is_safe if has_own else None)

    @property
    def is_safe(self) -> Bool[Tensor, " n"]:
        """The pessimistic safe set S_n. Without limits it holds everything."""
        return (self.worst >= 0).all(dim=0) if self.proven is None else self.proven

    @property
    def may_be_safe(self) -> Bool[Tensor, " n"]:
        """The optimistic safe set."""
        return (self.best >= 0).all(dim=0)


def probability_safe(
    mean: Float[Tensor, "o n"], std: Float[Tensor, "o n"], sides: Sequence[Side]
) -> Float[Tensor, " n"]:
    """The probability that all limits are kept, under the model.

    Outputs are independent of each other. Within an output the limits are taken together exactly.
    """
    safe = torch.ones_like(mean[0])
    for output in {side.output for side in sides}:
        below, above = torch.zeros_like(safe), torch.ones_like(safe)
        for side in (side for side in sides if side.output == output):
            z = (side.limit - mean[output]) / std[output]
            share = torch.special.ndtr(z.nan_to_num(nan=0.0))  # NaN: it is the limit itself
            if side.is_lower:
                below = torch.maximum(below, share)
            else:
                above = torch.minimum(above, share)
        safe = safe * (above - below).clamp(min=0.0)
    return safe


@dataclass(frozen=True)
class PointBeliefs:
    """Means, standard deviations and margins at some points, with a row per output."""

    model: "SafeModel"
    mean: Float[Tensor, "o b"]
    std: Float[Tensor, "o b"]
    bounds: ConfidenceBounds
    sets: SafeSets
    risk: Float[Tensor, "s b"] | None = None  # of each limit, if there are mixtures
    doubted: "PointBeliefs | None" = None  # if suspect values are right

    def probability_safe(self) -> Float[Tensor, " b"]:
        """The probability under the model, with or without suspect values: the smaller.

        What a Lipschitz constant alone says is sure, and what it leaves open has probability 0.
        """
        bounded = [self.model.is_bounded(side) for side in self.model.sides]
        if self.risk is not None:
            found = (1 - self.risk.sum(dim=0)).clamp(min=0.0)
        else:
            sides = [side for side in self.model.sides if not self.model.is_bounded(side)]
            found = probability_safe(self.mean, self.std, sides)
        found = found * (self.sets.worst[bounded] >= 0).all(dim=0)
        if self.doubted is None:
            return found
        return torch.minimum(found, self.doubted.probability_safe())

    def lower_margins(self) -> dict[str, float]:
        """The pessimistic margin of each constraint at a single point, in its own unit."""
        margins: dict[str, float] = {}
        for side, worst in zip(self.model.sides, self.sets.worst[:, 0].tolist(), strict=True):
            margin = worst * self.model.outputs[side.output].scale
            margins[side.name] = min(margin, margins.get(side.name, margin))
        return margins
