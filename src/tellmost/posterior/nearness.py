r"""The prior says how near rows are to the targets and to what was chosen.

.. math::
    \mathrm{sim}(x, s) = \frac{k(x, s)}{\sqrt{k(x, x)\, k(s, s)}}, \qquad
    |x - s|^2 = k(x, x) + k(s, s) - 2\, k(x, s)

are the correlation of f(x) and f(s), and the squared distance in the kernel's feature space.
Chosen are the observed points and the picks. An observation changes neither value, so a column of
the prior per pick keeps the nearest of all chosen up to date.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from copy import copy

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels.kernel import Points
from tellmost.posterior.problem import NEAR_TARGETS, Problem, prior_correlation
from tellmost.posterior.weight_space import (
    Beliefs,
    Effect,
    Projection,
    Start,
    Step,
    WeightPosterior,
)
from tellmost.shapes import Bool, Float

NONE_CHOSEN = {"similarity_to_chosen": -torch.inf, "squared_distance_to_chosen": torch.inf}
"""The nearness where nothing is chosen: the largest, and the least, of an empty set."""


def nearness(
    name: str,
    covariance: Float[Tensor, "b c"],
    variance: Float[Tensor, " b"],
    of_others: Float[Tensor, " c"],
) -> Float[Tensor, "b c"]:
    """The nearness of rows and other points, by the name of the field.

    A point is as near to itself as can be; what rounding takes from that is put back.
    """
    if name == "squared_distance_to_chosen":
        return squared_distance(covariance, variance, of_others)
    similarity = prior_correlation(covariance, variance, of_others)
    return torch.where(similarity >= 1.0 - numerics.SAME_POINT, 1.0, similarity)


def squared_distance(
    covariance: Float[Tensor, "b c"],
    variance: Float[Tensor, " b"],
    of_others: Float[Tensor, " c"],
) -> Float[Tensor, "b c"]:
    """|x - s|^2 in the kernel's feature space, exactly 0 between a point and itself."""
    total = variance[:, None] + of_others
    squared = total - 2.0 * covariance
    return torch.where(squared <= numerics.SAME_POINT * total, 0.0, squared)


def nearer(name: str, one: Tensor, other: Tensor) -> Tensor:
    """The values of whichever is nearer."""
    choose = torch.minimum if name == "squared_distance_to_chosen" else torch.maximum
    return choose(one, other)


def nearness_to_targets(
    name: str, problem: Problem, points: Points, variance: Float[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """The nearness of some rows to their nearest target, by the name of the field."""
    kernel, targets = problem.kernel, problem.known_targets
    covariance, of_targets = kernel.block(points, targets), kernel.diagonal(targets)
    if name == "squared_distance_to_targets":
        return squared_distance(covariance, variance, of_targets).amin(dim=1)
    return prior_correlation(covariance, variance, of_targets).amax(dim=1)


def targets_among_rows(problem: Problem) -> Bool[Tensor, " m"]:
    """Find the targets that are rows on any process. This takes a pass over the rows.

    Rules that make sense only for such targets ask, before anything else is known about the rows.
    """
    targets = problem.known_targets
    of_targets = problem.kernel.diagonal(targets)
    found = torch.zeros(len(targets), dtype=torch.int64, device=problem.device)

    def count(start: int, stop: int, block: Points) -> Tensor:
        covariance = problem.kernel.block(block, targets)
        variance = problem.prior_variance[start:stop]
        return (squared_distance(covariance, variance, of_targets) == 0).sum(dim=0)

    with nullcontext() if problem.shard is None else problem.shard.group.together():
        rows = max(numerics.CHUNK_BYTES // (8 * max(len(targets), problem.rows.dimension)), 1)
        problem.rows.each(count, found.add_, rows)
    return problem.sum(found) > 0


def fixed_fields(
    problem: Problem, points: Points, variance: Float[Tensor, " b"]
) -> dict[str, Tensor]:
    """The fields of some rows that no observation changes, with an entry per row."""
    fields = {
        name: nearness_to_targets(name, problem, points, variance)
        for name in sorted(problem.needs & NEAR_TARGETS)
    }
    if "prior_variance" in problem.needs:
        fields["prior_variance"] = variance
    return fields


def fixed_fields_of_all(problem: Problem) -> dict[str, Tensor]:
    """The same fields of all rows; nearness to the targets takes a pass over them."""
    names = problem.needs & (NEAR_TARGETS | {"prior_variance"})
    fields = {name: problem.prior_variance.clone() for name in sorted(names)}

    def fill(start: int, stop: int, block: Points) -> None:
        some = fixed_fields(problem, block, problem.prior_variance[start:stop])
        for name, values in some.items():
            fields[name][start:stop] = values

    if names & NEAR_TARGETS:
        problem.rows.each(fill, most=problem.rows_per_chunk(NEAR_TARGETS))
    return fields


class RunningNearness:
    """Similarity or squared distance of all rows to the nearest chosen, from columns of the prior.

    No observation changes such a column.
    """

    def __init__(
        self,
        name: str,
        problem: Problem,
        chosen: list[Points],
        prior: WeightPosterior | None,
        values: Float[Tensor, " n"],
    ) -> None:
        """``chosen`` has a single row per point: those observed before, and soon the picks."""
        self.name = name
        self.values = values.fill_(NONE_CHOSEN[name])
        self._kernel, self._prior_variance = problem.kernel, problem.prior_variance
        self._chosen = chosen
        self._prior = prior  # of the weights; None in function space

    def about(
        self, values: Float[Tensor, " n"], prior_variance: Float[Tensor, " n"]
    ) -> "RunningNearness":
        """The same value of other rows."""
        other = copy(self)
        other.values, other._prior_variance = values, prior_variance
        return other

    def start(self, known: Beliefs) -> Start | None:
        """If nothing is chosen, no row has to be read."""
        return None if len(self._chosen) else Start(NONE_CHOSEN[self.name])

    def vector(self, steps: Mapping[str, Step], known: Beliefs) -> Float[Tensor, " d"]:
        assert self._prior is not None
        return self._prior.covariance @ steps["variance"].phi

    def update(self, columns: Mapping[str, Float[Tensor, " n"]], effect: Effect) -> None:
        self.take(effect.steps["variance"].phi[None], columns[self.name])

    def take(self, point: Points, column: Float[Tensor, " n"]) -> None:
        """Take in a chosen point, by its column of the prior."""
        of_point = self._kernel.diagonal(point)
        new = nearness(self.name, column[:, None], self._prior_variance, of_point)[:, 0]
        self.values.copy_(nearer(self.name, self.values, new))

    def fresh(self, U: Projection) -> Float[Tensor, " b"]:
        return self.of(U.block)

    def of(self, block: Points) -> Float[Tensor, " b"]:
        """The value of any points."""
        variance = self._kernel.diagonal(block)
        if not len(self._chosen):
            return torch.full_like(variance, NONE_CHOSEN[self.name])
        chosen = torch.cat(self._chosen)
        covariance, of_chosen = self._kernel.block(block, chosen), self._kernel.diagonal(chosen)
        values = nearness(self.name, covariance, variance, of_chosen)
        return values.amin(dim=1) if NONE_CHOSEN[self.name] > 0 else values.amax(dim=1)
