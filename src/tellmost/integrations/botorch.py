r"""ITL and VTL as acquisition functions of BoTorch (extra ``bo``).

What they add to ``botorch.acquisition`` are targets: the points to choose from and the points to
know about are two sets, and the information about the latter has a closed form.

The value of a batch is what its points would teach if they were observed together. By the chain
rule that is what they teach one after the other, each given those before:

.. math:: \Delta(x_1, \dots, x_q \mid D) = \sum_i \Delta(x_i \mid D, y_{x_1}, \dots, y_{x_{i-1}})

This is exact for the information of ITL and for the fall in variance of VTL.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from tellmost.integrations.models import ModelKernel
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.posterior.gp import GP
from tellmost.posterior.problem import State
from tellmost.rows.checks import check_rows
from tellmost.rows.sources import read_array
from tellmost.rules import ITL, VTL
from tellmost.selecting.arguments import check_weights
from tellmost.shapes import Float


@dataclass(frozen=True, eq=False)
class Batches:
    """Posterior covariances of the points of each batch, with each other and with the targets."""

    among: Float[Tensor, "b q q"]
    with_targets: Float[Tensor, "b q m"]  # no columns where the rule does not read them

    def variance(self, i: int) -> Float[Tensor, " b"]:
        return self.among[:, i, i].clamp(min=0.0)  # rounding

    def observe(self, i: int, noise_variance: float) -> "Batches":
        """The covariances after an observation of the i-th point of each batch."""
        column = self.among[:, :, i] / (self.variance(i) + noise_variance)[:, None]
        return Batches(
            self.among - column[:, :, None] * self.among[:, None, i],
            self.with_targets - column[:, :, None] * self.with_targets[:, None, i],
        )


@dataclass(frozen=True, eq=False)
class Prospect:
    """The targets, the posterior, and the noise of further observations."""

    rule: ITL | VTL
    noise_variance: float
    targets: Points
    weights: Float[Tensor, " m"]
    kernel: Kernel
    posterior: FunctionPosterior
    given_targets: FunctionPosterior | None  # for ITL: had the targets been seen
    whitened_targets: Float[Tensor, "t m"]  # F of the targets, for VTL

    @classmethod
    @torch.no_grad()
    def of(
        cls, rule: ITL | VTL, model: Any, targets: Any, weights: Any, noise_std: float | None
    ) -> "Prospect":
        """The prospect after the model's data, which leave the targets' rank as it was."""
        gp = GP.of(model, noise_std=noise_std)
        assert gp.data is not None  # a model has some
        points = read_array(targets, "targets")
        points = points[None] if points.ndim == 1 and len(points) else points
        check_rows(points, "targets")
        points = check_features(points, "targets", gp.data.points).to(gp.data.points)
        w = check_weights(weights, rule, points, points.device)
        assert w is not None  # there are targets
        noise = gp.noise_std**2
        posterior, given_targets = FunctionPosterior(gp.kernel, points.device), None
        if isinstance(rule, ITL):
            given_targets = posterior.copy()
            given_targets.see_targets(points, rule.target_noise_variance(noise))
        nothing = posterior.whiten(points)
        start = cls(rule, noise, points, w, gp.kernel, posterior, given_targets, nothing)
        return start.after(gp.data.points, gp.data.noise_variance)

    def after(self, points: Points, noise_variance: Float[Tensor, " b"]) -> "Prospect":
        """The prospect if these points had been observed, whatever came out."""
        posterior, given_targets = self.posterior.copy(), self.given_targets
        posterior.observe_all(points, noise_variance)
        if given_targets is not None:
            given_targets = given_targets.copy()
            given_targets.observe_all(points, noise_variance)
        return replace(
            self,
            posterior=posterior,
            given_targets=given_targets,
            whitened_targets=posterior.whiten(self.targets, self.whitened_targets),
        )

    def gain(self, X: Float[Tensor, "b q d"]) -> Float[Tensor, " b"]:
        """The gain of each batch, in the unit of the rule. It is differentiable in X."""
        if X.shape[1] == 1:
            prior = self.kernel.diagonal(X[:, 0])[:, None, None]
        elif isinstance(self.kernel, ModelKernel):
            prior = self.kernel.joint(X)
        else:
            prior = torch.stack([self.kernel.block(x, x) for x in X])
        known = Batches(prior - explained(self.posterior, X), self._covariance(X))
        seen: Batches | None = None
        if self.given_targets is not None:
            seen = Batches(prior - explained(self.given_targets, X), known.with_targets)
        total = X.new_zeros(len(X))
        for i in range(X.shape[1]):
            total = total + self.rule.gain(self._state(i, known, seen))
            if i + 1 < X.shape[1]:
                known = known.observe(i, self.noise_variance)
                seen = seen if seen is None else seen.observe(i, self.noise_variance)
        return total

    def _state(self, i: int, known: Batches, seen: Batches | None) -> State:
        fields = {"variance": known.variance(i)}
        if seen is None:
            fields["squared_covariance"] = known.with_targets[:, i].square() @ self.weights
        else:
            fields["variance_given_targets"] = seen.variance(i)
        b = len(known.among)
        nobody = torch.full((b,), -1, device=known.among.device)
        return State(nobody, i, known.among.new_full((b,), self.noise_variance), fields)

    def _covariance(self, X: Float[Tensor, "b q d"]) -> Float[Tensor, "b q m"]:
        """The posterior covariances with the targets, which VTL reads."""
        if self.given_targets is not None:
            return X.new_empty(*X.shape[:2], 0)
        points = X.flatten(0, 1)
        F = self.posterior.whiten(points)
        covariance = self.kernel.block(points, self.targets) - F.T @ self.whitened_targets
        return covariance.reshape(*X.shape[:2], -1)


def explained(posterior: FunctionPosterior, X: Float[Tensor, "b q d"]) -> Float[Tensor, "b q q"]:
    """The part of the prior covariances within each batch that observations have taken away."""
    F = posterior.whiten(X.flatten(0, 1))
    within = F.T.reshape(*X.shape[:2], len(F))
    return within @ within.mT


class LookAhead(AcquisitionFunction):
    """The gain of a batch, given the data and what is pending."""

    def __init__(self, model: Any, start: Prospect, pending: Tensor | None) -> None:
        super().__init__(model=model)
        self._start = start
        self.set_X_pending(pending)

    @torch.no_grad()
    def set_X_pending(self, X_pending: Tensor | None = None) -> None:  # noqa: N802
        """Points whose outcome is not known yet count as observed."""
        super().set_X_pending(X_pending)
        self._now, pending = self._start, self.X_pending
        if pending is not None and len(pending) > 0:
            points = check_features(pending, "X_pending", self._now.targets).to(self._now.targets)
            noise = points.new_full((len(points),), self._now.noise_variance)
            self._now = self._now.after(points, noise)

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Float[Tensor, "*b q d"]) -> Float[Tensor, " *b"]:
        """The gain of each batch, computed in float64 and returned in the dtype of X."""
        batches = check_features(X, "X", self._now.targets).to(self._now.targets).flatten(0, -3)
        return self._now.gain(batches).reshape(X.shape[:-2]).to(X)


class qITL(LookAhead):  # noqa: N801 - as BoTorch names what takes batches
    r"""Information that a batch gives about the targets, in nats.

    .. math:: I(f_A; y_X \mid D) =
        \tfrac12 \log \frac{|K_D(X, X) + \rho^2 I|}{|K_{D,A}(X, X) + \rho^2 I|}

    Hübotter et al. 2024, App. "Closed-form Decision Rules"; :math:`K_{D,A}` is the posterior had
    the targets been seen: f_A (``about="f"``) or noisy y_A (``about="y"``). As ``tm.rules.ITL``,
    with the rank of K_AA under the prior up to ``numerics.RANK_TOLERANCE``.

    The model is fitted, has a single output and exact inference, and keeps its transforms, as for
    ``tm.GP.of``. Later changes of the model have no effect. ``noise_std`` is in the unit of y; by
    default it is the likelihood's. With ``X_pending`` the value is what X adds to those points.
    """

    def __init__(
        self,
        model: Any,
        targets: Tensor,
        *,
        about: Literal["f", "y"] = "f",
        target_noise_std: float | None = None,
        noise_std: float | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        rule = ITL(about=about, target_noise_std=target_noise_std)
        super().__init__(model, Prospect.of(rule, model, targets, None, noise_std), X_pending)


class qVTL(LookAhead):  # noqa: N801 - as BoTorch names what takes batches
    r"""Fall of the targets' mean variance that a batch brings.

    .. math:: \sum_a w_a \big( \mathrm{Var}[f_a \mid D] - \mathrm{Var}[f_a \mid D, y_X] \big)

    Hübotter et al. 2024, App. "Closed-form Decision Rules"; as ``tm.rules.VTL``. With the targets
    as ``mc_points`` BoTorch's ``qNegIntegratedPosteriorVariance`` is the same less the mean
    variance now, so both prefer the same points.

    ``model``, ``noise_std`` and ``X_pending`` are those of ``qITL``.
    """

    def __init__(
        self,
        model: Any,
        targets: Tensor,
        *,
        target_weights: Tensor | None = None,
        noise_std: float | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        start = Prospect.of(VTL(), model, targets, target_weights, noise_std)
        super().__init__(model, start, X_pending)


def check_features(points: Tensor, name: str, like: Tensor) -> Tensor:
    if points.shape[-1] != like.shape[-1]:
        raise ValueError(
            f"{name} must have the features of the model's inputs, {like.shape[-1]}; got {name} "
            f"of shape {tuple(points.shape)}."
        )
    return points
