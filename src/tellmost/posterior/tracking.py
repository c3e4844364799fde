"""Which form of the posterior a problem gets."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.kernels import FeatureKernel, Linear
from tellmost.kernels.linear import feature_form
from tellmost.posterior.columns_ahead import Draft, FewRows
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.problem import Observation, Problem, State, TargetSummary
from tellmost.posterior.weight_tracker import WeightTracker
from tellmost.rows.pool import Pool
from tellmost.shapes import Int


@runtime_checkable
class Tracker(Protocol):
    """What is known about every row of a problem, kept current while rows are observed.

    Rows to observe are named by their overall numbers; states are about the rows of this process.
    """

    form: str
    passes: int
    width: int
    targets: TargetSummary

    @property
    def device(self) -> torch.device: ...

    def states(self) -> Iterator[tuple[int, int, State]]:
        """The state of all rows, in pieces: (first row, one past the last, state)."""

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """The state of some rows of this process, by their numbers here."""

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        """Condition on an observation of a row."""

    def is_at_hand(self, row: int) -> bool:
        """Whether the row can be observed without a pass, or no pass could be spared."""

    def look_ahead(self, rows: list[int]) -> None:
        """Prepare the observation of these rows, in one pass; ``width`` of them at most."""

    def shortlisted(self, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """Those of the rows that can be drafted from without a pass; the next pass keeps all."""

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        """A copy of what is known about some rows, to try observations on."""

    def refresh(self) -> bool:
        """Rebuild running values that have lost digits; whether there were any."""

    def mean_variance(self) -> float:
        """Mean variance of the rows."""


def track(problem: Problem) -> Tracker:
    """The cheaper exact form: weights for inner products, functions for everything else."""
    problem = in_terms_of_features(problem)
    form = weight_form(problem)
    return FunctionTracker(problem) if form is None else WeightTracker(*form)


def weight_form(problem: Problem) -> tuple[Problem, Tensor | None] | None:
    """The problem with the weights' prior covariance (None: the identity).

    None if the kernel is no inner product of the rows, or one of so many features that the state
    is smaller in function space.
    """
    form = feature_form(problem.kernel)
    if form is None or not isinstance(form[0], Linear):
        return None
    if problem.rows.dimension > problem.place.total + problem.target_count:
        return None
    return problem, prior_of(*form, problem.rows.dimension)


def in_terms_of_features(problem: Problem) -> Problem:
    """The problem with features in the place of points, where the kernel has a map to them.

    Not where all rows' features exceed the memory: function space needs a column at a time.
    """
    form = feature_form(problem.kernel)
    if form is None or isinstance(form[0], Linear):
        return problem
    first = FewRows.read(problem, torch.tensor([0]))
    dimension = form[0].features(first.points).shape[1]
    if 8 * problem.place.largest * dimension > problem.memory:
        return problem
    return in_feature_space(problem, *form, dimension)


def prior_of(kernel: FeatureKernel, factor: float, dimension: int) -> Tensor | None:
    """The prior covariance of the weights; None for the identity."""
    prior = kernel.weight_covariance(dimension)
    if factor == 1.0:
        return prior
    return factor * (torch.eye(dimension, dtype=torch.float64) if prior is None else prior)


def in_feature_space(
    problem: Problem, kernel: FeatureKernel, factor: float, dimension: int
) -> Problem:
    """The same problem with features in the place of points, computed once and kept."""
    features = torch.empty(
        len(problem.rows), dimension, dtype=torch.float64, device=problem.device
    )
    for start, stop, block in problem.rows.blocks():
        features[start:stop] = kernel.features(block)
    targets = problem.targets
    return replace(
        problem,
        kernel=Linear(prior_of(kernel, factor, dimension)),
        rows=Pool.of(features),
        memory=problem.memory - 8 * problem.place.largest * dimension,
        targets=None if targets is None else kernel.features(targets),
        observed=tuple(
            Observation(kernel.features(o.point), o.noise_variance) for o in problem.observed
        ),
    )
