"""Settings of the experiments as problems of the oracle: the joint covariance of S and A."""

import numpy as np

import oracle
from tellmost_reproduction.gp.settings import Setting


def as_problem(setting: Setting, target_noise: float = 0.0) -> oracle.Problem:
    points = np.concatenate([setting.pool, setting.target_points])
    difference = points[:, None] - points[None]
    if setting.name.endswith("laplace"):
        K = np.exp(-np.abs(difference).sum(axis=-1) / 10.0)
    else:
        K = np.exp(-0.5 * (difference**2).sum(axis=-1))
    n, m = len(setting.samples), len(setting.targets)
    return oracle.Problem(K, n, m, setting.noise_std**2, target_noise=target_noise, replace=True)
