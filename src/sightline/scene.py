"""What select works on, once checked: pool, candidates, targets, and what is known already."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline import numerics
from sightline.kernels import Kernel
from sightline.kernels.algebra import matrix_size
from sightline.pools import Pool, Rows
from sightline.posterior import Observation, Problem
from sightline.rules import Rule
from sightline.shapes import Float, Int, Shaped


@dataclass(frozen=True)
class Observed:
    """What was observed before: numbers of pool rows, and points outside the pool."""

    indices: Int[Tensor, " o"]
    points: Float[Tensor, "p d"] | None = None  # as given, to be kept with the result
    features: Float[Tensor, "p d"] | None = None  # the same, normalised as the pool is


@dataclass(frozen=True)
class Noise:
    """The observation noise, resolved to variances."""

    of_pool: Float[Tensor, " n"]  # an expanded view where it is the same for all rows
    of_rows: Float[Tensor, " c"]  # the candidates' part of it
    scalar: float | None  # None: it differs between points
    ratio: float  # mean noise variance over mean prior variance of the candidates


@dataclass(frozen=True)
class Scene:
    """A pool, the rows of it that may be picked, the targets, and what was observed before."""

    pool: Pool
    kernel: Kernel
    candidates: Int[Tensor, " c"] | None
    targets: Tensor | None
    target_weights: Float[Tensor, " m"] | None
    is_weighted: bool
    observed: Observed

    @property
    def rows(self) -> Pool | Rows:
        return self.pool.take(self.candidates)

    def cut(self, values: Shaped[Tensor, " n"]) -> Shaped[Tensor, " c"]:
        """The candidates' part of a vector over the pool, where the arithmetic is done."""
        cut = values if self.candidates is None else values[self.candidates.to(values.device)]
        return cut.to(self.pool.device)

    def fingerprint(self) -> str:
        """A short name for the content of the pool; row numbers are told apart by their matrix."""
        return fingerprint(self.pool, self.kernel)

    def problem(self, rule: Rule, noise: Noise, columns_ahead: int | None = None) -> Problem:
        """The problem that a rule poses here."""
        noise_of_targets = getattr(rule, "target_noise_variance", None)  # of rules about y_A
        seen = noise_of_targets(noise.scalar) if noise_of_targets is not None else 0.0
        return Problem(
            kernel=self.kernel,
            rows=self.rows,
            noise_variance=noise.of_rows,
            targets=self.targets,
            target_weights=self.target_weights,
            target_noise_variance=seen,
            observed=self._observations(noise),
            needs=rule.needs if self.targets is not None else rule.needs | {"variance"},
            columns_ahead=columns_ahead,
        )

    def _observations(self, noise: Noise) -> tuple[Observation, ...]:
        indices, outside = self.observed.indices, self.observed.features
        points = self.pool.rows(indices)
        variances = noise.of_pool[indices.to(noise.of_pool.device)].tolist()
        inside = [Observation(points[i : i + 1], v) for i, v in enumerate(variances)]
        if outside is None:
            return tuple(inside)
        assert noise.scalar is not None  # resolve_noise sees to it
        rows = [outside[i : i + 1] for i in range(len(outside))]
        return (*inside, *(Observation(row, noise.scalar) for row in rows))


def fingerprint(pool: Pool, kernel: Kernel) -> str:
    """Of the pool and, where its rows are numbers of a matrix, of what they stand for."""
    if matrix_size(kernel) is None:
        return pool.fingerprint()
    rows = pool.whole()
    spaced = rows[:: max(len(rows) // numerics.FINGERPRINT_COLUMNS, 1)]
    digest = hashlib.blake2b(digest_size=8)
    for values in (kernel.diagonal(rows), kernel.block(rows, spaced)):
        digest.update(values.cpu().numpy().tobytes())
    return f"{pool.fingerprint()}+{digest.hexdigest()}"


def resolve_noise(scene: Scene, ratio: float | None, noise_std: float | Tensor | None) -> Noise:
    """The noise variance of every row; a ratio is relative to the candidates' mean variance."""
    if isinstance(noise_std, Tensor) and scene.observed.features is not None:
        raise ValueError(
            "observed points outside the pool take the scalar noise; noise_std is per pool "
            "row here. Give one noise_std, or put the points into the pool."
        )
    prior = mean_prior_variance(scene)
    n, device = len(scene.pool), scene.pool.device
    if isinstance(noise_std, Tensor):
        of_pool = noise_std.to(device).square()
        of_rows = scene.cut(of_pool)
        return Noise(of_pool, of_rows, None, _ratio(float(of_rows.mean()), prior))
    if noise_std is not None:
        scalar = noise_std**2
    else:
        assert ratio is not None
        scalar = ratio * (prior if prior > 0 else 1.0)  # nothing to learn: any noise will do
    value = torch.tensor(scalar, dtype=torch.float64, device=device)
    return Noise(value.expand(n), value.expand(len(scene.rows)), scalar, _ratio(scalar, prior))


def mean_prior_variance(scene: Scene) -> float:
    rows, total = scene.rows, 0.0
    for _, _, block in rows.blocks():
        total += float(checked_variance(scene.kernel, block, "pool").sum())
    if scene.targets is not None:
        checked_variance(scene.kernel, scene.targets, "targets")
    return total / len(rows)


def checked_variance(kernel: Kernel, points: Tensor, name: str) -> Float[Tensor, " b"]:
    """The prior variances of some points; rules square them, so the squares have to be finite."""
    variance = kernel.diagonal(points)
    is_bad = ~torch.isfinite(variance.square()) | (variance < 0)
    if bool(is_bad.any()):
        raise ValueError(
            f"the prior variances of {name} must be finite and not negative, and so must their "
            f"squares; {kernel!r} gives {float(variance[is_bad][0]):g}. Scale the features down, "
            f"or repair the kernel."
        )
    return variance


def _ratio(noise: float, prior: float) -> float:
    return noise / prior if prior > 0 else float("inf")
