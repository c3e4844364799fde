"""A selection works on a pool, candidates, targets, noise, and what is known already."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.kernels.linear import feature_form
from tellmost.kernels.stationary import gaussian_for
from tellmost.numerics import DEFAULT_NOISE_RATIO
from tellmost.posterior.problem import FewRows, Observation, Problem, TargetMeasure
from tellmost.rows.checks import (
    CheckedPool,
    check_pool,
    is_plain,
)
from tellmost.rows.pool import Pool
from tellmost.rules import Rule, noise_of_targets
from tellmost.running.memory import Plan
from tellmost.running.processes import Shard
from tellmost.selecting.selection import TAKEN_AS_ALL
from tellmost.shapes import Float, Int, Shaped
from tellmost.targets.examples import LEAST_GAIN, Density, estimate_density

SAME_RATIO = 1.0 - 1e-6
"""A noise ratio from this share of the usual one on is no smaller: in float32, rows of unit length
are as exact as that."""

UNLIKE_FEATURES = 1e2
"""A feature this many times as large as most others decides all inner products."""

UNLIKE_LENGTHS = 10.0
"""Targets so many times longer, or shorter, than the rows are likely to come from elsewhere."""

MEAN_DECIDES = 0.5
"""A mean row of more than this share of the rows' squared length decides inner products."""

FEW_FEATURES, FEW_DIRECTIONS, SMALL_NOISE = "few features", "few directions", "small noise"
ABOUT_DIRECTIONS = (FEW_FEATURES, FEW_DIRECTIONS, SMALL_NOISE)
"""Kinds of notes: picks exceed the features or the effective rank, the last at small noise."""

QUIET = (TAKEN_AS_ALL, FEW_DIRECTIONS)
"""Notes of these kinds are kept with the result, and nobody is warned of them."""

NOTED_ROWS, PAIRED_WITH = 64, 2
"""Notes look at so many evenly spaced candidates. The effective rank is estimated from pairs of
these with every second of them: all pairs of more rows cost more than a small selection."""

MEDIAN_ROWS = 256
"""The lengthscale for a table is the median distance of so many evenly spaced rows."""

COMPARED = 256
"""So many picks are read at a time to find copies."""

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
    target_names: Shaped[np.ndarray, " m"] | None  # their ids, or what they were made of
    target_weights: Float[Tensor, " m"] | None
    is_weighted: bool
    observed: Observed
    plan: Plan
    normalize: str | None = None
    is_table: bool = False  # the kernel is fitted to the columns once the pool was read
    targets_are: str = "all"  # or "examples"
    usual_ratio: float = DEFAULT_NOISE_RATIO  # of noise to prior variance, if none is given
    length_of_targets: float | None = None  # relative to that of rows, before any scaling
    density: Density | None = None  # of targets that are examples, once it was estimated
    pool_shard: Shard | None = None  # of the pool's rows
    shard: Shard | None = None  # of the candidates
    checked: CheckedPool | None = None

    def read(self) -> "SelectionData":
        """The same with the pool read, brought to the device if it fits, and normalised."""
        with self.together():
            pool = self.pool.brought_here() if self.plan.holds_pool else self.pool
        pool.remember(self._rows_to_come())
        seen = check_pool(pool, self.kernel, self.normalize, self.pool_shard)
        kernel = fitted_gaussian(seen.pool, self.pool_shard) if self.is_table else self.kernel
        if self.observed.fingerprint not in (None, seen.fingerprint):
            raise ValueError(ANOTHER_POOL)
        apply = seen.pool.normalization.apply
        features = self.observed.features
        observed = replace(self.observed, features=None if features is None else apply(features))
        targets = None if self.targets is None else apply(self.targets)
        return replace(
            self,
            pool=seen.pool,
            kernel=kernel,
            checked=seen,
            targets=targets,
            observed=observed,
            length_of_targets=self._times_longer(seen),
        )

    def _times_longer(self, seen: CheckedPool) -> float | None:
        """How many times as long as rows targets are, if inner products are compared."""
        if self.targets is None or not is_plain(self.kernel):
            return None
        inverse, centred = seen.pool.inverse_length, seen.pool.normalization.centred
        squares = seen.prior_variance if inverse is None else inverse.pow(-2)
        of_rows = mean_of(squares, self.pool_shard) ** 0.5
        of_targets = float(centred(self.targets).square().sum(dim=1).mean().sqrt())
        return of_targets / of_rows if of_rows > 0 else None

    def with_density(self) -> "SelectionData":
        """The same with the distribution of the targets, if they are several examples of it."""
        if self.targets_are == "all" or self.targets is None or len(self.targets) < 2:
            return self
        assert self.target_weights is not None
        density = estimate_density(
            self.pool,
            self.targets,
            self.target_weights,
            self.kernel,
            memory=self.plan.kept,
            shard=self.pool_shard,
        )
        return replace(self, density=density)

    @property
    def examples(self) -> Density | None:
        """The distribution of the targets, where they predict one another; else they are all."""
        is_useful = self.density is not None and self.density.gain > LEAST_GAIN
        return self.density if is_useful else None

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
        *,
        is_deduplicated: bool = False,
    ) -> Problem:
        needs = rule.needs if self.targets is not None else rule.needs | {"variance"}
        if is_deduplicated:
            needs |= {"similarity_to_chosen"}
        kept, examples = self.plan.kept, self.examples
        measure = None
        if examples is not None:
            rows = self.pool.take(examples.rows)
            measure = TargetMeasure(rows, *examples.weights, examples.row_count, self.pool_shard)
        return Problem(
            kernel=self.kernel,
            rows=self.rows,
            noise_variance=noise.of_rows,
            targets=self.targets,
            target_weights=self.target_weights,
            measure=measure,
            target_noise_variance=noise_of_targets(rule, noise.scalar),
            observed=self._observations(noise),
            needs=needs,
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


def fitted_gaussian(pool: Pool, shard: Shard | None) -> Kernel:
    """The Gaussian kernel for columns of equal scale, with the median distance as lengthscale."""
    n = len(pool) if shard is None else shard.total
    numbers = evenly_spaced(n, MEDIAN_ROWS)
    few = (
        pool.rows(numbers)
        if shard is None
        else shard.collect(numbers, lambda own: (pool.rows(own),))[0]
    )
    total = torch.zeros(2, pool.dimension, dtype=torch.float64, device=pool.device)

    def sums(start: int, stop: int, block: Tensor) -> Tensor:
        away = block - few[0]  # so that no large mean hides how the columns vary
        return torch.stack([away.sum(dim=0), away.square().sum(dim=0)])

    pool.each(sums, total.add_)
    mean, square = (total if shard is None else shard.group.sum(total)) / n
    variance = square - mean.square()
    return gaussian_for(few, torch.where(variance > 0, variance, 1.0).sqrt())


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
    if not len(variance):  # of several processes one may have no candidate
        return
    least, largest = (float(end) for end in variance.aminmax())
    if not (least >= 0.0 and largest * largest < torch.inf):  # NaN is not either
        is_bad = ~torch.isfinite(variance.square()) | (variance < 0)
        raise ValueError(
            f"the prior variances of {name} must be finite and not negative, and so must their "
            f"squares; {kernel!r} gives {float(variance[is_bad][0]):g}. Scale the features down, "
            f"or repair the kernel."
        )


def evenly_spaced(count: int, most: int = NOTED_ROWS) -> Int[Tensor, " s"]:
    """A few rows of so many."""
    return torch.linspace(0, count - 1, min(count, most), dtype=torch.float64).round().long()


def mean_of(values: Float[Tensor, " c"], shard: Shard | None) -> float:
    """The mean over the rows of all processes."""
    return float(values.sum()) / len(values) if shard is None else shard.mean(values)


def _ratio(noise: float, prior: float) -> float:
    return noise / prior if prior > 0 else float("inf")


def note_scales(problem: Problem, few: Points, data: SelectionData) -> dict[str, str]:
    """Note features, rows or targets whose scale makes inner products say little.

    How much longer than rows targets are is measured before any scaling to unit length.
    """
    if not is_plain(problem.kernel) or not problem.needs:
        return {}
    squares = few.square().mean(dim=0)
    scales = squares.sqrt()
    largest = float(scales.max())
    if largest == 0.0:
        note = "all rows of the pool are equal: centring leaves nothing that tells them apart."
        return {"equal rows": note}
    notes, usual = {}, float(scales[scales > 0].median())
    if largest > UNLIKE_FEATURES * usual:
        notes["unlike features"] = (
            f"feature {int(scales.argmax())} of the pool has {largest / usual:.1g} times the size "
            f"of a usual one, so it alone decides what is near. For a table pass "
            f"kernel='gaussian', which scales the columns; or standardise the features."
        )
    share = float(few.mean(dim=0).square().sum() / squares.sum())
    if problem.targets is not None and share > MEAN_DECIDES and problem.row_count > 1:
        notes["large mean"] = (
            f"the mean row has {100 * share:.0f}% of the rows' squared length, so that inner "
            f"products tell rows hardly apart. Pass normalize='center+unit', or leave out kernel."
        )
    times, scaling = data.length_of_targets, data.normalize or ""
    if times is not None and not 1 / UNLIKE_LENGTHS < times < UNLIKE_LENGTHS:
        way = "" if "unit" in scaling else ", or pass normalize='unit'"
        notes["unlike lengths"] = (
            f"the targets have {times:.2g} times the length of the pool's rows, as if they "
            f"came from another space. Embed both alike{way}."
        )
    return notes


def note_directions(
    problem: Problem, few: FewRows, picks: int | None, noise: SelectionNoise, usual: float
) -> dict[str, str]:
    """Note picks that outnumber the directions of the rows' features."""
    if picks is None or problem.targets is None or not problem.conditions_rows:
        return {}
    d, rank, notes = problem.rows.dimension, effective_rank(problem, few), {}
    if is_plain(problem.kernel) and picks > d:
        note = (
            f"{picks} picks exceed the {d} features of the rows, so the later picks repeat what "
            f"inner products have learned already. For a table of numbers pass kernel='gaussian'."
        )
        notes[FEW_FEATURES] = note
    if picks <= rank:
        return notes
    if noise.ratio < SAME_RATIO * usual:
        note = (
            f"{picks} picks exceed the effective rank of the candidates (about {rank:.0f}) at a "
            f"noise ratio of {noise.ratio:.3g}: observations this precise settle the targets "
            f"early, and the later picks spread over everything. A noise_ratio of {usual:g} or "
            f"more keeps them together."
        )
        return notes | {SMALL_NOISE: note}
    if notes or feature_form(problem.kernel) is None:
        return notes
    note = (
        f"{picks} picks exceed the effective rank of the candidates (about {rank:.0f}), so the "
        f"later picks repeat what inner products have learned already. For a table of numbers "
        f"pass kernel='gaussian'."
    )
    return {FEW_DIRECTIONS: note}


def note_copies(problem: Problem, rows: list[int]) -> dict[str, str]:
    """Note picks that are exact copies of other picks, where rows can be read once more."""
    if not problem.rows.source.jumps or len(set(rows)) < len(rows):
        return {}
    different: set[bytes] = set()
    for start in range(0, len(rows), COMPARED):
        some = FewRows.read(problem, torch.tensor(rows[start : start + COMPARED]))
        different |= {row.tobytes() for row in some.points.cpu().numpy()}
    if len(different) == len(rows):
        return {}
    note = (
        f"{len(rows) - len(different)} of the {len(rows)} picks are exact copies of other picks. "
        f"Pass dedupe=0.98 to pick each only once, or drop copies from the pool."
    )
    return {"copies": note}


def effective_rank(problem: Problem, few: FewRows) -> float:
    """(E k(x, x))^2 / E k(x, z)^2 over pairs: d for isotropic candidates, 1 for equal ones.

    It estimates (tr K)^2 / |K|_F^2 of the whole pool from pairs of a few evenly spaced rows.
    """
    n, count = problem.row_count, len(few.points)
    if count == 1:
        return 1.0
    squares = problem.kernel.block(few.points, few.points[::PAIRED_WITH]).square_()
    others = squares.sum() - squares[::PAIRED_WITH].diagonal().sum()
    own = float(few.prior_variance.mean()) ** 2
    pairs = float(others) / ((count - 1) * squares.shape[1])
    return float(n) if own >= n * pairs else own / pairs


def note_targets(data: SelectionData) -> dict[str, str]:
    """Note that targets are taken for all there is, although they might be examples."""
    if data.targets_are == "all" or data.examples is not None:
        return {}
    why = "a single target says nothing about others of its kind"
    if data.density is not None and data.density.gain == -float("inf"):
        why = "all of them are nearer to one another than to any row, as copies are"
    elif data.density is not None:
        why = (
            f"they do not predict one another (gain {data.density.gain:.2g}, at most {LEAST_GAIN})"
        )
    return {TAKEN_AS_ALL: f"the targets are taken for all that is wanted, since {why}."}
