r"""A confidence interval has to be so many posterior standard deviations wide.

.. math:: |f(x) - \mu_n(x)| \le \beta_n(\delta)\, \sigma_n(x) \quad \text{for all } x
    \text{ and } n, \text{ with probability at least } 1 - \delta

for a function f of norm at most B in the kernel's Hilbert space and noise that is conditionally
R-sub-Gaussian, whatever chose the points. Hübotter et al. 2024, App. "Proof of Convergence in
Non-probabilistic Setting", lemma "Well-calibrated confidence intervals".

The bound comes from the following. Let :math:`\lambda = \rho^2` be the noise variance that the
posterior assumes, and :math:`V = \lambda I + \sum_i \phi_i \phi_i^\top`. Then the posterior has
:math:`\sigma_n^2(x) = \lambda\, \|\phi(x)\|^2_{V^{-1}}`, and

.. math::
    |f(x) - \mu_n(x)| \le \|\phi(x)\|_{V^{-1}} \Big( \sqrt\lambda\, \|f\| +
    \big\|\textstyle\sum_i \varepsilon_i \phi_i\big\|_{V^{-1}} \Big), \qquad
    \big\|\textstyle\sum_i \varepsilon_i \phi_i\big\|_{V^{-1}}
    \le R \sqrt{2 \big(\tfrac12 \log\det(I + K/\lambda) + \log(1/\delta)\big)}

for all n at once: the self-normalised bound of Abbasi-Yadkori 2013 (Ch. 3), which Whitehouse,
Ramdas and Wu 2023 prove again for separable Hilbert spaces. So the second term of beta is
:math:`R / \rho` times a root. The paper prints :math:`\rho` in its place, the form of Chowdhury
and Gopalan 2017. Their posterior has :math:`\lambda = 1 + 2/n`; for a posterior whose noise
variance is :math:`\rho^2 < 1` that form is too small by a factor of :math:`\rho`. Their "+ 1" pays
for :math:`\lambda > 1`, and the bound above does without it.
"""

from math import log, sqrt
from typing import Any

import numpy as np

from tellmost.posterior.function_space import FunctionPosterior
from tellmost.rows.checks import check_number, check_positive
from tellmost.shapes import Float
from tellmost.theory.capacity import Capacity
from tellmost.theory.setting import check_setting


def confidence_width(
    information: float | Capacity, *, norm: float, delta: float, noise_factor: float = 1.0
) -> float:
    r"""beta_n(delta): how many standard deviations make an interval that holds.

    .. math:: \beta_n(\delta) = B + \frac{R}{\rho} \sqrt{2 (I_n + \log(1/\delta))}, \qquad
        \beta_n(\delta) = B + \frac{R}{\rho} \sqrt{2 (\gamma_n + 1 + \log(1/\delta))}

    The first takes a number, the realised :math:`I_n = \tfrac12 \log\det(I + P^{-1/2} K P^{-1/2})`
    of the points observed so far (``realised_information``). The second, the paper's, takes the
    ``information_capacity`` of n observations of a pool that holds all of them, without targets;
    it uses ``upper``, so that it is never understated. The first is never wider. The text of this
    module has the theorem, and says where it differs from the print.

    Args:
        information: realised, in nats; or the capacity of n observations of the domain.
        norm: B, a bound on the norm of f minus the prior mean in the kernel's Hilbert space.
        delta: the probability that the intervals fail anywhere, ever.
        noise_factor: R / rho, the noise's sub-Gaussian constant over the standard deviation that
            the posterior assumes; the largest value where these differ between points.
    """
    if isinstance(information, Capacity):
        if not information.is_of_samples:
            raise ValueError(
                "information must be the capacity of the samples themselves, for all that they "
                "can tell; got one about other targets, which is smaller. Ask for "
                "information_capacity(pool, None, n, ...)."
            )
        nats = information.upper + 1.0
    else:
        nats = check_number(information, "information", least=0)
    bound, factor = (
        check_number(norm, "norm", least=0),
        check_positive(noise_factor, "noise_factor"),
    )
    chance = check_number(delta, "delta, a probability of failure,", above=0, below=1)
    return bound + factor * sqrt(2.0 * (nats + log(1.0 / chance)))


def realised_information(
    points: Any, *, kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " t"]:
    r"""Compute in nats what the first 0, 1, ..., t observations tell about f.

    .. math:: I_n = \tfrac12 \log\det\big(I + P^{-1/2} K_{XX} P^{-1/2}\big)
        = \tfrac12 \sum_{i \le n} \log\big(1 + \sigma_{i-1}^2(x_i) / \rho^2(x_i)\big)

    Hübotter et al. 2024, App. "Gaussian Processes". The points come in the order of observation.
    """
    setting = check_setting(points, None, kernel, noise_std)
    posterior = FunctionPosterior(setting.kernel, setting.pool.device)
    steps = [0.0]
    for row, noise in enumerate(setting.noise_variance.tolist()):
        _, s = posterior.observe(setting.pool[row : row + 1], noise)
        steps.append(0.5 * log(s / noise))
    return np.cumsum(steps)
