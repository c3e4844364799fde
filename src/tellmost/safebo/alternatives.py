"""Ways in which a prior may be wrong, each a model of its own to hold against it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Product, Scaled, Sum
from tellmost.kernels.kernel import Points
from tellmost.kernels.written import HasHyperparameters
from tellmost.shapes import Float


@dataclass(frozen=True)
class Alternative:
    """The same prior with one thing changed."""

    name: str
    is_wider: bool  # whether its bounds are wider, so that the prior would be overconfident
    lengthscale: float = 1.0  # factors
    noise_std: float = 1.0
    prior_std: float = 1.0
    finding: str = ""
    advice: str = ""

    def covariance(
        self, kernel: Kernel, points: Points, noise_variance: Float[Tensor, " t"]
    ) -> Float[Tensor, "t t"]:
        """Of values observed at the points."""
        K = kernel.block(points / self.lengthscale, points / self.lengthscale)
        return self.prior_std**2 * K + torch.diag(self.noise_std**2 * noise_variance)


AS_GIVEN = Alternative("as given", is_wider=False)

ALTERNATIVES = (
    Alternative(
        "half the lengthscale",
        is_wider=True,
        lengthscale=0.5,
        finding="the function changes over shorter distances than its lengthscale says",
        advice="refit(), or give a shorter lengthscale",
    ),
    Alternative(
        "three times the noise",
        is_wider=True,
        noise_std=3.0,
        finding="values scatter more than noise_std says",
        advice="refit(), or raise noise_std",
    ),
    Alternative(
        "twice the prior deviation",
        is_wider=True,
        prior_std=2.0,
        finding="values lie farther from the prior mean than its standard deviation says",
        advice="scale the kernel, tm.kernels.Scaled(kernel, 4.0), or correct the mean",
    ),
    Alternative(
        "twice the lengthscale",
        is_wider=False,
        lengthscale=2.0,
        finding="the function changes over longer distances than its lengthscale says",
        advice="safe, but slow: refit(), or give a longer lengthscale",
    ),
    Alternative(
        "a third of the noise",
        is_wider=False,
        noise_std=1 / 3,
        finding="values scatter less than noise_std says",
        advice="safe, but slow: lower noise_std, if you trust it; refit() never does",
    ),
    Alternative(
        "half the prior deviation",
        is_wider=False,
        prior_std=0.5,
        finding="values lie closer to the prior mean than its standard deviation says",
        advice="safe, but slow: scale the kernel, tm.kernels.Scaled(kernel, 0.25)",
    ),
)


def alternatives_to(kernel: Kernel) -> Iterator[Alternative]:
    """Those that mean something for a kernel: not every one has a lengthscale."""
    is_stretched = has_lengthscale(kernel)
    return (one for one in ALTERNATIVES if is_stretched or one.lengthscale == 1.0)


def has_lengthscale(kernel: Kernel) -> bool:
    """Whether stretching the points is the same as shortening lengthscales, in all its parts."""
    if isinstance(kernel, Scaled):
        return has_lengthscale(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return has_lengthscale(kernel.first) and has_lengthscale(kernel.second)
    if isinstance(kernel, HasHyperparameters):
        return any("lengthscale" in name for name in kernel.hyperparameters())
    return isinstance(kernel, Gaussian | Laplace | Matern)
