"""What a rule reads of rows and targets, from the kernel itself: for kernels of no small rank."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import CHUNK_BYTES
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.functions import FunctionPosterior
from tellmost.posterior.problem import TargetState
from tellmost.posterior.targets import FROM_COVARIANCE, covariance_fields
from tellmost.rows.sources import spans
from tellmost.shapes import Bool, Float, Int


class Dense:
    """The fields that a Sketch makes, in O(n m t) and, where targets are seen, O(m^3)."""

    def __init__(self, tracker: FunctionTracker) -> None:
        self._tracker = tracker

    def fields(
        self,
        rows: Int[Tensor, " b"],
        is_target: Bool[Tensor, " n"],
        targets: TargetState,
        needs: frozenset[str],
        target_noise_variance: float,
    ) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """As of a Sketch."""
        given = None
        if "variance_given_targets" in needs:
            given = Given.of(self._tracker, rows, is_target, target_noise_variance)
        size = max(CHUNK_BYTES // (8 * max(len(targets.weights), 1)), 1)
        for start, stop in spans(len(rows), size):
            some = rows[start:stop]
            fields: dict[str, Tensor] = {}
            if needs & FROM_COVARIANCE:
                fields |= covariance_fields(self._covariance(some, is_target), targets, needs)
            if given is not None:
                fields["variance_given_targets"] = given.variance(some)
            yield slice(start, stop), fields

    def _covariance(self, rows: Int[Tensor, " b"], is_target: Bool[Tensor, " n"]) -> Tensor:
        tracker, F = self._tracker, self._tracker.whitened_rows
        prior = tracker.kernel.block(tracker.points[rows], tracker.points[is_target])
        return torch.addmm(prior, F[:, rows].T, F[:, is_target], alpha=-1.0)


@dataclass(frozen=True)
class Given:
    """The posterior had f (with noise: y) been seen at the targets as well."""

    posterior: FunctionPosterior
    points: Points  # all rows
    is_known: Bool[Tensor, " n"]  # f itself: nothing is left to compute there

    @classmethod
    def of(
        cls,
        tracker: FunctionTracker,
        rows: Int[Tensor, " b"],
        is_target: Bool[Tensor, " n"],
        noise_variance: float,
    ) -> "Given":
        """For some rows: where they are targets all, it may suffice to know that f is seen."""
        posterior, points = tracker.posterior, tracker.points
        only_targets = noise_variance == 0.0 and bool(is_target[rows].all())
        if only_targets and posterior.are_independent(points[is_target]):
            return cls(posterior, points, is_target)
        posterior = posterior.copy()
        sees_each = posterior.see_targets(points[is_target], noise_variance)
        return cls(posterior, points, is_target & sees_each)

    def variance(self, rows: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        is_open = ~self.is_known[rows]
        variance = torch.zeros(len(rows), dtype=torch.float64)
        variance[is_open] = self.posterior.variance(self.points[rows[is_open]])
        return variance
