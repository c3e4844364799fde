"""What select works on, once checked: pool, candidates, targets, and what is known already."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.posterior.problem import Observation, Problem
from tellmost.rows.checks import CheckedPool, check_pool
from tellmost.rows.pool import Pool
from tellmost.rules import Rule
from tellmost.running.memory import Plan
from tellmost.running.processes import Place
from tellmost.shapes import Float, Int, Shaped

EFFECTIVE_RANK_ROWS = 256
"""Evenly spaced candidates from which the effective rank of a pool is estimated."""


ANOTHER_POOL = (
    "observed is a Selection from another pool: its row numbers mean other points here. Pass the "
    "same pool, or the observed points themselves as an (o, d) array."
)


@dataclass(frozen=True)
class Observed:
    """What was observed before: numbers of pool rows, and points outside the pool."""

    indices: Int[Tensor, " o"]
    points: Float[Tensor, "p d"] | None = None  # as given, to be kept with the result
    features: Float[Tensor, "p d"] | None = None  # the same, normalised once the pool was read
    fingerprint: str | None = None  # of the pool of an earlier selection


@dataclass(frozen=True)
class Noise:
    """The observation noise, resolved to variances."""

    of_pool: Float[Tensor, " n"]  # an expanded view where it is the same for all rows
    of_rows: Float[Tensor, " c"]  # the candidates' part of it
    scalar: float | None  # None: it differs between points
    ratio: float  # mean noise variance over mean prior variance of the candidates


@dataclass(frozen=True)
class Scene:
    """A pool, the rows of it that may be picked, the targets, and what was observed before.

    Pool and candidates are those of this process; their places are among those of all processes.
    Made in two steps: first from arguments alone, then ``surveyed``, when the pool has been read.
    """

    pool: Pool
    kernel: Kernel
    candidates: Int[Tensor, " c"] | None
    targets: Tensor | None
    target_weights: Float[Tensor, " m"] | None
    is_weighted: bool
    observed: Observed
    plan: Plan
    pool_place: Place  # of the pool's rows
    place: Place  # of the candidates
    survey: CheckedPool | None = None

    def surveyed(self, normalize: str | None) -> "Scene":
        """The same with the pool read, brought to the device if it fits, and normalised; points
        too."""
        with self.place.exchange.together():
            pool = self.pool.brought_here() if self.plan.holds_pool else self.pool
        pool.remember(self._rows_to_come())
        seen = check_pool(pool, self.kernel, normalize, self.pool_place)
        if self.observed.fingerprint not in (None, seen.fingerprint):
            raise ValueError(ANOTHER_POOL)
        apply = seen.pool.normalization.apply
        features = self.observed.features
        observed = replace(self.observed, features=None if features is None else apply(features))
        targets = None if self.targets is None else apply(self.targets)
        return replace(self, pool=seen.pool, survey=seen, targets=targets, observed=observed)

    def _rows_to_come(self) -> Int[Tensor, " r"]:
        """Rows that will be asked for before the first pick."""
        spaced = self.place.mine(evenly_spaced(self.place.total))
        if self.candidates is not None:
            spaced = self.candidates[spaced]
        return torch.cat([self.pool_place.mine(self.observed.indices), spaced])

    @property
    def known(self) -> CheckedPool:
        """What is known of the pool, once it was surveyed."""
        assert self.survey is not None
        return self.survey

    @property
    def rows(self) -> Pool:
        return self.pool.take(self.candidates)

    def pool_numbers(self, rows: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
        """Overall numbers of pool rows, from those of candidates."""

        def here(own: Tensor) -> tuple[Tensor]:
            numbers = own if self.candidates is None else self.candidates[own]
            return (numbers + self.pool_place.first,)

        return self.place.collect(rows, here)[0]

    def all_candidates(self) -> Int[Tensor, " _c"] | None:
        """Overall numbers of the pool rows that may be picked on any process; None for all."""
        if self.place.total == self.pool_place.total:
            return None
        return self.pool_numbers(torch.arange(self.place.total))

    def cut(self, values: Shaped[Tensor, " n"]) -> Shaped[Tensor, " c"]:
        """The candidates' part of a vector over the pool, where the arithmetic is done."""
        cut = values if self.candidates is None else values[self.candidates.to(values.device)]
        return cut.to(self.pool.device)

    def problem(
        self,
        rule: Rule,
        noise: Noise,
        picks: int | None = None,
        columns_ahead: int | None = None,
    ) -> Problem:
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
            picks=picks,
            columns_ahead=columns_ahead,
            prior_variance=self.cut(self.known.prior_variance),
            place=self.place,
            memory=self.place.least(self.plan.kept),
        )

    def _observations(self, noise: Noise) -> tuple[Observation, ...]:
        indices, outside = self.observed.indices, self.observed.features

        def here(own: Tensor) -> tuple[Tensor, ...]:
            return self.pool.rows(own), noise.of_pool[own.to(noise.of_pool.device)]

        points, variances = self.pool_place.collect(indices, here)
        inside = [Observation(points[i : i + 1], v) for i, v in enumerate(variances.tolist())]
        if outside is None:
            return tuple(inside)
        assert noise.scalar is not None  # check_noise sees to it
        rows = [outside[i : i + 1] for i in range(len(outside))]
        return (*inside, *(Observation(row, noise.scalar) for row in rows))


def resolve_noise(scene: Scene, ratio: float | None, noise_std: float | Tensor | None) -> Noise:
    """The noise variance of every row; a ratio is relative to the candidates' mean variance."""
    prior = mean_prior_variance(scene)
    n, device = len(scene.pool), scene.pool.device
    if isinstance(noise_std, Tensor):
        of_pool = noise_std.to(device).square()
        of_rows = scene.cut(of_pool)
        return Noise(of_pool, of_rows, None, _ratio(scene.place.mean(of_rows), prior))
    if noise_std is not None:
        scalar = noise_std**2
    else:
        assert ratio is not None
        scalar = ratio * (prior if prior > 0 else 1.0)  # nothing to learn: any noise will do
    value = torch.tensor(scalar, dtype=torch.float64, device=device)
    return Noise(value.expand(n), value.expand(len(scene.rows)), scalar, _ratio(scalar, prior))


def mean_prior_variance(scene: Scene) -> float:
    variance = scene.cut(scene.known.prior_variance)
    with scene.place.exchange.together():
        check_variance(scene.kernel, variance, "pool")
        if scene.targets is not None:
            check_variance(scene.kernel, scene.kernel.diagonal(scene.targets), "targets")
    return scene.place.mean(variance)


def check_variance(kernel: Kernel, variance: Float[Tensor, " b"], name: str) -> None:
    """Rules square prior variances, so the squares have to be finite."""
    is_bad = ~torch.isfinite(variance.square()) | (variance < 0)
    if bool(is_bad.any()):
        raise ValueError(
            f"the prior variances of {name} must be finite and not negative, and so must their "
            f"squares; {kernel!r} gives {float(variance[is_bad][0]):g}. Scale the features down, "
            f"or repair the kernel."
        )


def evenly_spaced(count: int) -> Int[Tensor, " s"]:
    """A few rows of so many, from which the effective rank is estimated."""
    few = min(count, EFFECTIVE_RANK_ROWS)
    return torch.linspace(0, count - 1, few, dtype=torch.float64).round().long()


def _ratio(noise: float, prior: float) -> float:
    return noise / prior if prior > 0 else float("inf")
