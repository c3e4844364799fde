r"""The prior precision of a network's weights that makes its training data most likely.

At weights :math:`\theta` and a curvature with eigenvalues :math:`\lambda_i`, the Laplace
approximation of the log marginal likelihood is

.. math:: \log p(D) \approx \log p(D \mid \theta) - \frac{\tau}{2} \|\theta\|^2
    + \frac12 \sum_i \log \frac{\tau}{\lambda_i + \tau}

and it is largest where :math:`\tau \|\theta\|^2 = \sum_i \lambda_i / (\lambda_i + \tau)` (MacKay
1992): the left side grows with tau, the right side falls, so there is one such place.
"""

from math import exp, log

from torch import Tensor

from tellmost import numerics
from tellmost.shapes import Float


def log_evidence(
    values: Float[Tensor, "c d"], log_likelihood: float, squared_length: float, tau: float
) -> float:
    """Of the data, under a prior of precision tau."""
    determinant = float((1 + values / tau).log().sum())
    return log_likelihood - tau * squared_length / 2 - determinant / 2


def best_precision(values: Float[Tensor, "c d"], squared_length: float) -> float:
    """Of largest evidence: the range is halved by the sign of the slope."""
    if squared_length == 0:
        raise ValueError(
            "the final layer's weights are all 0, for which no prior precision is best. Train "
            "the network first, or give prior_precision=."
        )
    high = log(values.numel() / squared_length)
    low = high + log(numerics.LEAST_PRECISION)
    for _ in range(numerics.PRECISION_STEPS):
        middle = (low + high) / 2
        tau = exp(middle)
        rises = float((values / (values + tau)).sum()) > tau * squared_length
        low, high = (middle, high) if rises else (low, middle)
    return exp((low + high) / 2)
