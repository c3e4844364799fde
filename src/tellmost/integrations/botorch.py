"""ITL and VTL as acquisition functions of BoTorch (extra ``bo``).

What they add to ``botorch.acquisition``: targets. The points to choose from and the points to know
about are two sets, and the information about the latter has a closed form.
"""

from typing import Any, Literal

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from tellmost.integrations.batches import Prospect
from tellmost.kernels.kernel import Points
from tellmost.posterior.gp import GP
from tellmost.rows.opening import check_rows, read_array
from tellmost.rules import ITL, VTL
from tellmost.selecting.arguments import check_weights
from tellmost.shapes import Float


class qITL(AcquisitionFunction):  # noqa: N801 - as BoTorch names what takes batches
    r"""Information that a batch gives about the targets, in nats.

    .. math:: I(f_A; y_X \mid D) =
        \tfrac12 \log \frac{|K_D(X, X) + \rho^2 I|}{|K_{D,A}(X, X) + \rho^2 I|}

    Hübotter et al. 2024, App. "Closed-form Decision Rules"; :math:`K_{D,A}` is the posterior had
    the targets been seen: f_A (``about="f"``) or noisy y_A (``about="y"``). As ``tm.rules.ITL``,
    with the rank of K_AA under the prior up to ``numerics.RANK_TOLERANCE``.

    Takes a fitted single-output model with exact inference, with its transforms, as ``tm.GP.of``
    does; changes of the model that come later do not reach it. ``noise_std``, in the unit of y, is
    the likelihood's unless given. With ``X_pending`` the value is what X adds to them. In float64.
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
        super().__init__(model=model)
        rule = ITL(about=about, target_noise_std=target_noise_std)
        self._start = look_ahead(rule, model, targets, None, noise_std)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:  # noqa: N802
        """Points whose outcome is not known yet: they count as observed."""
        super().set_X_pending(X_pending)
        self._now = after(self._start, self.X_pending)

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Float[Tensor, "*b q d"]) -> Float[Tensor, " *b"]:
        return gain(self._now, X)


class qVTL(AcquisitionFunction):  # noqa: N801 - as BoTorch names what takes batches
    r"""Fall of the targets' mean variance that a batch brings.

    .. math:: \sum_a w_a \big( \mathrm{Var}[f_a \mid D] - \mathrm{Var}[f_a \mid D, y_X] \big)

    Hübotter et al. 2024, App. "Closed-form Decision Rules"; as ``tm.rules.VTL``. With the targets
    as ``mc_points`` BoTorch's ``qNegIntegratedPosteriorVariance`` is the same less the mean
    variance now, so both prefer the same points.

    Takes a fitted single-output model with exact inference, with its transforms, as ``tm.GP.of``
    does; changes of the model that come later do not reach it. ``noise_std``, in the unit of y, is
    the likelihood's unless given. With ``X_pending`` the value is what X adds to them. In float64.
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
        super().__init__(model=model)
        self._start = look_ahead(VTL(), model, targets, target_weights, noise_std)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:  # noqa: N802
        """Points whose outcome is not known yet: they count as observed."""
        super().set_X_pending(X_pending)
        self._now = after(self._start, self.X_pending)

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Float[Tensor, "*b q d"]) -> Float[Tensor, " *b"]:
        return gain(self._now, X)


@torch.no_grad()
def look_ahead(
    rule: ITL | VTL, model: Any, targets: Any, weights: Any, noise_std: float | None
) -> Prospect:
    """From the model's data on."""
    gp = GP.of(model, noise_std=noise_std)
    points = check_targets(targets, gp)
    w = check_weights(weights, rule, points, points.device)
    assert w is not None  # there are targets
    return Prospect.of(rule, gp, points, w)


def check_targets(targets: Any, gp: GP) -> Points:
    data = read_array(targets, "targets")
    data = data[None] if data.ndim == 1 and len(data) else data
    check_rows(data, "targets")
    assert gp.data is not None  # a model has some
    return check_features(data, "targets", gp.data.points).to(gp.data.points)


def check_features(points: Tensor, name: str, like: Tensor) -> Tensor:
    if points.shape[-1] != like.shape[-1]:
        raise ValueError(
            f"{name} must have the features of the model's inputs, {like.shape[-1]}; got {name} "
            f"of shape {tuple(points.shape)}."
        )
    return points


@torch.no_grad()
def after(start: Prospect, pending: Tensor | None) -> Prospect:
    if pending is None or len(pending) == 0:
        return start
    points = check_features(pending, "X_pending", start.targets).to(start.targets)
    return start.after(points, points.new_full((len(points),), start.noise_variance))


def gain(prospect: Prospect, X: Float[Tensor, "*b q d"]) -> Float[Tensor, " *b"]:
    """In float64, then as X came."""
    batches = check_features(X, "X", prospect.targets).to(prospect.targets).flatten(0, -3)
    return prospect.gain(batches).reshape(X.shape[:-2]).to(X)
