"""The problem that a selection solves, and the state of knowledge that its rule sees.

A Problem is fixed before the first pick. A State and a TargetState say what is known after some
observations: of the rows what the rule needs, of the targets their variances.
"""

from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.numerics import ZERO_VARIANCE
from tellmost.rows.pool import Pool
from tellmost.rows.sources import spans
from tellmost.running import workers
from tellmost.running.processes import Read, Shard
from tellmost.shapes import Float, Int

KEEP_BYTES = 4 * 2**30
"""Rows x targets covariances up to this size are kept and updated; larger ones are recomputed."""


PIECE_ROWS = 2**17
"""So many rows are scored, or take in an observation, at a time. That takes several times as long
as waking a thread; a slice of a quarter of it does not."""

AMONG_CANDIDATES = "squared_covariance_with_candidates"
"""The field for rules that learn about all candidates."""


@dataclass(frozen=True)
class Observation:
    """A point already observed, in the pool or outside it, and its noise variance."""

    point: Points
    noise_variance: float


@dataclass(frozen=True)
class TargetMeasure:
    """Weighted points that stand for the targets: the targets themselves, and rows of the pool.

    The weights of all rows of all processes, and of all targets, have sum 1.
    """

    rows: Pool  # those of this process
    of_rows: Float[Tensor, " r"]
    of_targets: Float[Tensor, " m"]
    row_count: int  # of all processes
    shard: Shard | None = None  # of the pool's rows

    def moment(self, targets: Float[Tensor, "m d"]) -> Float[Tensor, "d d"]:
        """sum_x p(x) phi_x phi_x', in one pass over these rows."""
        of_rows = targets.new_zeros(targets.shape[1], targets.shape[1])

        def part(start: int, stop: int, block: Tensor) -> Tensor:
            return (block.T * self.of_rows[start:stop]) @ block

        self.rows.each(part, of_rows.add_)
        of_targets = (targets.T * self.of_targets) @ targets
        return of_targets + (of_rows if self.shard is None else self.shard.group.sum(of_rows))

    def points(self, targets: Points) -> tuple[Points, Float[Tensor, " _r"]]:
        """All points, the targets first, and their weights."""
        rows, weights = self.rows.whole(), self.of_rows
        if self.shard is not None:
            flat = rows.double() if rows.ndim == 2 else rows[:, None].double()
            table = torch.cat([weights[:, None], flat], dim=1)
            most = int(self.shard.most(len(rows)))
            table = self.shard.group.join(table, [], most)[0].to(targets.device)
            weights = table[:, 0]
            rows = table[:, 1:].reshape(len(table), *targets.shape[1:]).to(targets.dtype)
        return torch.cat([targets, rows]), torch.cat([self.of_targets, weights])


@dataclass(frozen=True)
class Problem:
    """A prior, candidates to choose from, targets to learn about, and what is known already.

    ``needs`` names the fields of a State that the rule reads; nothing else is kept up to date.
    """

    kernel: Kernel
    rows: Pool
    noise_variance: Float[Tensor, " n"]  # one entry per row; a scalar is an expanded view
    prior_variance: Float[Tensor, " n"]  # k(x, x) of each row; not to be changed
    targets: Points | None = None
    target_weights: Float[Tensor, " m"] | None = None
    measure: TargetMeasure | None = None  # what the targets are examples of; None: they are all
    given_count: int | None = None  # the first so many targets are the caller's; None: all are
    target_noise_variance: float = 0.0  # how f_A is seen when conditioning on it: 0 is f_A itself
    observed: tuple[Observation, ...] = ()
    needs: frozenset[str] = frozenset()
    picks: int | None = None  # how many there will be, if that is known
    columns_ahead: int | None = None  # how many are made in one pass; None: as the costs say
    memory: int = KEEP_BYTES  # what may be taken for kept columns and covariances
    shard: Shard | None = None  # these rows among those of all processes; None: they are all

    @property
    def device(self) -> torch.device:
        return self.rows.device

    @property
    def row_count(self) -> int:
        """The number of rows of all processes."""
        return len(self.rows) if self.shard is None else self.shard.total

    @property
    def most_rows(self) -> int:
        """The number of rows of the process that has the most."""
        return len(self.rows) if self.shard is None else self.shard.most_rows

    def collect(self, numbers: Int[Tensor, " b"], read: Read) -> tuple[Tensor, ...]:
        """Values of some rows by their overall numbers; each process reads its own of them."""
        return read(numbers) if self.shard is None else self.shard.collect(numbers, read)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        return values if self.shard is None else self.shard.group.sum(values)

    def mean(self, values: Float[Tensor, " n"]) -> float:
        """The mean over all rows of an entry per row."""
        return float(values.sum()) / len(values) if self.shard is None else self.shard.mean(values)

    def least(self, number: int) -> int:
        """The smallest of all processes' numbers."""
        return number if self.shard is None else self.shard.least(number)

    @property
    def sees_targets(self) -> bool:
        return "variance_given_targets" in self.needs

    @property
    def conditions_rows(self) -> bool:
        """If true, the rule reads something of the posterior, beyond what was chosen."""
        return bool(self.needs - FIXED_FIELDS - CHOSEN_FIELDS)

    @property
    def keeps_covariance(self) -> bool:
        """If true, covariances of rows and targets are kept; else they are made again."""
        most = min(self.memory, KEEP_BYTES)
        return 8 * self.most_rows * self.target_count <= most

    @property
    def known_targets(self) -> Points:
        """The targets, where a rule that reads them has made sure that there are some."""
        assert self.targets is not None
        return self.targets

    @property
    def target_count(self) -> int:
        return 0 if self.targets is None else len(self.targets)

    def with_all_points(self, *, keeps_covariance: bool) -> "Problem":
        """The same problem with all points of its measure, if it has one, as targets."""
        if self.measure is None:
            return self
        rows = self.measure.row_count
        entries = max(self.most_rows if keeps_covariance else 0, self.rows.dimension)
        room, wanted = min(self.memory, KEEP_BYTES), 8 * (rows + self.target_count) * entries
        if wanted > room:
            raise ValueError(
                f"memory must have room for the {rows:,} rows that stand for the targets, which "
                f"take {wanted:,} bytes with this rule and kernel; {room:,} are left. Pass "
                f"targets_are='all', give more memory, or use rule='vtl' with inner products, "
                f"which keeps none of them."
            )
        points, weights = self.measure.points(self.known_targets)
        return replace(
            self,
            targets=points,
            target_weights=weights,
            measure=None,
            given_count=self.target_count,
        )

    @cached_property
    def row_numbers(self) -> Int[Tensor, " n"]:
        """The overall number of each row."""
        first = 0 if self.shard is None else self.shard.first
        return torch.arange(first, first + len(self.rows), device=self.device)

    def state(
        self,
        rows: Int[Tensor, " b"] | slice,
        step: int,
        fields: Mapping[str, Tensor],
        targets: "TargetState | None",
    ) -> "State":
        """The state of some rows of this process, with these fields."""
        cut = workers.cut
        return State(
            cut(self.row_numbers, rows), step, cut(self.noise_variance, rows), fields, targets
        )

    def reads_rows(self, wide: Set[str], kept: Set[str]) -> bool:
        """Say whether some of these wide fields are to be made of the rows themselves."""
        return bool(self.needs & wide - kept)

    def each_piece(
        self, wide: Set[str], kept: Set[str], work: Callable[[slice, Points | None], None]
    ) -> None:
        """Call ``work`` with pieces of all rows, on the threads of the team.

        The rows themselves come with the pieces where wide fields are made of them.
        """
        most = self.rows_per_chunk(wide)
        if self.reads_rows(wide, kept):
            self.rows.each(lambda start, stop, rows: work(slice(start, stop), rows), most=most)
        else:
            self.each_slice(most, lambda piece: work(piece, None))

    def each_slice(self, most: int, work: Callable[[slice], object]) -> None:
        """Call ``work`` with slices of so many rows, on the threads of the team."""
        workers.each_slice(len(self.rows), most, work, threads=self.rows.threads)

    def rows_per_chunk(self, wide: Set[str]) -> int:
        """A piece has so many rows: few where the rule needs some of these wide fields."""
        if not self.needs & wide:
            return PIECE_ROWS
        return max(numerics.CHUNK_BYTES // (8 * max(self.target_count, self.rows.dimension)), 1)


@dataclass(frozen=True)
class FewRows:
    """Some rows of any process, and what is fixed about each."""

    points: Points
    noise_variance: Float[Tensor, " b"]
    prior_variance: Float[Tensor, " b"]

    @classmethod
    def read(cls, problem: Problem, numbers: Int[Tensor, " b"]) -> "FewRows":
        """The rows of these overall numbers, from the processes that have them."""

        def here(rows: Tensor) -> tuple[Tensor, ...]:
            points = problem.rows.rows(rows)
            return points, problem.noise_variance[rows], problem.prior_variance[rows]

        return cls(*problem.collect(numbers, here))

    def some(self, places: list[int]) -> "FewRows":
        """The rows at these places."""
        some = places if len(places) != 1 else slice(places[0], places[0] + 1)  # without a copy
        values = self.points, self.noise_variance, self.prior_variance
        return FewRows(*(each[some] for each in values))


NEAREST_BYTES = 32 * 2**20
"""The size of a block of picks x targets similarities."""


@dataclass(frozen=True)
class Nearest:
    """The target that each of some rows is most alike, and how much."""

    targets: Int[Tensor, " k"]
    similarity: Float[Tensor, " k"]

    @classmethod
    def of(cls, problem: Problem, numbers: Int[Tensor, " k"]) -> "Nearest | None":
        """The target of the largest prior correlation, which is the cosine for inner products.

        None where there are no targets. A source that reads forwards alone is read once more.
        """
        if problem.targets is None:
            return None
        targets, kernel = problem.known_targets, problem.kernel
        of_targets = kernel.diagonal(targets)
        parts = [(torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64))]
        most = NEAREST_BYTES // (8 * max(len(targets), problem.rows.dimension))
        for start, stop in spans(len(numbers), max(most, 1)):
            few = FewRows.read(problem, numbers[start:stop])
            covariance = kernel.block(few.points, targets)
            best = prior_correlation(covariance, few.prior_variance, of_targets).max(dim=1)
            parts.append((best.values.cpu(), best.indices.cpu()))
        similarity, places = (torch.cat(values) for values in zip(*parts, strict=True))
        return cls(places, similarity)


@dataclass(frozen=True)
class TargetState:
    """It says what is known about the targets, the same for every row."""

    variance: Float[Tensor, " m"]  # k_t(a, a)
    prior_variance: Float[Tensor, " m"]  # k(a, a)
    weights: Float[Tensor, " m"]  # with sum 1


class StateField:
    """A value of every row, which a state has if the rule needs it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, state: "State", owner: type) -> Tensor:
        if self._name not in state.fields:
            raise AttributeError(
                f"this state has no {self._name}: a rule names in its ``needs`` what its gain "
                f"reads."
            )
        return state.fields[self._name]


@dataclass(frozen=True)
class State:
    """A rule sees this: an entry per row, given everything observed so far.

    Rows are independent of each other: a state of some rows has the same entries as one of all.
    """

    rows: Int[Tensor, " n"]  # numbers of the candidates, through all processes
    step: int  # how many observations were chosen so far
    noise_variance: Float[Tensor, " n"]
    fields: Mapping[str, Tensor]  # what the rule named in its ``needs``, by the names below
    targets: TargetState | None = None

    variance = StateField()  # (n,) k_t(x, x)
    variance_given_targets = StateField()  # (n,) the variance if the targets were seen as well
    squared_covariance = StateField()  # (n,) sum_a w_a k_t(x, a)^2
    squared_covariance_with_candidates = StateField()  # (n,) the mean of k_t(x, z)^2 over all z
    standardized_covariance = StateField()  # (n,) sum_a w_a k_t(x, a) / sd_t(a)
    covariance = StateField()  # (n, m) k_t(x, a)
    correlation = StateField()  # (n, m) that of f(x) and f(a), before any observation
    similarity_to_targets = StateField()  # (n,) the largest of these correlations
    squared_distance_to_targets = StateField()  # (n,) min_a k(x, x) + k(a, a) - 2 k(x, a)
    similarity_to_chosen = StateField()  # (n,) to observed points and picks; none: -inf
    squared_distance_to_chosen = StateField()  # (n,) to observed points and picks; none: inf
    prior_variance = StateField()  # (n,) k(x, x)

    @property
    def target_variance(self) -> Float[Tensor, " m"]:
        """k_t(a, a)."""
        return self._targets().variance

    @property
    def prior_target_variance(self) -> Float[Tensor, " m"]:
        """k(a, a)."""
        return self._targets().prior_variance

    @property
    def target_weights(self) -> Float[Tensor, " m"]:
        """w_a, with sum 1."""
        return self._targets().weights

    def restrict(self, some: Int[Tensor, " b"]) -> "State":
        """The same state for some of its rows."""
        fields = {name: values[some] for name, values in self.fields.items()}
        return State(self.rows[some], self.step, self.noise_variance[some], fields, self.targets)

    def _targets(self) -> TargetState:
        if self.targets is None:
            raise AttributeError("this state has no targets: the rule says it needs none.")
        return self.targets


STATE_FIELDS = frozenset(name for name, value in vars(State).items() if type(value) is StateField)
"""A rule may name these in its ``needs``; the other entries of a state are always there."""

NEAR_TARGETS = frozenset({"similarity_to_targets", "squared_distance_to_targets"})
"""Fields that say how near a row is to the nearest target."""

FIXED_FIELDS = NEAR_TARGETS | {"correlation", "prior_variance"}
"""Fields that no observation changes."""

CHOSEN_FIELDS = frozenset({"similarity_to_chosen", "squared_distance_to_chosen"})
"""Fields that depend on the prior and on which points were chosen."""

TARGET_FIELDS = STATE_FIELDS - CHOSEN_FIELDS - {"variance", "prior_variance", AMONG_CANDIDATES}
"""Fields that make no sense without targets."""


def prior_correlation(
    covariance: Float[Tensor, "n m"],
    variance: Float[Tensor, " n"],
    of_targets: Float[Tensor, " m"],
) -> Float[Tensor, "n m"]:
    """k(x, a) / (sd(x) sd(a)), and 0 where either has no variance."""
    varies, target_varies = variance > 0, of_targets > 0
    sd = variance.where(varies, 1.0).sqrt()  # 1: the root of 0 has no gradient
    sd_of_targets = of_targets.where(target_varies, 1.0).sqrt()
    correlation = covariance / (sd[:, None] * sd_of_targets)
    return torch.where(varies[:, None] & target_varies, correlation, 0.0)


FROM_COVARIANCE = frozenset({"covariance", "squared_covariance", "standardized_covariance"})
"""Fields of a state that are made of the rows' covariances with the targets."""


class TargetSummary:
    """The posterior variance of each target, and the mean, which is what we report.

    The mean is weighted. Where targets are examples, it is that of their estimated distribution.
    """

    def __init__(self, problem: Problem, variance: Float[Tensor, " m"] | None) -> None:
        self.state: TargetState | None = None
        self.root: Tensor | None = None  # of the second moment of a measure
        self._given_count = problem.given_count
        self._of_measure: Tensor | None = None  # the mean variance under the measure
        if variance is not None and problem.target_weights is not None:
            prior = problem.kernel.diagonal(problem.known_targets)
            self.state = TargetState(variance, prior, problem.target_weights)

    def observe(self, covariance: Float[Tensor, " m"], s: float) -> None:
        """Condition on an observation of variance s with this covariance with the targets."""
        if self.state is not None:
            nonnegative(self.state.variance.addcmul_(covariance, covariance, value=-1.0 / s))

    def fork(self) -> "TargetSummary":
        """The same summary, to try observations on."""
        other = copy(self)
        if self.state is not None:
            other.state = replace(self.state, variance=self.state.variance.clone())
        return other

    def follow(self, root: Float[Tensor, "d r"], covariance: Float[Tensor, "d d"]) -> None:
        """Report the mean variance under a measure whose second moment has this root."""
        self.root = root
        self._of_measure = (covariance @ root).mul_(root).sum()

    def fall(self, U: Float[Tensor, "T d"], squares: Float[Tensor, "T m"]) -> Float[Tensor, " T"]:
        """Say by how much single observations lower the mean variance.

        U = Sigma phi / sd(y) of each, and the squares of its products with the targets.
        """
        if self.root is None:
            return squares @ self.known.weights
        return (U @ self.root).square_().sum(dim=1)

    def lower(self, fall: Tensor) -> None:
        """Take the fall of the mean variance under a measure, if that is what is reported."""
        if self._of_measure is not None:
            self._of_measure = nonnegative(self._of_measure - fall)

    @property
    def mean(self) -> Float[Tensor, ""]:
        """The weighted mean variance, on the device."""
        known = self.known
        return known.weights @ known.variance if self._of_measure is None else self._of_measure

    @property
    def known(self) -> TargetState:
        """The state, where a rule that reads targets has made sure that there are some."""
        assert self.state is not None
        return self.state

    def copy_of_variance(self) -> Float[Tensor, " m"]:
        """The variances as they are now; empty if there are no targets."""
        nothing = torch.empty(0, dtype=torch.float64)
        return nothing if self.state is None else self.state.variance[: self._given_count].clone()

    def uncertainty(self) -> float | None:
        """The weighted mean variance; None if there are no targets."""
        return None if self.state is None else float(self.mean)


def standardizing_weights(targets: TargetState) -> Float[Tensor, " m"]:
    """w_a / sd_a, and 0 for a target of no variance: its correlations are 0 by convention."""
    known = targets.variance <= ZERO_VARIANCE * targets.prior_variance
    return torch.where(known, 0.0, targets.weights / targets.variance.sqrt())


def covariance_fields(
    covariance: Float[Tensor, "b m"], targets: TargetState, needs: Set[str]
) -> dict[str, Tensor]:
    """The fields of a state that are made of the rows' covariances with the targets."""
    fields = {}
    if "covariance" in needs:
        fields["covariance"] = covariance
    if "squared_covariance" in needs:
        fields["squared_covariance"] = covariance.square() @ targets.weights
    if "standardized_covariance" in needs:
        fields["standardized_covariance"] = covariance @ standardizing_weights(targets)
    return fields


def nonnegative(variance: Tensor) -> Tensor:
    """Cut a variance at zero, in place.

    A posterior variance is a difference of equal-sized numbers, so rounding can leave it
    a few 1e-16 of the prior variance below zero, never more.
    """
    return variance.clamp_(min=0.0)
