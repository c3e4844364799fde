"""The same task, believed to be smoother or rougher than it is."""

from dataclasses import replace

import numpy as np

from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Scaled
from tellmost.posterior.gp import GP
from tellmost_reproduction.safebo.process import Process
from tellmost_reproduction.safebo.tasks import Task


def stretch(challenge: Task | Process, factor: float) -> Task | Process:
    """With all lengthscales of all priors times a factor; beta, noise and variances stay."""
    name = f"{challenge.name}-x{factor:g}"
    if isinstance(challenge, Task):
        return replace(challenge, name=name, prior=stretch_prior(challenge.prior, factor))
    priors = {output: stretch_prior(gp, factor) for output, gp in challenge.priors.items()}
    return replace(challenge, name=name, priors=priors)


def stretch_prior(gp: GP, factor: float) -> GP:
    return replace(gp, kernel=stretch_kernel(gp.kernel, factor))


def stretch_kernel(kernel: Kernel, factor: float) -> Kernel:
    if isinstance(kernel, Scaled):
        return replace(kernel, kernel=stretch_kernel(kernel.kernel, factor))
    if not isinstance(kernel, Gaussian | Laplace | Matern):
        raise TypeError(
            f"a kernel to be stretched must have a lengthscale: Gaussian, Laplace, Matern or one "
            f"of them Scaled; got {kernel!r}."
        )
    return replace(kernel, lengthscale=factor * np.asarray(kernel.lengthscale))
