r"""The safe set can grow only so far, however often one measures.

.. math::
    R_{\epsilon,\beta}(S) = S \cup \{x : g_i(x) - \beta (\eta_i(x; S) + \epsilon) \ge 0
    \;\forall i\}, \qquad \bar R = \lim_{n \to \infty} R^n,

where eta is the irreducible standard deviation of g_i at x: given what was told, and g_i itself on
all of S. Hübotter et al. 2024, App. "Convergence to Reachable Safe Set". SafeOpt's version needs
no model:

.. math:: R_\epsilon(S) = S \cup \bigcap_i \{x : \exists z \in S,\; g_i(z) - \epsilon -
    L_i \|x - z\| \ge 0\}

Sui et al. 2015; for several constraints Berkenkamp et al. 2021.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import floor, log1p, log10
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.numerics import RANK_TOLERANCE
from tellmost.rows.checks import check_number, check_vector, check_word
from tellmost.safebo.outputs import OutputPosterior
from tellmost.safebo.round_state import RoundState
from tellmost.safebo.trials import NoSafePoint
from tellmost.shapes import Bool, Float

MOST_REPEATS = 1_000_000
"""Repeats of a measurement that are counted when nothing is safe: more is as good as never."""

Extend = Callable[[Bool[Tensor, " n"]], Bool[Tensor, " n"]]
"""Says where all limits are kept for sure, after these points too were measured without end."""


def find_reachable(
    state: RoundState, start: Any, epsilon: Any, beta: Any, truth: Any, by: str
) -> Bool[Tensor, " n"]:
    """The closure over the domain's rows, from a safe set to start with."""
    check_word(by, "by", ("kernel", "lipschitz"))
    if by == "lipschitz" and beta is not None:
        raise ValueError("beta has no place in by='lipschitz', which knows no model: drop it.")
    is_safe = check_start(start, int(state.is_candidate.sum()))
    margins, slack = true_margins(state, truth), check_number(epsilon, "epsilon", least=0)
    if by == "lipschitz":
        return reach(is_safe, extend_by_lipschitz(state, margins, slack))
    if beta is None:
        beta = max((state.betas[side.output] for side in state.model.sides), default=0.0)
    return reach(
        is_safe, extend_by_kernel(state, margins, slack, check_number(beta, "beta", least=0))
    )


def reach(start: Bool[Tensor, " n"], extend: Extend) -> Bool[Tensor, " n"]:
    """The closure: extend until nothing new is reached."""
    reached, is_new = start.clone(), start
    while bool((is_new := extend(is_new) & ~reached).any()):
        reached |= is_new
    return reached


def extend_by_kernel(
    state: RoundState, margins: Sequence[Float[Tensor, " n"]], epsilon: float, beta: float
) -> Extend:
    """A limit is kept where its margin exceeds beta times what stays unknown of its model."""
    sides, is_row = state.model.sides, state.is_candidate
    numbers = {side.output for side in sides}
    unknown = {o: IrreducibleDeviation(state.posteriors[o], is_row) for o in numbers}

    def extend(is_new: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
        left, kept = {o: one.after(is_new) for o, one in unknown.items()}, torch.ones_like(is_new)
        for side, margin in zip(sides, margins, strict=True):
            kept &= margin - beta * epsilon - beta * left[side.output] >= 0
        return kept

    return extend


class IrreducibleDeviation:
    """The standard deviation of one output given what was told, and f at points seen since.

    The seen point that is least known is observed without noise, until all are known up to
    ``numerics.RANK_TOLERANCE`` of the largest prior variance. Smooth kernels need few points.
    """

    def __init__(self, posterior: OutputPosterior, is_row: Bool[Tensor, " n"]) -> None:
        self._tracker, self._is_row = posterior.belief.tracker.fork(), is_row
        self._is_seen = torch.zeros_like(is_row)
        prior = self._tracker.problem.prior_variance[is_row]
        self._enough = RANK_TOLERANCE * float(prior.max())

    def after(self, is_new: Bool[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Compute what is left after f was seen at these points too."""
        self._is_seen[self._is_row] |= is_new
        left = self._tracker.variance_of_rows
        while True:
            pivot = int(left.where(self._is_seen, -1.0).argmax())
            if not self._is_seen[pivot] or float(left[pivot]) <= self._enough:
                return left[self._is_row].where(left[self._is_row] > self._enough, 0.0).sqrt()
            self._tracker.observe_point(self._tracker.points[pivot : pivot + 1], 0.0)


def extend_by_lipschitz(
    state: RoundState, margins: Sequence[Float[Tensor, " n"]], epsilon: float
) -> Extend:
    """A limit is kept within the distance of a safe point that the point's margin allows."""
    points, slopes = state.points[state.is_candidate], state.model.slopes
    for side in state.model.sides:
        if side not in slopes:
            raise ValueError(
                f"by='lipschitz' needs a Lipschitz constant of every constraint; "
                f"{side.name!r} has none. Give tm.Constraint(..., lipschitz=...)."
            )
    best = [torch.full_like(margin, -torch.inf) for margin in margins]  # what seen points leave

    def extend(is_new: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
        for i, (side, margin) in enumerate(zip(state.model.sides, margins, strict=True)):
            there = (margin - epsilon)[is_new]
            best[i] = slopes[side].raise_lower(best[i], points, points[is_new], there)
        return torch.stack([torch.ones_like(is_new), *(one >= 0 for one in best)]).all(dim=0)

    return extend


# ---- what is given


def true_margins(state: RoundState, truth: Any) -> list[Float[Tensor, " n"]]:
    """The margin of each limit at the domain's rows, in prior standard deviations.

    ``truth`` has values by constraint, in their units. None takes the posterior means.
    """
    names, is_row = list(state.model.constraints), state.is_candidate
    if truth is not None and (not isinstance(truth, Mapping) or set(truth) != set(names)):
        came = list(truth) if isinstance(truth, Mapping) else type(truth).__name__
        raise ValueError(
            f"truth must have the values of every constraint by name, {names}; got {came}."
        )
    margins = []
    for side in state.model.sides:
        if truth is None:
            values = state.mean[side.output, is_row]
        else:
            n, name = int(is_row.sum()), f"truth[{side.name!r}]"
            values = check_vector(truth[side.name], name, n, "point") / state.scale(side.output)
        margins.append(side.margin(values))
    return margins


def check_start(start: Any, n: int) -> Bool[Tensor, " n"]:
    """A mask over the points, or row numbers."""
    values = np.asarray(start)
    if values.dtype == bool and values.shape == (n,):
        return torch.from_numpy(values.copy())
    is_rows = values.ndim == 1 and (not values.size or np.issubdtype(values.dtype, np.integer))
    if not is_rows or (values.size and (values.min() < 0 or values.max() >= n)):
        raise ValueError(
            f"start must be a mask over the {n} points or row numbers below {n}; got {values!r}."
        )
    mask = torch.zeros(n, dtype=torch.bool)
    mask[torch.from_numpy(values.astype(np.int64))] = True
    return mask


# ---- what would open the safe set


def nothing_safe(state: RoundState, is_reachable: Bool[Tensor, " n"], seeds: str) -> NoSafePoint:
    """The refusal, with how many repeats of a measurement, or which beta, would open the set."""
    start = f"no point is known to be safe by the bounds, and {seeds}. "
    rows = is_reachable.nonzero()[:, 0]
    if not len(rows):
        return NoSafePoint(
            "no point can be reached from the last one: every one is farther than max_step. Move "
            "the system, then acknowledge(at=...) where it stands."
        )
    if state.risk is not None:
        risk = state.risk[:, rows].sum(dim=0)
        where = ", ".join(f"{x:.4g}" for x in state.points[rows[int(risk.argmin())]].tolist())
        return NoSafePoint(
            f"{start}The most promising one is ({where}), which is safe with probability "
            f"{max(1 - float(risk.min()), 0.0):.3g} only. Declare points that are safe as "
            f"safe_seed, or tell measurements of such points."
        )
    sides, mean = state.model.sides, state.mean[:, rows]
    margins = torch.stack([side.margin(mean[side.output]) for side in sides])
    z = (margins / state.std[[side.output for side in sides]][:, rows]).amin(dim=0)
    best = int(z.argmax())
    where = ", ".join(f"{x:.4g}" for x in state.points[rows[best]].tolist())
    if float(z[best]) <= 0:
        return NoSafePoint(
            f"{start}Even the most promising one, ({where}), is expected to violate a constraint: "
            f"declare points that are safe as safe_seed, or tell measurements of such points."
        )
    repeats = needed_repeats(state, int(rows[best]), margins[:, best])
    return NoSafePoint(
        f"{start}The most promising one is ({where}): a beta of {rounded_down(float(z[best]))} "
        f"would open it (now {max(state.betas):.3g}), or {repeats} there that come out as "
        f"expected. Declare it as safe_seed if it is safe, or tell such measurements."
    )


def out_of_reach(apart: Sequence[float], names: Sequence[str]) -> NoSafePoint:
    """The refusal if safe points exist, but none within a step of where the system stands."""
    moves = ", ".join(f"{name} by {x:.4g}" for name, x in zip(names, apart, strict=True))
    return NoSafePoint(
        f"every point that is known to be safe is farther than max_step from the last one; the "
        f"nearest needs a move of {moves}. Move the system back to restore_point, then "
        f"acknowledge(at=...) where it stands, or tell a measurement there."
    )


def rounded_down(beta: float) -> str:
    """A beta in three digits, never rounded up: a larger beta would not open the set."""
    shift = 2 - floor(log10(beta))
    return f"{floor(beta * 10**shift) / 10**shift:.3g}"


def needed_repeats(state: RoundState, row: int, margins: Float[Tensor, " s"]) -> str:
    """Count the measurements until mean - beta sd reaches every limit, if the means stay."""
    most = 1
    while not is_opened(state, row, margins, most):
        most *= 2
        if most > MOST_REPEATS:
            return f"more than {MOST_REPEATS:,} measurements"
    counts = range(1, most + 1)
    enough = bisect_left(counts, True, key=lambda k: is_opened(state, row, margins, k))
    return f"{counts[enough]} measurement{'s' if counts[enough] > 1 else ''}"


def is_opened(state: RoundState, row: int, margins: Float[Tensor, " s"], count: int) -> bool:
    """Say whether a row is safe for sure after so many measurements that come out as expected.

    Each measurement tells something, so a beta that grows with what is known grows too.
    """
    learned, std = [], []
    for posterior, sd in zip(state.posteriors, state.std[:, row].tolist(), strict=True):
        growth = count * sd**2 / float(posterior.noise_variance[row])
        now = posterior.learned
        more = now.information + 0.5 * log1p(growth)
        learned.append(replace(now, observations=now.observations + count, information=more))
        std.append(sd / (1 + growth) ** 0.5)
    betas = state.confidence.betas(learned, len(state.model.sides))
    parts = zip(state.model.sides, margins.tolist(), strict=True)
    return all(margin >= betas[side.output] * std[side.output] for side, margin in parts)
