r"""How far the safe set can grow, however often one measures.

.. math::
    R_{\epsilon,\beta}(S) = S \cup \{x : g_i(x) - \beta (\eta_i(x; S) + \epsilon) \ge 0
    \;\forall i\}, \qquad \bar R = \lim_{n \to \infty} R^n,

where eta is the irreducible standard deviation of g_i at x: given what was told, had g_i been seen
on all of S. Hübotter et al. 2024, App. "Convergence to Reachable Safe Set". SafeOpt's version
needs no model:

.. math:: R_\epsilon(S) = S \cup \bigcap_i \{x : \exists z \in S,\; g_i(z) - \epsilon -
    L_i \|x - z\| \ge 0\}

Sui et al. 2015, for several constraints Berkenkamp et al. 2021.

What would open the safe set, where nothing is known to be safe.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log1p, log10
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.numerics import CHUNK_BYTES, RANK_TOLERANCE, nonnegative
from tellmost.posterior.function_space import GrowingMatrix
from tellmost.rows.checks import NOT_NUMBERS, check_vector
from tellmost.rows.sources import spans
from tellmost.safebo.constraints import Lipschitz, Side
from tellmost.safebo.stages import Stage
from tellmost.safebo.trials import NoSafePoint
from tellmost.shapes import Bool, Float

MOST_REPEATS = 1_000_000
"""Repeats of a measurement that are counted when nothing is safe: more is as good as never."""


@runtime_checkable
class Reach(Protocol):
    """Where one limit is kept for sure, after what is safe so far was measured for ever."""

    def extend(self, is_new: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """With these points measured beside all before."""


class KernelReach:
    """By the model: where the margin exceeds beta times what stays unknown."""

    def __init__(self, unknown: "Unknown", margin: Float[Tensor, " n"], beta: float) -> None:
        self._unknown, self._margin, self._beta = unknown, margin, beta

    def extend(self, is_new: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
        self._unknown.see(is_new)
        return self._margin - self._beta * self._unknown.std >= 0


class LipschitzReach:
    """By a Lipschitz constant: within the distance that a safe point's margin allows."""

    def __init__(self, slope: Lipschitz, points: Points, margin: Float[Tensor, " n"]) -> None:
        self._slope, self._points, self._margin = slope, points, margin
        self._reached = torch.zeros(len(points), dtype=torch.bool)

    def extend(self, is_new: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
        where, margin = self._points[is_new], self._margin[is_new]
        if not len(where):
            return self._reached
        for start, stop in spans(len(self._points), max(CHUNK_BYTES // (8 * len(where)), 1)):
            apart = self._slope.distances(self._points[start:stop], where)
            left = (margin - self._slope.constant * apart).amax(dim=1)
            self._reached[start:stop] |= left >= 0
        return self._reached


class Unknown:
    """The standard deviation of one output given what was told, and f at points seen since.

    A Cholesky factor that grows by the seen point that is least known, until all are known up to
    ``numerics.RANK_TOLERANCE`` of the largest prior variance: smooth kernels need few.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Points,
        whitened: Float[Tensor, "t n"],
        variance: Float[Tensor, " n"],
    ) -> None:
        self._kernel, self._points = kernel, points
        self._left = variance.clone()
        self._is_seen = torch.zeros(len(points), dtype=torch.bool)
        self._enough = RANK_TOLERANCE * float(kernel.diagonal(points).max())
        self._rows = GrowingMatrix(len(points), points.device)
        self._rows.append(whitened)

    @property
    def std(self) -> Float[Tensor, " n"]:
        return self._left.where(self._left > self._enough, 0.0).sqrt()

    def see(self, is_new: Bool[Tensor, " n"]) -> None:
        self._is_seen |= is_new
        while True:
            left = self._left.where(self._is_seen, -1.0)
            pivot = int(left.argmax())
            if float(left[pivot]) <= self._enough:
                return
            self._add(pivot)

    def _add(self, pivot: int) -> None:
        F = self._rows.rows
        column = self._kernel.column(self._points, self._points[pivot : pivot + 1])
        row = (column - F[:, pivot] @ F) / self._left[pivot].sqrt()
        nonnegative(self._left.sub_(row.square()))
        self._left[pivot] = 0.0
        self._rows.append(row[None])


def reach(start: Bool[Tensor, " n"], reaches: Sequence[Reach]) -> Bool[Tensor, " n"]:
    """The closure: extend until nothing new is reached."""
    reached, is_new = start.clone(), start
    while True:
        kept = torch.ones_like(reached)
        for one in reaches:
            kept &= one.extend(is_new)
        is_new = kept & ~reached
        if not bool(is_new.any()):
            return reached
        reached |= is_new


@dataclass(frozen=True)
class Ground:
    """The points of a finite domain, and what is true of them or taken for it."""

    stage: Stage
    margins: Sequence[Float[Tensor, " n"]]  # of each limit, in prior standard deviations

    @classmethod
    def of(cls, stage: Stage, truth: Any) -> "Ground":
        """With values by constraint, in their units; None: with posterior means."""
        sides, is_row = stage.model.sides, stage.is_candidate
        if truth is None:
            values = [stage.mean[side.output, is_row] for side in sides]
        else:
            _check_names(truth, dict.fromkeys(side.name for side in sides))
            values = [_read_values(truth, side, stage) for side in sides]
        parts = zip(sides, values, strict=True)
        return cls(stage, [side.margins(each, each)[0] for side, each in parts])

    @property
    def points(self) -> Points:
        return self.stage.points[self.stage.is_candidate]

    def reaches_by_kernel(self, epsilon: float, beta: float) -> list[Reach]:
        """One for each limit; those of one output share what is unknown of it."""
        sides, is_row = self.stage.model.sides, self.stage.is_candidate
        unknown = {}
        for number in {side.output for side in sides}:
            view = self.stage.views[number]
            F = view.belief.tracker.whitened_rows[:, is_row]
            variance = view.belief.of_rows()[1][is_row]
            unknown[number] = Unknown(view.output.kernel, self.points, F, variance)
        return [
            KernelReach(unknown[side.output], margin - beta * epsilon, beta)
            for side, margin in zip(sides, self.margins, strict=True)
        ]

    def reaches_by_lipschitz(self, epsilon: float) -> list[Reach]:
        found: list[Reach] = []
        for side, margin in zip(self.stage.model.sides, self.margins, strict=True):
            slope = self.stage.model.lipschitz[side.name]
            if slope is None:
                raise ValueError(
                    f"by='lipschitz' needs a Lipschitz constant of every constraint; "
                    f"{side.name!r} has none. Give tm.Constraint(..., lipschitz=...)."
                )
            own = Lipschitz(slope.constant / self.stage.scale(side.output), slope.norm)
            found.append(LipschitzReach(own, self.points, margin - epsilon))
        return found


def find_reachable(
    stage: Stage, start: Bool[Tensor, " n"], epsilon: Any, beta: Any, truth: Any, by: str
) -> Bool[Tensor, " n"]:
    """The closure over the domain's rows, from a safe set to start with."""
    if by not in ("kernel", "lipschitz"):
        raise ValueError(f"by must be 'kernel' or 'lipschitz'; got {by!r}.")
    ground = Ground.of(stage, truth)
    if by == "lipschitz":
        if beta is not None:
            raise ValueError("beta has no place in by='lipschitz', which knows no model: drop it.")
        return reach(start, ground.reaches_by_lipschitz(_check_slack(epsilon, "epsilon")))
    if beta is None:
        beta = max((stage.betas[side.output] for side in stage.model.sides), default=0.0)
    slack = _check_slack(epsilon, "epsilon"), _check_slack(beta, "beta")
    return reach(start, ground.reaches_by_kernel(*slack))


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


def _check_slack(value: Any, name: str) -> float:
    if isinstance(value, NOT_NUMBERS) or not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")
    return float(value)


def _check_names(truth: Any, names: Iterable[str]) -> None:
    if not isinstance(truth, Mapping) or set(truth) != set(names):
        came = list(truth) if isinstance(truth, Mapping) else type(truth).__name__
        raise ValueError(
            f"truth must have the values of every constraint by name, {list(names)}; got {came}."
        )


def _read_values(truth: Mapping[str, Any], side: Side, stage: Stage) -> Float[Tensor, " n"]:
    n, name = int(stage.is_candidate.sum()), f"truth[{side.name!r}]"
    return check_vector(truth[side.name], name, n, "point") / stage.scale(side.output)


def nothing_safe(
    stage: Stage, is_reachable: Bool[Tensor, " n"], *, has_seeds: bool = False
) -> NoSafePoint:
    """How many repeats of a measurement, or which beta, would open the set."""
    seeds = "ask() repeats a declared seed" if has_seeds else "no declared seed is left"
    start = f"no point is known to be safe by the bounds, and {seeds}. "
    rows = is_reachable.nonzero()[:, 0]
    if not len(rows):
        return NoSafePoint(
            "no point can be reached from the last one: every one is farther than max_step. Move "
            "the system, then acknowledge(at=...) where it stands."
        )
    margins, std = expected_margins(stage, rows)
    z = (margins / std).amin(dim=0)
    best = int(z.argmax())
    where = ", ".join(f"{x:.4g}" for x in stage.points[rows[best]].tolist())
    if float(z[best]) <= 0:
        return NoSafePoint(
            f"{start}Even the most promising one, ({where}), is expected to violate a constraint: "
            f"declare points that are safe as safe_seed, or tell measurements of such points."
        )
    repeats = needed_repeats(stage, int(rows[best]), margins[:, best])
    return NoSafePoint(
        f"{start}The most promising one is ({where}): a beta of {rounded_down(float(z[best]))} "
        f"would open it (now {max(stage.betas):.3g}), or {repeats} there that come out as "
        f"expected. Declare it as safe_seed if it is safe, or tell such measurements."
    )


def out_of_reach(apart: Sequence[float], names: Sequence[str]) -> NoSafePoint:
    """Safe points there are, but none within a step of where the system stands."""
    moves = ", ".join(f"{name} by {x:.4g}" for name, x in zip(names, apart, strict=True))
    return NoSafePoint(
        f"every point that is known to be safe is farther than max_step from the last one; the "
        f"nearest needs a move of {moves}. Move the system back to restore_point, then "
        f"acknowledge(at=...) where it stands, or tell a measurement there."
    )


def rounded_down(beta: float) -> str:
    """Three digits, and not more than it is: a larger beta would not open the set."""
    shift = 2 - floor(log10(beta))
    return f"{floor(beta * 10**shift) / 10**shift:.3g}"


def expected_margins(
    stage: Stage, rows: Tensor
) -> tuple[Float[Tensor, "s b"], Float[Tensor, "s b"]]:
    """Of each limit at some rows: the mean of its margin and the standard deviation."""
    sides = stage.model.sides
    margins = [
        (stage.mean[side.output, rows] - side.limit) * (1.0 if side.is_lower else -1.0)
        for side in sides
    ]
    return torch.stack(margins), torch.stack([stage.std[side.output, rows] for side in sides])


def needed_repeats(stage: Stage, row: int, margins: Float[Tensor, " s"]) -> str:
    """Measurements after which mean - beta sd reaches every limit, if the means stay."""
    most = 1
    while not is_opened(stage, row, margins, most):
        most *= 2
        if most > MOST_REPEATS:
            return f"more than {MOST_REPEATS:,} measurements"
    counts = range(1, most + 1)
    enough = bisect_left(counts, True, key=lambda k: is_opened(stage, row, margins, k))
    return f"{counts[enough]} measurement{'s' if counts[enough] > 1 else ''}"


def is_opened(stage: Stage, row: int, margins: Float[Tensor, " s"], count: int) -> bool:
    """Whether a row is safe for sure after so many measurements that come out as expected.

    Each tells something, so that a beta that grows with what is known grows too.
    """
    learned, std = [], []
    for view, sd in zip(stage.views, stage.std[:, row].tolist(), strict=True):
        growth = count * sd**2 / view.noise_of(row)
        now = view.learned
        more = now.information + 0.5 * log1p(growth)
        learned.append(replace(now, observations=now.observations + count, information=more))
        std.append(sd / (1 + growth) ** 0.5)
    betas = stage.model.confidence.betas(learned, len(stage.model.sides))
    parts = zip(stage.model.sides, margins.tolist(), strict=True)
    return all(margin >= betas[side.output] * std[side.output] for side, margin in parts)
