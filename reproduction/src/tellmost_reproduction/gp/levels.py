r"""What no number of observations removes: the level that curves fall to.

.. math:: \eta_R(a) = \mathrm{Var}[f_a \mid f_R]^{1/2}

for R = S the irreducible standard deviation, for :math:`R = A \cap S` what local uncertainty
sampling is left with however long it goes on. Eigenvalues of K_RR below
``numerics.RANK_TOLERANCE`` of the largest explain nothing.
"""

import warnings

import numpy as np

from tellmost.selecting.select import select
from tellmost.shapes import Bool, Float
from tellmost_reproduction.gp.settings import Setting


def irreducible(setting: Setting) -> Float[np.ndarray, " m"]:
    """Standard deviation of each target given f on all of S."""
    return level_given(setting, np.ones(len(setting.samples), dtype=bool))


def local_level(setting: Setting) -> Float[np.ndarray, " m"]:
    """The same given f on those points of S that are targets."""
    return level_given(setting, setting.is_target)


def level_given(setting: Setting, rows: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    if setting.has_all_targets and rows[setting.is_target].all():
        return np.zeros(len(setting.targets))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about noise and rank, which are the experiment's
        chosen = select(
            setting.pool,
            setting.target_points,
            1,
            kernel=setting.kernel,
            noise_std=setting.noise,
            candidates=rows,
            floor=True,
            progress=False,
        )
    assert chosen.floor is not None
    return np.sqrt(chosen.floor)
