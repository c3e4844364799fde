"""A selection beside its pool and its targets again, for questions that the result cannot answer.

A Selection holds numbers of rows, not rows. With pool and targets in hand again, other rules can
choose under the same conditions, and any choice can be retraced target by target.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from tellmost import numerics
from tellmost.kernels import Kernel, Linear
from tellmost.posterior.floor import retrace
from tellmost.rows.checks import normalization_of
from tellmost.rows.pool import Pool
from tellmost.rows.sources import named_alike, open_source, read_array, read_rows
from tellmost.rules import Rule
from tellmost.selecting.arguments import MEASURED, check_points, check_rule
from tellmost.selecting.select import select_quietly
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int
from tellmost.targets.examples import estimate_density

RECALL_TOLERANCE = 1e-6
"""Targets whose variances differ by more than this share of the largest are other targets; far
above what two orders of the same arithmetic can differ by."""


@dataclass(frozen=True)
class Recalled:
    """A selection beside its pool and its targets, normalised as they were then."""

    chosen: Selection
    given_pool: Any
    given_targets: Any
    pool: Pool
    targets: Tensor | None  # rows, or numbers of rows of a Precomputed kernel
    pool_rows: Int[np.ndarray, " n"] | None = None  # numbers to show, where the rows are some of
    target_rows: Int[np.ndarray, " m"] | None = None  # those of a file

    def name_rows(self, indices: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
        """The numbers to show for pool rows."""
        return indices if self.pool_rows is None else self.pool_rows[indices]

    def name_targets(self, numbers: Int[np.ndarray, "*b"]) -> Int[np.ndarray, "*b"]:
        """The numbers to show for targets."""
        return numbers if self.target_rows is None else self.target_rows[numbers]

    @property
    def obstacle(self) -> str | None:
        """It says why nothing can be computed as it was then. It is None if everything can."""
        chosen = self.chosen
        if chosen.kernel is None:
            return f"the kernel {chosen.settings['kernel']} is not kept in the file"
        if chosen.noise_variance is None and isinstance(chosen.settings["noise_variance"], str):
            return "the noise of each row is not kept in the result of several processes"
        if chosen.candidate_indices is None and chosen.settings["candidates"] < len(self.pool):
            return "the rows that could be picked are not kept in the result of several processes"
        return None

    @property
    def kernel(self) -> Kernel:
        if self.chosen.kernel is None:
            raise ValueError(f"cannot compute: {self.obstacle}.")
        return self.chosen.kernel

    def noise_variance(self, indices: Int[np.ndarray, " b"]) -> Float[Tensor, " b"]:
        """The noise variance with which these rows are observed."""
        of_rows = self.chosen.noise_variance
        if of_rows is not None:
            return torch.from_numpy(of_rows[indices]).to(self.pool.device)
        scalar = float(self.chosen.settings["noise_variance"])
        return torch.full((len(indices),), scalar, dtype=torch.float64, device=self.pool.device)

    def select(
        self,
        rule: str | Rule,
        k: int,
        *,
        noise_factor: float = 1.0,
        floor: bool = False,
    ) -> Selection:
        """Select again by another rule, or with other noise, without limits of cost and groups.

        Only the rule that was used picks rows repeatedly, or ranks once, if the selection did so.
        Nothing is warned of, since nobody asked for this selection by itself.
        """
        chosen, rule = self.chosen, check_rule(rule)
        settings, per_row = chosen.settings, chosen.noise_variance
        is_same = rule.name == settings["rule"]
        device = torch.device(settings["device"])
        is_here = device.type != "cuda" or torch.cuda.is_available()
        noise = settings["noise_variance"] if per_row is None else per_row
        return select_quietly(
            self.given_pool,
            self.given_targets,
            k,
            rule=rule,
            kernel=self.kernel,
            noise_std=sqrt(noise_factor) * np.sqrt(noise),
            normalize=settings["normalize"],
            targets_are=settings["targets_are"] if isinstance(rule, MEASURED) else "all",
            observed=chosen[:0],  # what it had observed before its first pick
            candidates=chosen.candidate_indices,
            target_weights=settings["target_weights"] if rule.weighs_targets else None,
            replace=settings["replace"] and is_same,
            conditional=settings["conditional"] or not is_same,
            floor=floor,
            device=device if is_here else None,
            progress=False,
        )

    def reductions(self, indices: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k m"]:
        """Compute by how much each of these picks lowers the variance of each target."""
        assert self.targets is not None
        points, noise = self._observed()
        rows = self.pool.rows(torch.from_numpy(indices))
        falls = retrace(
            self.kernel,
            torch.cat([points, rows]),
            torch.cat([noise, self.noise_variance(indices)]),
            self.targets.to(rows.device),
        )
        return falls[len(points) :].cpu().numpy()

    def rows_for_targets(self) -> Int[np.ndarray, " r"]:
        """The rows that stand for the targets, where these were taken as examples."""
        settings = self.chosen.settings
        if settings["examples"] is None or self.targets is None or self.obstacle is not None:
            return np.empty(0, dtype=np.int64)
        m = len(self.targets)
        weights = torch.as_tensor(settings["target_weights"] or [1 / m] * m, dtype=torch.float64)
        weights = weights.to(self.targets.device)
        return estimate_density(self.pool, self.targets, weights, self.kernel).rows.cpu().numpy()

    def variance_before(self) -> Float[np.ndarray, " m"]:
        """The variance of each target before the first pick."""
        assert self.targets is not None
        points, noise = self._observed()
        targets = self.targets.to(noise.device)
        falls = retrace(self.kernel, points, noise, targets).sum(dim=0)
        return (self.kernel.diagonal(targets) - falls).cpu().numpy()

    def _observed(self) -> tuple[Tensor, Float[Tensor, " o"]]:
        """The points that were observed before the first pick, and their noise variances."""
        chosen, pool = self.chosen, self.pool
        points = pool.rows(torch.from_numpy(chosen.observed_indices))
        noise = self.noise_variance(chosen.observed_indices)
        if chosen.observed_points is None:
            return points, noise
        outside = torch.from_numpy(chosen.observed_points).to(pool.device, torch.float64)
        scalar = float(chosen.settings["noise_variance"])
        return (
            torch.cat([points, pool.normalization.apply(outside)]),
            torch.cat([noise, noise.new_full((len(outside),), scalar)]),
        )


def recall(chosen: Selection, pool: Any, targets: Any) -> Recalled:
    """The selection beside the pool and the targets it was made from. Others are refused."""
    given = check_same_pool(chosen, pool)
    points = check_same_targets(chosen, targets, given)
    recalled = Recalled(chosen, pool, targets, given, points)
    if points is None or recalled.obstacle is not None:
        return recalled
    check_same_variance(chosen, recalled.variance_before())
    before, after = chosen.target_variance
    if not np.isnan(after).any():
        return recalled
    try:  # a prefix does not know its targets' variance, which the picks tell
        after = before - recalled.reductions(chosen.indices).sum(axis=0)
    except LinAlgError:  # unless their covariance is singular
        return recalled
    whole = replace(chosen, target_variance=np.stack([before, after]))
    return replace(recalled, chosen=whole)


def check_same_pool(chosen: Selection, pool: Any) -> Pool:
    """The pool that the selection came from, normalised as it was then."""
    source = open_source(pool, "pool")
    given = Pool(source, source.device, numerics.BLOCK_BYTES)
    given.remember(torch.from_numpy(chosen.indices))
    shape = given.source.shape
    is_rows = len(shape) in (1, 2) and shape[0] > 0
    if not is_rows or given.fingerprint() != chosen.fingerprint.split("+")[0]:
        raise ValueError(
            f"pool is not the one that this selection was made from: its fingerprint differs; got "
            f"shape {shape}, the selection had {chosen.settings['rows']:,} rows. Row "
            f"numbers would mean other points; pass the same rows in the same order."
        )
    return replace(given, normalization=normalization_of(given, chosen.settings["normalize"]))


def check_same_targets(chosen: Selection, targets: Any, pool: Pool) -> Tensor | None:
    """The selection's targets, as rows normalised as the pool is; None if it had none."""
    expected = chosen.settings["targets"]
    if targets is None:
        if expected:
            raise ValueError(f"the selection had {expected} targets; got None. Pass them again.")
        return None
    if len(pool.shape) == 1:  # row numbers of a Precomputed kernel
        points = read_array(targets, "targets")
    else:
        given = read_rows(named_alike(targets, pool.source), "targets").held
        rows = check_points(given, "targets", pool.shape, Linear())
        points = pool.normalization.apply(rows.to(pool.device))
    if len(points) != expected:
        raise ValueError(
            f"targets must be those of the selection, {expected} of them; got {len(points)}."
        )
    return points


def check_same_variance(chosen: Selection, before: Float[np.ndarray, " m"]) -> None:
    """Refuse targets of other variances: they are other targets."""
    then = chosen.target_variance[0]
    scale = RECALL_TOLERANCE * max(float(then.max()), float(before.max()))
    differs = np.flatnonzero(np.abs(before - then) > scale)
    if len(differs):
        raise ValueError(
            f"targets must be those of the selection, in the same order; target {differs[0]} has "
            f"variance {before[differs[0]]:.4g} before the first pick, and had "
            f"{then[differs[0]]:.4g}."
        )
