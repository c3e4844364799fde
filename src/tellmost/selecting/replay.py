"""What a selection was made from, given again: for questions that its result alone cannot answer.

A Selection holds numbers of rows, not rows. With pool and targets in hand again, other rules can
choose under the same conditions, and any choice can be retraced target by target.

What lies near each pick.

The target nearest to each pick, of a selection that has just been made.
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
from tellmost.rows.pool import Normalization, Pool
from tellmost.rows.sources import open_source, read_array, spans
from tellmost.rules import Rule
from tellmost.selecting.arguments import check_points, check_rule
from tellmost.selecting.select import select_quietly
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

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

    @property
    def obstacle(self) -> str | None:
        """Why nothing can be computed as it was then; None if all can."""
        chosen = self.chosen
        if chosen.kernel is None:
            return f"the kernel {chosen.settings['kernel']} is not kept in the file"
        if chosen.noise_variance is None and isinstance(chosen.settings["noise_variance"], str):
            return "the noise of each row is not kept in the result of several processes"
        return None

    @property
    def kernel(self) -> Kernel:
        if self.chosen.kernel is None:
            raise ValueError(f"cannot compute: {self.obstacle}.")
        return self.chosen.kernel

    def noise_variance(self, indices: Int[np.ndarray, " b"]) -> Float[Tensor, " b"]:
        """With which these rows are observed."""
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
        progress: bool | None = None,
    ) -> Selection:
        """The same with another rule, or with other noise; limits of cost and groups fall away.

        Repeated picks, and ranking once, belong to the rule that was used: others do without.
        The notes are not said aloud, since nobody asked for this selection by itself.
        """
        chosen, rule = self.chosen, check_rule(rule)
        settings, per_row = chosen.settings, chosen.noise_variance
        is_same = rule.name == settings["rule"]
        noise = settings["noise_variance"] if per_row is None else per_row
        return select_quietly(
            self.given_pool,
            self.given_targets,
            k,
            rule=rule,
            kernel=self.kernel,
            noise_std=sqrt(noise_factor) * np.sqrt(noise),
            normalize=settings["normalize"],
            observed=chosen[:0],  # what it had observed before its first pick
            candidates=chosen.candidate_indices,
            target_weights=settings["target_weights"] if rule.weighs_targets else None,
            replace=settings["replace"] and is_same,
            conditional=settings["conditional"] or not is_same,
            floor=floor,
            device=self._device(),
            progress=progress,
        )

    def reductions(self, indices: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k m"]:
        """How much the variance of each target falls with each pick, were these the picks."""
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

    def variance_before(self) -> Float[np.ndarray, " m"]:
        """Of each target, before the first pick."""
        assert self.targets is not None
        points, noise = self._observed()
        targets = self.targets.to(noise.device)
        falls = retrace(self.kernel, points, noise, targets).sum(dim=0)
        return (self.kernel.diagonal(targets) - falls).cpu().numpy()

    def _observed(self) -> tuple[Tensor, Float[Tensor, " o"]]:
        """Points that were known before the first pick, and their noise."""
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

    def _device(self) -> torch.device | None:
        device = torch.device(self.chosen.settings["device"])
        is_here = device.type != "cuda" or torch.cuda.is_available()
        return device if is_here else None


def recall(chosen: Selection, pool: Any, targets: Any) -> Recalled:
    """The selection beside the pool and the targets it was made from; refuses others."""
    given = check_same_pool(chosen, pool)
    points = check_same_targets(chosen, targets, given)
    recalled = Recalled(chosen, pool, targets, given, points)
    if points is None or recalled.obstacle is not None:
        return recalled
    check_same_variance(chosen, recalled.variance_before())
    before, after = chosen.target_variance
    if not np.isnan(after).any():
        return recalled
    try:  # a prefix does not know it
        after = before - recalled.reductions(chosen.indices).sum(axis=0)
    except LinAlgError:  # nor does anybody, where the covariance of the picks is singular
        return recalled
    whole = replace(chosen, target_variance=np.stack([before, after]))
    return replace(recalled, chosen=whole)


def check_same_pool(chosen: Selection, pool: Any) -> Pool:
    """The pool that the selection came from, normalised as it was then."""
    source = open_source(pool, "pool")
    given = Pool(source, source.device, numerics.BLOCK_BYTES)
    given.remember(torch.from_numpy(chosen.indices))
    is_same = len(source.shape) in (1, 2) and source.shape[0] > 0
    if not is_same or given.fingerprint() != chosen.fingerprint.split("+")[0]:
        raise ValueError(
            f"pool is not the one that this selection was made from: its fingerprint differs; got "
            f"shape {source.shape}, the selection had {chosen.settings['rows']:,} rows. Row "
            f"numbers would mean other points; pass the same rows in the same order."
        )
    normalization = normalization_of(given, chosen.settings["normalize"])
    return replace(given, normalization=normalization)


def check_same_targets(chosen: Selection, targets: Any, pool: Pool) -> Tensor | None:
    """The selection's targets, as rows normalised as the pool is; None if it had none."""
    expected = chosen.settings["targets"]
    if targets is None:
        if expected:
            raise ValueError(f"the selection had {expected} targets; got None. Pass them again.")
        return None
    is_rows = len(pool.shape) == 2  # a vector holds row numbers of a Precomputed kernel
    points = (
        pool.normalization.apply(
            check_points(targets, "targets", pool.shape, Linear()).to(pool.device)
        )
        if is_rows
        else read_array(targets, "targets")
    )
    if len(points) != expected:
        raise ValueError(
            f"targets must be those of the selection, {expected} of them; got {len(points)}."
        )
    return points


def check_same_variance(chosen: Selection, before: Float[np.ndarray, " m"]) -> None:
    """Targets of equal number, but of other variances, are others."""
    then = chosen.target_variance[0]
    scale = RECALL_TOLERANCE * max(float(then.max()), float(before.max()))
    differs = np.flatnonzero(np.abs(before - then) > scale)
    if len(differs):
        raise ValueError(
            f"targets must be those of the selection, in the same order; target {differs[0]} has "
            f"variance {before[differs[0]]:.4g} before the first pick, and had "
            f"{then[differs[0]]:.4g}."
        )


@dataclass(frozen=True)
class Nearest:
    """For each pick the target nearest in angle, and the cosine similarity to it."""

    targets: Int[np.ndarray, " k"]
    cosines: Float[np.ndarray, " k"]


def find_nearest(
    pool: Pool, targets: Tensor | None, indices: Int[np.ndarray, " k"]
) -> Nearest | None:
    """In float64, whatever the kernel; None where there are no rows or no targets to compare."""
    if targets is None or len(pool.shape) == 1:
        return None
    unit = Normalization(to_unit_length=True)
    directions = unit.apply(targets)
    best, where = [torch.empty(0, dtype=torch.float64)], [torch.empty(0, dtype=torch.int64)]
    step = max(numerics.CHUNK_BYTES // (8 * len(targets)), 1)
    for start, stop in spans(len(indices), step):
        rows = unit.apply(pool.rows(torch.from_numpy(indices[start:stop])))
        values, numbers = (rows @ directions.T).max(dim=1)
        best.append(values.cpu())
        where.append(numbers.cpu())
    return Nearest(torch.cat(where).numpy(), torch.cat(best).numpy())


def nearest_targets(chosen: Selection, pool: Any, targets: Any) -> Nearest | None:
    """For each pick, as the selection saw its rows: normalised as it was told to.

    ``pool`` and ``targets`` are those of the selection, which is not checked again; None without
    targets.
    """
    if targets is None:
        return None
    source = open_source(pool, "pool")
    try:
        given = Pool(source, source.device, numerics.BLOCK_BYTES)
        given.remember(torch.from_numpy(chosen.indices))
        normalization = normalization_of(given, chosen.settings["normalize"])
        given = replace(given, normalization=normalization)
        points = check_points(targets, "targets", given.shape, Linear()).to(given.device)
        return find_nearest(given, given.normalization.apply(points), chosen.indices)
    finally:
        source.close()
