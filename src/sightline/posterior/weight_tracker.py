"""What is known about every row, in weight space: one pass over the rows per observation.

All products are float64 whatever the pool's dtype; a block is converted while it is in the cache,
which on a CPU is faster than a plain float32 product over the whole pool.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from sightline import numerics
from sightline.posterior.problem import Problem, State, prior_correlation
from sightline.posterior.targets import TargetSummary
from sightline.posterior.weight_quantities import (
    Running,
    RunningSquaredCovariance,
    RunningStandardizedCovariance,
    RunningVariance,
)
from sightline.posterior.weights import Step, WeightPosterior
from sightline.shapes import Float, Int
from sightline.sources import spans

WIDE = frozenset({"covariance", "correlation"})
"""Fields that are made of rows x targets values."""


class WeightTracker:
    """Posterior of the weights, and the running values that the rule needs, for all rows."""

    form = "weight space"

    def __init__(self, problem: Problem, prior: Float[Tensor, "d d"] | None) -> None:
        self.passes = 0
        self._problem = problem
        self._rows = problem.rows
        self._row_numbers = torch.arange(len(problem.rows), device=problem.device)
        self._step = 0
        self._pending: list[Step] = []
        self._columns: Tensor | None = None
        self._transposed: Tensor | None = None
        self._prior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
        self._posterior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
        self._given_targets = self._see_targets()
        self._condition_on_observed()
        self.targets = TargetSummary(problem, self._variance_of_targets())
        self._running = self._set_up_running()
        self._covariance = self._keep_covariance()
        self._first_pass()

    # ---- what the loop asks

    def states(self) -> Iterator[tuple[int, int, State]]:
        """The state of all rows from the running values, in as few pieces as memory allows."""
        self._catch_up()
        kept = {name: run.values for name, run in self._running.items()}
        if "prior_variance" in self._problem.needs:
            kept["prior_variance"] = self._problem.prior_variance
        if self._covariance is not None:
            kept["covariance"] = self._covariance
        for start, stop, block in self._problem.pieces(WIDE, kept.keys()):
            fields = {name: values[start:stop] for name, values in kept.items()}
            if block is not None:
                fields = self._wide_fields(block) | fields
            yield start, stop, self._state(slice(start, stop), fields)

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """The state of some rows, computed afresh from the posterior."""
        block = self._rows.rows(rows)
        fields = {name: run.fresh(block) for name, run in self._running.items()}
        if "prior_variance" in self._problem.needs:
            fields["prior_variance"] = self._problem.prior_variance[rows]
        return self._state(rows, fields | self._wide_fields(block))

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        """Condition on an observation of a row.

        Without ``update_rows`` the pass over the rows waits until ``states`` is asked for; only
        the plain variance can wait.
        """
        phi = self._rows.rows(torch.tensor([row]))[0]
        noise_variance = float(self._problem.noise_variance[row])
        step = self._posterior.step(phi, noise_variance)
        seen = None
        if self._given_targets is not None:
            seen = self._given_targets.step(phi, noise_variance)
        for run in self._running.values():
            run.before(step, seen)
        self._posterior.observe(step)
        if self._given_targets is not None and seen is not None:
            self._given_targets.observe(seen)
        covariance = self._observe_targets(step)
        self._step += 1
        if update_rows:
            self._pass(step, covariance)
        else:
            self._pending.append(step)

    def refresh(self) -> bool:
        """Rebuild the running values that lose digits over many updates; whether there are any."""
        run = self._running.get("squared_covariance")
        if run is None:
            return False
        self.passes += 1
        for start, stop, block in self._rows.blocks():
            run.values[start:stop] = run.first(block)
        return True

    def mean_variance(self) -> float:
        """The mean over the rows: the uncertainty where there are no targets."""
        self._catch_up()
        return float(self._running["variance"].values.mean())

    # ---- set-up

    def _see_targets(self) -> WeightPosterior | None:
        if not self._problem.sees_targets:
            return None
        return self._posterior.given_targets(
            self._problem.known_targets, self._problem.target_noise_variance
        )

    def _condition_on_observed(self) -> None:
        for observation in self._problem.observed:
            phi = observation.point.reshape(-1)
            for posterior in (self._posterior, self._given_targets):
                if posterior is not None:
                    posterior.condition(phi, observation.noise_variance)

    def _variance_of_targets(self) -> Tensor | None:
        targets = self._problem.targets
        if targets is None:
            return None
        return numerics.nonnegative(self._posterior.variance(targets))

    def _set_up_running(self) -> dict[str, Running]:
        problem, posterior, running = self._problem, self._posterior, dict[str, Running]()
        if problem.tracks_rows:
            running["variance"] = RunningVariance(posterior, self._empty())
        if self._given_targets is not None:
            running["variance_given_targets"] = RunningVariance(
                self._given_targets, self._empty(), given_targets=True
            )
        if "squared_covariance" in problem.needs:
            running["squared_covariance"] = RunningSquaredCovariance(
                problem, posterior, self._empty()
            )
        if "standardized_covariance" in problem.needs:
            running["standardized_covariance"] = RunningStandardizedCovariance(
                problem, posterior, self.targets, self._empty()
            )
        return running

    def _empty(self) -> Tensor:
        return torch.empty(len(self._rows), dtype=torch.float64, device=self._problem.device)

    def _keep_covariance(self) -> Tensor | None:
        if "covariance" not in self._problem.needs or not self._problem.keeps_covariance:
            return None
        size = len(self._rows), len(self._problem.known_targets)
        return torch.empty(size, dtype=torch.float64, device=self._problem.device)

    def _first_pass(self) -> None:
        """Fill the running values: the only pass whose cost depends on the number of targets."""
        if not self._running:
            return
        n, d = len(self._rows), self._rows.dimension
        taken = 0 if self._covariance is None else 8 * self._covariance.numel()
        if 8 * n * d <= min(numerics.TRANSPOSED_BYTES, self._problem.memory - taken):
            self._transposed = torch.empty(d, n, dtype=torch.float64, device=self._problem.device)
        to_fill = self._fill_from_prior()
        if not to_fill and self._transposed is None and self._covariance is None:
            return
        self.passes += 1
        for start, stop, block in self._rows.blocks():
            if self._transposed is not None:
                for first, last in spans(stop - start, 1_024):  # small pieces are copied faster
                    self._transposed[:, start + first : start + last] = block[first:last].T
            for run in to_fill:
                run.values[start:stop] = run.first(block)
            if self._covariance is not None:
                self._covariance[start:stop] = block @ self._against_targets(self._posterior)

    def _fill_from_prior(self) -> list[Running]:
        """Where nothing was observed the variance is the prior one; returns what is left."""
        if self._problem.observed:
            return list(self._running.values())
        self._running["variance"].values.copy_(self._problem.prior_variance)
        return [run for name, run in self._running.items() if name != "variance"]

    # ---- one observation

    def _observe_targets(self, step: Step) -> Tensor | None:
        if self._problem.targets is None:
            return None
        covariance = self._problem.targets @ step.u
        self.targets.observe(covariance, step.s)
        return covariance

    def _pass(self, step: Step, covariance: Tensor | None) -> None:
        if not self._running:
            return
        columns = self._products(torch.stack([run.vector() for run in self._running.values()]))
        for run, own in zip(self._running.values(), columns, strict=True):
            run.update(columns[0], own)  # columns[0] is the variance's
        if self._covariance is not None and covariance is not None:
            self._covariance.addr_(columns[0], covariance, alpha=-1.0 / step.s)

    def _products(self, vectors: Float[Tensor, "r d"]) -> Float[Tensor, "r n"]:
        """Inner products with all rows, in one pass; good until the next pass."""
        self.passes += 1
        count = len(vectors)
        if count == 1:  # a product of a single row takes a path that is several times slower
            vectors = vectors.expand(2, -1)
        if self._columns is None or len(self._columns) < len(vectors):
            self._columns = torch.empty(
                len(vectors), len(self._rows), dtype=torch.float64, device=vectors.device
            )
        columns = self._columns[: len(vectors)]
        if self._transposed is not None:
            return torch.mm(vectors, self._transposed, out=columns)[:count]
        self._rows.products(vectors, columns)
        return columns[:count]

    def _catch_up(self) -> None:
        """Take the postponed observations into the rows' variances, all in one pass."""
        if not self._pending or not self._running:
            return
        self.passes += 1
        vectors = torch.stack([step.u / step.s**0.5 for step in self._pending])
        variance = self._running["variance"].values
        for start, stop, block in self._rows.blocks():
            change = (vectors @ block.T).square_().sum(dim=0)
            numerics.nonnegative(variance[start:stop].sub_(change))
        self._pending.clear()

    # ---- fields of a state

    def _against_targets(self, posterior: WeightPosterior) -> Float[Tensor, "d m"]:
        return posterior.covariance @ self._problem.known_targets.T

    def _wide_fields(self, block: Float[Tensor, "b d"]) -> dict[str, Tensor]:
        fields = {}
        if "covariance" in self._problem.needs:
            fields["covariance"] = block @ self._against_targets(self._posterior)
        if "correlation" in self._problem.needs:
            fields["correlation"] = prior_correlation(
                block @ self._against_targets(self._prior),
                self._prior.first_variance(block),
                self._prior.first_variance(self._problem.known_targets),
            )
        return fields

    def _state(self, rows: Int[Tensor, " b"] | slice, fields: dict[str, Tensor]) -> State:
        return State(
            self._row_numbers[rows],
            self._step,
            self._problem.noise_variance[rows],
            fields,
            self.targets.state,
        )
