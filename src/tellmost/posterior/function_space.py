r"""The posterior in function space, for any kernel.

After observing points :math:`z_1, \dots, z_t`, every x has a *whitened* vector F(x) with

.. math::
    k_t(x, x') = k(x, x') - F(x)^\top F(x'), \qquad
    F_{t+1}(x) = \frac{k(x, z) - F(x)^\top F(z)}{\sqrt{k_t(z, z) + \rho^2}},

the rows of a Cholesky factor. A posterior that saw the targets first starts with
:math:`F(x) = \Lambda^{-1/2} U^\top k(A, x)`, where :math:`K_{AA} = U \Lambda U^\top`. One that
sees them after observations conditions on the same :math:`g = \Lambda^{-1/2} U^\top f_A`, whose
posterior covariance :math:`I - F(g)^\top F(g)` is turned into the identity first.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.numerics import CHUNK_BYTES, RANK_TOLERANCE
from tellmost.posterior.problem import Problem, nonnegative
from tellmost.rows.sources import spans
from tellmost.running import workers
from tellmost.running.memory import in_words
from tellmost.running.workers import cut
from tellmost.shapes import Float, Int

PROVEN = 2.0
"""A Cholesky factor proves eigenvalues to lie above this multiple of RANK_TOLERANCE: its
rounding is a few 1e-13 of the largest for thousands of rows."""

UPDATED = 2**19
"""So many values of rows are read at a time when rows take in an observation: 4 MB."""

UPDATED_ROWS = 4_096
"""At least so many rows take it in at a time: narrower strips of a large table are read at two
thirds of the speed."""

FEW_COLUMNS, MOST_LATE = 8, 16
"""For so few points the factor is not built anew while so few rows followed it: copying it would
take longer than to use it."""

SOLVED_IN_PLACE = 256
"""From so many points on a solve writes over what it is given. The few points that climb need
gradients, which it would spoil; without them they are solved for alike, to the last bit."""

OBSERVED_TOGETHER = 256
"""Points of a block: enough for fast products, few beside the thousands where time matters."""


class GrowingMatrix:
    """A matrix that takes new rows at its end; its memory doubles whenever it is full."""

    def __init__(self, columns: int, device: torch.device, room: int = 0) -> None:
        self.memory = torch.empty(room, columns, dtype=torch.float64, device=device)
        self._count = 0

    @classmethod
    def over(cls, memory: Float[Tensor, "r c"], count: int) -> "GrowingMatrix":
        """The first rows of a memory that has them already."""
        matrix = cls(memory.shape[1], memory.device)
        matrix.memory, matrix._count = memory, count
        return matrix

    @property
    def rows(self) -> Float[Tensor, "t c"]:
        return self.memory[: self._count]

    def append(self, rows: Float[Tensor, "r c"]) -> None:
        self.extend(len(rows)).copy_(rows)

    def shorten(self, count: int) -> None:
        """Keep so many of the first rows."""
        self._count = count

    def extend(self, count: int) -> Float[Tensor, "r c"]:
        """Append so many rows and return them, to be filled."""
        needed = self._count + count
        if needed > len(self.memory):
            size = max(needed, 2 * self._count, 16)
            memory = self.memory.new_empty(size, self.memory.shape[1])
            memory[: self._count] = self.rows
            self.memory = memory
        self._count = needed
        return self.memory[needed - count : needed]


@dataclass(frozen=True)
class Sight:
    """Values that were conditioned on: f at some points, or combinations of these values."""

    points: Points
    combinations: Float[Tensor, "r b"] | None = None  # None: the values themselves

    def __len__(self) -> int:
        return len(self.points if self.combinations is None else self.combinations)

    def covariance(self, kernel: Kernel, z: Points, first: int = 0) -> Float[Tensor, "r c"]:
        """The prior covariance of these values with f at some points, from the first one on."""
        if self.combinations is None:
            return kernel.block(self.points[first:], z)
        return self.combinations[first:] @ kernel.block(self.points, z)


class FunctionPosterior:
    """It keeps what was conditioned on, and the Cholesky factor of its covariance, which grows."""

    def __init__(self, kernel: Kernel, device: torch.device) -> None:
        self._kernel = kernel
        self._seen: list[Sight] = []  # before the points observed last
        self._points: list[Tensor] = []  # observed last, one by one
        built = torch.empty(0, 0, dtype=torch.float64, device=device)
        late: list[tuple[Tensor, Tensor]] = []
        self._parts = built, late  # of the factor: a matrix, and the rows that follow it
        self._scales: list[float] = []  # its diagonal

    def copy(self) -> "FunctionPosterior":
        """An independent posterior; nothing that both share is ever written to."""
        same = copy(self)
        same._seen, same._points = list(self._seen), list(self._points)
        same._parts, same._scales = (self._parts[0], list(self._parts[1])), list(self._scales)
        return same

    def see_targets(self, targets: Points, noise_variance: float) -> bool:
        """Condition on f (or, with noise, y) at the targets, up to what is determined anyway.

        Returns whether f is known at every target from then on.
        """
        independent = None if noise_variance > 0.0 else self._independent(targets)
        if independent is not None:
            points, covariance = independent
            self._take_in(Sight(points), self.whiten(points), torch.linalg.cholesky(covariance))
            return True
        values, U = torch.linalg.eigh(self._kernel.block(targets, targets))
        kept = values > RANK_TOLERANCE * values.max()
        g = U[:, kept].T / (values[kept] + noise_variance).sqrt()[:, None]
        F = self.whiten(targets) @ g.T
        if self.rank:
            left, V = torch.linalg.eigh(torch.eye(len(g)).to(F) - F.T @ F)
            kept = left > RANK_TOLERANCE
            turn = V[:, kept].T / left[kept].sqrt()[:, None]
            g, F = turn @ g, F @ turn.T
        self._take_in(Sight(targets, g), F, torch.eye(len(g)).to(F))
        return False

    def are_independent(self, targets: Points) -> bool:
        """Say whether f would be known at every target if they were seen without noise."""
        return self._independent(targets) is not None

    def _independent(self, targets: Points) -> tuple[Points, Tensor] | None:
        """The distinct targets and their covariance, if no direction is below RANK_TOLERANCE.

        The posterior covariance less a multiple of I has a Cholesky factor only if all its
        eigenvalues are above that multiple. Those of the prior covariance are then above it too.
        """
        points, counts = torch.unique(targets, dim=0, return_counts=True)
        K, F = self._kernel.block(points, points), self.whiten(points)
        largest = float(counts.max()) * float(K.abs().sum(dim=0).max())  # or above, with repeats
        covariance = torch.addmm(K, F.T, F, alpha=-1.0)
        below = PROVEN * RANK_TOLERANCE * largest
        return (points, covariance) if has_eigenvalues_above(below, covariance) else None

    @property
    def rank(self) -> int:
        """The number of entries of F."""
        return len(self._scales)

    @property
    def _factor(self) -> Float[Tensor, "t t"]:
        """The Cholesky factor. It is built when it is needed, and not at each observation."""
        built, late = self._parts  # read once and set once, since threads may do so together
        if not late:
            return built
        factor = built.new_zeros(self.rank, self.rank)
        factor[: len(built), : len(built)] = built
        for F, corner in late:
            start, stop = len(F), len(F) + len(corner)
            factor[start:stop, :start], factor[start:stop, start:stop] = F.T, corner
        self._parts = factor, []
        return factor

    def whiten(
        self, points: Points, known: Float[Tensor, "s b"] | None = None
    ) -> Float[Tensor, "t b"]:
        """F at some points, a column each; its first entries may be known already."""
        if known is None:
            known = self._parts[0].new_empty(0, len(points))
        s = len(known)
        if s == self.rank:
            return known
        built, late = self._parts
        if len(points) <= FEW_COLUMNS and s <= len(built) and 0 < len(late) <= MOST_LATE:
            return self._whiten_few(self._covariance_with_seen(points, s), known)
        rest = self.whiten_further(points, known)
        return torch.cat([known, rest]) if s else rest

    def whiten_further(self, points: Points, known: Float[Tensor, "s b"]) -> Float[Tensor, "r b"]:
        """The entries of F after those that are known."""
        s, factor = len(known), self._factor
        covariance = self._covariance_with_seen(points, s)
        if s:
            covariance.addmm_(factor[s:, :s], known, alpha=-1.0)
        L = factor[s:, s:]
        if len(points) < SOLVED_IN_PLACE or covariance.requires_grad:
            return torch.linalg.solve_triangular(L, covariance, upper=False)
        turned = covariance.T  # in this order the solver needs no copy
        torch.linalg.solve_triangular(L.T, turned, upper=True, left=False, out=turned)
        return covariance

    def _whiten_few(
        self, covariance: Float[Tensor, "r b"], known: Float[Tensor, "s b"]
    ) -> Float[Tensor, "t b"]:
        """The same by the rows of the factor as they are, so that no factor has to be built."""
        built, late = self._parts
        s, F = len(known), torch.cat([known, covariance])
        parts = [(built[s:, :s].T, built[s:, s:]), *late]
        start = s
        for cross, corner in parts:
            stop = start + len(corner)
            left = F[start:stop] - cross.T @ F[: len(cross)]
            F[start:stop] = torch.linalg.solve_triangular(corner, left, upper=False)
            start = stop
        return F

    def observe(
        self, point: Points, noise_variance: float, known: Float[Tensor, "t 1"] | None = None
    ) -> tuple[Float[Tensor, " t"], float]:
        """Condition on an observation at a point, given as a single row, whose F may be known.

        Returns F at the point before the observation, and the observation's variance.
        """
        F = self.whiten(point, known)
        own, prior = F[:, 0], float(self._kernel.diagonal(point))
        s = max(prior - float(own @ own), 0.0) + noise_variance
        self._grow(F, F.new_full((1, 1), s**0.5))
        self._points.append(point)
        return own, s

    def observe_all(self, points: Points, noise_variance: Float[Tensor, " b"]) -> None:
        """Condition on observations at several points in one factorisation."""
        F, corner = self._factor_of(points, noise_variance)
        if corner is None:
            least = float(noise_variance.min()) ** 0.5
            raise ValueError(
                f"noise with a standard deviation of {least:.3g} is lost in the rounding of "
                f"float64 at these {len(points)} points. Give a larger noise."
            )
        self._take_in(Sight(points), F, corner)

    def observe_in_turn(self, points: Points, noise_variance: Float[Tensor, " b"]) -> None:
        """Condition on any number of observations with any noise, block by block.

        Where rounding leaves an observation less variance than its noise has, the block is
        observed point by point, which never leaves less than that.
        """
        for start, stop in spans(len(points), OBSERVED_TOGETHER):
            some, noise = points[start:stop], noise_variance[start:stop]
            F, corner = self._factor_of(some, noise)
            if corner is not None and bool((corner.diagonal().square() >= noise).all()):
                self._take_in(Sight(some), F, corner)
            else:
                for i in range(len(some)):
                    self.observe(some[i : i + 1], float(noise[i]))

    def _factor_of(
        self, points: Points, noise_variance: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, "t b"], Float[Tensor, "b b"] | None]:
        """F at the points, and the Cholesky factor of the observations there.

        The factor is None if rounding has lost the noise.
        """
        F = self.whiten(points)
        covariance = self._kernel.block(points, points) - F.T @ F + noise_variance.diag()
        corner, failed = torch.linalg.cholesky_ex(covariance)
        return F, None if failed else corner

    def whiten_values(self, values: Float[Tensor, " t"]) -> Float[Tensor, " t"]:
        """Values of all that was observed, turned into independent values of variance 1."""
        return torch.linalg.solve_triangular(self._factor, values[:, None], upper=False)[:, 0]

    @property
    def log_scales(self) -> Float[Tensor, " t"]:
        """The log of the standard deviation of each observation, given those before it."""
        return self._parts[0].new_tensor(self._scales).log()

    def variance(self, points: Points) -> Float[Tensor, " b"]:
        F = self.whiten(points)
        return nonnegative(self._kernel.diagonal(points) - F.square().sum(dim=0))

    def covariance(self, x: Points, z: Points) -> Float[Tensor, "b c"]:
        return self._kernel.block(x, z) - self.whiten(x).T @ self.whiten(z)

    def _take_in(
        self, sight: Sight, F: Float[Tensor, "t r"], corner: Float[Tensor, "r r"]
    ) -> None:
        self._gather_points()
        before = self._seen[-1:]
        is_plain = all(one.combinations is None for one in (*before, sight))
        if (
            before and is_plain and len(sight) < OBSERVED_TOGETHER
        ):  # many calls of a kernel are slow
            sight = Sight(torch.cat([self._seen.pop().points, sight.points]))
        self._seen.append(sight)
        self._grow(F, corner)

    def _gather_points(self) -> None:
        if self._points:
            self._seen.append(Sight(torch.cat(self._points)))
            self._points = []

    def _covariance_with_seen(self, points: Points, first: int) -> Float[Tensor, "t b"]:
        """Covariances with the values that were conditioned on, from this number on."""
        seen = [*self._seen, Sight(torch.cat(self._points))] if self._points else self._seen
        rows = []
        for sight in seen:
            if first < len(sight):
                rows.append(sight.covariance(self._kernel, points, max(first, 0)))
            first -= len(sight)
        return torch.cat(rows)

    def _grow(self, F: Float[Tensor, "t r"], corner: Float[Tensor, "r r"]) -> None:
        self._parts[1].append((F, corner))
        self._scales += corner.diagonal().tolist()


def given_observed(posterior: FunctionPosterior, problem: Problem) -> FunctionPosterior:
    """The posterior, conditioned on what was observed before."""
    if problem.observed:
        noise = [observation.noise_variance for observation in problem.observed]
        posterior.observe_in_turn(
            torch.cat([observation.point for observation in problem.observed]),
            torch.tensor(noise, dtype=torch.float64, device=problem.device),
        )
    return posterior


def has_eigenvalues_above(bound: float, matrix: Float[Tensor, "m m"]) -> bool:
    """Say whether all eigenvalues are, up to rounding: matrix - bound I then has a factor."""
    less = matrix.clone()
    less.diagonal().sub_(bound)
    return int(torch.linalg.cholesky_ex(less).info) == 0


def pivoted_cholesky(
    variance: Float[Tensor, " n"],
    column_of: Callable[[int], Float[Tensor, " n"]],
    enough: Float[Tensor, " n"],
    most: int,
    known: Float[Tensor, "s n"] | None = None,
) -> tuple[Float[Tensor, "r n"], bool]:
    """R with R' R near a covariance, the largest variance first (Harbrecht et al. 2012).

    It ends when it leaves no variance above ``enough``, which is the second result, or with
    ``most`` rows. ``column_of`` gives columns of the covariance. Rows of R may be ``known``.
    """
    left = variance.clone()
    factor = left.new_empty(most, len(left))
    start = 0 if known is None else len(known)
    if known is not None:
        factor[:start] = known
        nonnegative(left.sub_(known.square().sum(dim=0)))
    for r in range(start, most):
        pivot = int(torch.where(left > enough, left, 0.0).argmax())
        if not bool(left[pivot] > enough[pivot]):
            return factor[:r], True
        column = column_of(pivot) - factor[:r, pivot] @ factor[:r]
        factor[r] = column / column[pivot].sqrt()
        nonnegative(left.sub_(factor[r].square()))
    return factor, bool((left <= enough).all())


class RunningRows:
    """The variances and whitened vectors of all rows under one posterior."""

    def __init__(
        self, variance: Float[Tensor, " n"], whitened: GrowingMatrix, threads: int | None = 1
    ) -> None:
        self.variance, self.whitened, self._threads = variance, whitened, threads

    @classmethod
    def of(
        cls,
        problem: Problem,
        posterior: FunctionPosterior,
        known: Float[Tensor, "s n"] | None = None,  # the first entries of the whitened vectors
    ) -> "RunningRows":
        room = posterior.rank + (problem.picks or 0)
        matrix = GrowingMatrix(len(problem.rows), problem.device, room)
        rows = cls(problem.prior_variance.clone(), matrix, problem.rows.threads)
        if known is not None:
            matrix.append(known)
            for start, stop in spans(len(rows.variance), UPDATED_ROWS):
                nonnegative(rows.variance[start:stop].sub_(known[:, start:stop].square().sum(0)))
        rows.catch_up(problem, posterior)
        return rows

    def catch_up(self, problem: Problem, posterior: FunctionPosterior) -> None:
        """Take in all at once what the posterior was conditioned on since."""
        known = self.whitened.rows
        count = posterior.rank - len(known)
        if not count:
            return
        new = self.whitened.extend(count)
        known = self.whitened.rows[: len(known)]  # in the memory that it has now
        size = max(CHUNK_BYTES // (8 * posterior.rank), 1)

        def fill(first: int, stop: int, block: Points) -> None:
            for start, end in spans(len(block), size):
                some = slice(first + start, first + end)
                F = new[:, some] = posterior.whiten_further(block[start:end], known[:, some])
                nonnegative(self.variance[some].sub_(F.square().sum(dim=0)))

        problem.rows.each(fill)

    def update(
        self, prior_column: Float[Tensor, " n"], F: Float[Tensor, " t"], s: float
    ) -> Float[Tensor, " n"]:
        """Take in an observation and return its posterior column."""
        known, new = self.whitened.rows.T, self.whitened.extend(1)[0]
        column = torch.empty_like(prior_column)

        def update(piece: slice) -> None:
            explained = cut(known, piece) @ F
            own = torch.sub(cut(prior_column, piece), explained, out=cut(column, piece))
            torch.div(own, s**0.5, out=cut(new, piece))
            nonnegative(cut(self.variance, piece).addcmul_(own, own, value=-1.0 / s))

        size = max(UPDATED // (len(F) + 4), UPDATED_ROWS)
        workers.each_slice(len(column), size, update, threads=self._threads)
        return column


class CovarianceAmongRows:
    """k_t(x, z) for the rows x of this process and all candidates z, kept and updated.

    The mean over all z of :math:`k_t(x, z)^2` is the squared covariance of VTL with the candidates
    as targets. In function space nothing short of all pairs gives it.
    """

    def __init__(self, problem: Problem, posterior: FunctionPosterior) -> None:
        check_room(problem)
        self._shard, self._count = problem.shard, problem.row_count
        self._posterior = posterior
        numbers = torch.arange(problem.row_count, device=problem.device)
        (self._everyone,) = problem.collect(numbers, lambda own: (problem.rows.rows(own),))
        self._values = problem.prior_variance.new_empty(len(problem.rows), problem.row_count)

        def fill(start: int, stop: int, block: Points) -> None:
            self._values[start:stop] = self._fresh(block)

        problem.rows.each(fill)

    def update(self, column: Float[Tensor, " n"], s: float) -> None:
        """Take in an observation of variance s, by its posterior column over the rows here."""
        everyone = column if self._shard is None else self._shard.whole(column)
        self._values.addr_(column, everyone, alpha=-1.0 / s)

    def mean_square(self, rows: Int[Tensor, " b"] | slice) -> Float[Tensor, " b"]:
        """The mean over all candidates, for some rows."""
        return self._mean_square(self._values[rows])

    def fresh_mean_square(self, points: Points) -> Float[Tensor, " b"]:
        """The mean for some points, computed from the posterior and not from kept covariances."""
        return self._mean_square(self._fresh(points))

    def _fresh(self, points: Points) -> Float[Tensor, "b _n"]:
        return self._posterior.covariance(points, self._everyone)

    def _mean_square(self, covariance: Float[Tensor, "b _n"]) -> Float[Tensor, " b"]:
        lengths = torch.linalg.vector_norm(covariance, dim=1)  # makes no second matrix
        return lengths.square().div_(self._count)  # a gradient needs the lengths


def check_room(problem: Problem) -> None:
    """Refuse to keep all pairs where they do not fit into the memory that is left."""
    n = problem.row_count
    needed = 8 * (problem.most_rows * n + n * problem.rows.dimension)
    if needed > problem.memory:
        raise ValueError(
            f"memory must hold the covariances of all {n:,} candidates with each other, "
            f"{in_words(needed)}, for a rule that learns about all candidates (undirected-vtl) "
            f"with {problem.kernel!r}; {in_words(problem.memory)} are left of it. Pass fewer "
            f"candidates=, a larger memory=, or a kernel that is an inner product, such as "
            f"tm.kernels.FeatureMap, which keeps no pairs."
        )
