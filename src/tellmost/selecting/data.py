"""A selection works on a pool, candidates, targets, noise, and what is known already."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.numerics import DEFAULT_NOISE_RATIO
from tellmost.posterior.problem import Observation, Problem
from tellmost.rows.checks import (
    CheckedPool,
    check_all_positive,
    check_pool,
    check_positive,
    check_vector,
)
from tellmost.rows.pool import Pool
from tellmost.rules import Rule, noise_of_targets
from tellmost.running.memory import Plan
from tellmost.running.processes import Shard
from tellmost.shapes import Float, Int, Shaped

EFFECTIVE_RANK_ROWS = 256
"""Evenly spaced candidates from which the effective rank of a pool is estimated."""

LEAST_VARIANCE = 1e-140
"""Rules square prior variances, and smaller squares lose their digits in float64."""

ANOTHER_POOL = (
    "observed is a Selection from another pool: its row numbers mean other points here. Pass the "
    "same pool, or the observed points themselves as an (o, d) array."
)


@dataclass(frozen=True)
class Observed:
    """These were observed before: numbers of pool rows, and points outside the pool."""

    indices: Int[Tensor, " o"]
    points: Float[Tensor, "p d"] | None = None  # as given, to be kept with the result
    features: Float[Tensor, "p d"] | None = None  # the same, normalised once the pool was read
    fingerprint: str | None = None  # of the pool of an earlier selection


@dataclass(frozen=True)
class SelectionNoise:
    """The observation noise, resolved to variances."""

    of_pool: Float[Tensor, " n"]  # an expanded view where it is the same for all rows
    of_rows: Float[Tensor, " c"]  # the candidates' part of it
    scalar: float | None  # None: it differs between points
    ratio: float  # mean noise variance over mean prior variance of the candidates


@dataclass(frozen=True)
class Pick:
    """A candidate that was picked, its gain, and how uncertain the targets are after it."""

    row: int
    gain: float
    uncertainty: float


@dataclass(frozen=True)
class SelectionData:
    """A pool, the rows of it that may be picked, the targets, and what was observed before.

    Made in two steps: first from arguments alone, then by ``read``, when the pool is read. Where
    several processes hold the pool, pool and candidates are those of this process, and the shards
    say where they are among those of all.
    """

    pool: Pool
    kernel: Kernel
    candidates: Int[Tensor, " c"] | None
    targets: Tensor | None
    target_weights: Float[Tensor, " m"] | None
    is_weighted: bool
    observed: Observed
    plan: Plan
    normalize: str | None = None
    pool_shard: Shard | None = None  # of the pool's rows
    shard: Shard | None = None  # of the candidates
    checked: CheckedPool | None = None

    def read(self) -> "SelectionData":
        """The same with the pool read, brought to the device if it fits, and normalised."""
        with self.together():
            pool = self.pool.brought_here() if self.plan.holds_pool else self.pool
        pool.remember(self._rows_to_come())
        seen = check_pool(pool, self.kernel, self.normalize, self.pool_shard)
        if self.observed.fingerprint not in (None, seen.fingerprint):
            raise ValueError(ANOTHER_POOL)
        apply = seen.pool.normalization.apply
        features = self.observed.features
        observed = replace(self.observed, features=None if features is None else apply(features))
        targets = None if self.targets is None else apply(self.targets)
        return replace(self, pool=seen.pool, checked=seen, targets=targets, observed=observed)

    def together(self) -> AbstractContextManager[None]:
        """Make an error on one process an error on all."""
        return nullcontext() if self.shard is None else self.shard.group.together()

    def _rows_to_come(self) -> Int[Tensor, " r"]:
        """Rows that will be asked for before the first pick."""
        spaced = evenly_spaced(self.candidate_count)
        if self.shard is not None:
            spaced = self.shard.mine(spaced)
        if self.candidates is not None:
            spaced = self.candidates[spaced]
        return torch.cat([self.observed_here, spaced])

    @property
    def known(self) -> CheckedPool:
        """This is known of the pool, once it was read."""
        assert self.checked is not None
        return self.checked

    @property
    def rows(self) -> Pool:
        """The candidates."""
        return self.pool.take(self.candidates)

    @property
    def row_count(self) -> int:
        """The number of pool rows of all processes."""
        return len(self.pool) if self.pool_shard is None else self.pool_shard.total

    @property
    def candidate_count(self) -> int:
        """The number of candidates of all processes."""
        return len(self.rows) if self.shard is None else self.shard.total

    @property
    def observed_here(self) -> Int[Tensor, " _o"]:
        """The observed rows of this process, by their numbers here."""
        indices = self.observed.indices
        return indices if self.pool_shard is None else self.pool_shard.mine(indices)

    def pool_numbers(self, rows: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
        """Overall numbers of pool rows, from those of candidates."""
        if self.shard is None or self.pool_shard is None:
            return rows if self.candidates is None else self.candidates[rows]
        first = self.pool_shard.first

        def here(own: Tensor) -> tuple[Tensor]:
            return ((own if self.candidates is None else self.candidates[own]) + first,)

        return self.shard.collect(rows, here)[0]

    def all_candidates(self) -> Int[Tensor, " _c"] | None:
        """Overall numbers of the pool rows that may be picked on any process; None for all."""
        if self.candidate_count == self.row_count:
            return None
        return self.pool_numbers(torch.arange(self.candidate_count))

    def cut(self, values: Shaped[Tensor, " n"]) -> Shaped[Tensor, " c"]:
        """The candidates' part of a vector over the pool, where the arithmetic is done."""
        cut = values if self.candidates is None else values[self.candidates.to(values.device)]
        return cut.to(self.pool.device)

    def problem(
        self,
        rule: Rule,
        noise: SelectionNoise,
        picks: int | None = None,
        columns_ahead: int | None = None,
    ) -> Problem:
        kept = self.plan.kept
        return Problem(
            kernel=self.kernel,
            rows=self.rows,
            noise_variance=noise.of_rows,
            targets=self.targets,
            target_weights=self.target_weights,
            target_noise_variance=noise_of_targets(rule, noise.scalar),
            observed=self._observations(noise),
            needs=rule.needs if self.targets is not None else rule.needs | {"variance"},
            picks=picks,
            columns_ahead=columns_ahead,
            prior_variance=self.cut(self.known.prior_variance),
            memory=kept if self.shard is None else self.shard.least(kept),
            shard=self.shard,
        )

    def _observations(self, noise: SelectionNoise) -> tuple[Observation, ...]:
        indices, outside = self.observed.indices, self.observed.features

        def here(own: Tensor) -> tuple[Tensor, ...]:
            return self.pool.rows(own), noise.of_pool[own.to(noise.of_pool.device)]

        shard = self.pool_shard
        points, variances = here(indices) if shard is None else shard.collect(indices, here)
        inside = [Observation(points[i : i + 1], v) for i, v in enumerate(variances.tolist())]
        if outside is None:
            return tuple(inside)
        assert noise.scalar is not None  # check_noise sees to it
        rows = [outside[i : i + 1] for i in range(len(outside))]
        return (*inside, *(Observation(row, noise.scalar) for row in rows))


def check_noise(
    noise_ratio: Any, noise_std: Any, data: SelectionData
) -> tuple[float | None, float | Tensor | None]:
    """Either (ratio, None) or (None, standard deviation: a float or a vector)."""
    if noise_ratio is not None and noise_std is not None:
        raise ValueError(
            "give noise_ratio (noise variance / mean prior variance) or noise_std (in the unit of "
            "y), not both."
        )
    if noise_std is None:
        ratio = DEFAULT_NOISE_RATIO if noise_ratio is None else noise_ratio
        return check_positive(ratio, "noise_ratio"), None
    if np.ndim(noise_std) == 0:
        number = check_positive(noise_std, "noise_std")
        check_squares(torch.tensor([number], dtype=torch.float64))
        return None, number
    vector = check_vector(noise_std, "noise_std", len(data.pool), "pool row")
    check_all_positive(vector, "noise_std")
    check_squares(vector)
    if data.observed.features is not None:
        raise ValueError(
            "observed points outside the pool take the scalar noise; noise_std is per pool "
            "row here. Give one noise_std, or put the points into the pool."
        )
    return None, vector


def check_squares(noise_std: Float[Tensor, " c"]) -> None:
    """The variances must be numbers that float64 can hold."""
    squares = noise_std.square()
    bad = noise_std[(squares == 0) | (squares == torch.inf)]
    if len(bad):
        raise ValueError(
            f"noise_std must have a variance that float64 can hold; got {float(bad[0]):g}, whose "
            f"square is 0 or infinite. Measure y in another unit."
        )


def resolve_noise(
    data: SelectionData, ratio: float | None, noise_std: float | Tensor | None
) -> SelectionNoise:
    """The noise variance of every row; a ratio is relative to the candidates' mean variance."""
    prior = mean_prior_variance(data)
    n, device = len(data.pool), data.pool.device
    if isinstance(noise_std, Tensor):
        of_pool = noise_std.to(device).square()
        of_rows = data.cut(of_pool)
        return SelectionNoise(of_pool, of_rows, None, _ratio(mean_of(of_rows, data.shard), prior))
    if noise_std is not None:
        scalar = noise_std**2
    else:
        assert ratio is not None
        scalar = ratio * (prior or 1.0)  # nothing to learn: any noise will do
    value = torch.tensor(scalar, dtype=torch.float64, device=device)
    ratio = _ratio(scalar, prior)
    return SelectionNoise(value.expand(n), value.expand(len(data.rows)), scalar, ratio)


def mean_prior_variance(data: SelectionData) -> float:
    """The mean prior variance of the candidates; 0 only where centring left nothing of them."""
    variance = data.cut(data.known.prior_variance)
    with data.together():
        check_variance(data.kernel, variance, "pool")
        if data.targets is not None:
            of_targets = data.kernel.diagonal(data.targets)
            check_variance(data.kernel, of_targets, "targets")
            check_size(data, float(of_targets.mean()), "targets")
    mean = mean_of(variance, data.shard)
    check_size(data, mean, "pool")
    return mean


def check_size(data: SelectionData, mean: float, name: str) -> None:
    """Refuse rows about which nothing is uncertain, or too little for float64."""
    is_centred = data.normalize is not None and "center" in data.normalize
    if mean >= LEAST_VARIANCE or (mean == 0 and is_centred):
        return
    of = "rows that may be picked" if name == "pool" else "targets"
    how = "" if data.normalize is None else f" after normalize={data.normalize!r}"
    if mean == 0:
        raise ValueError(
            f"{name} must not have a prior variance of 0 everywhere, as nothing is to be learned "
            f"then; {data.kernel!r} gives 0 for all {of}{how}. Either all are zero (were they "
            f"embedded?), or their squares are too small for float64: scale all features up."
        )
    raise ValueError(
        f"{name} must have prior variances that float64 can square; {data.kernel!r} gives the "
        f"{of}{how} {mean:.1g} on average. Multiply all features by a number such as 1e100."
    )


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


def mean_of(values: Float[Tensor, " c"], shard: Shard | None) -> float:
    """The mean over the rows of all processes."""
    return float(values.sum()) / len(values) if shard is None else shard.mean(values)


def _ratio(noise: float, prior: float) -> float:
    return noise / prior if prior > 0 else float("inf")
