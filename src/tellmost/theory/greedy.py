"""Which samples a rule picks, one after the other: by ``tm.select``."""

import warnings
from collections.abc import Sequence

import numpy as np

from tellmost.selecting.select import select
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float
from tellmost.theory.setting import Setting


def choose(setting: Setting, n: int, rule: str, *, given: Sequence[int] = ()) -> Selection:
    """n picks after what is given; a sample may be picked again.

    ITL where every sample is a target is undirected, and asked for as such. Notes about the
    choice of rule and noise are left out: both are the question's.
    """
    is_undirected = rule == "itl" and setting.pool_is_targeted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return select(
            setting.pool,
            setting.targets,
            n,
            rule="undirected-itl" if is_undirected else rule,
            kernel=setting.kernel,
            noise_std=setting.noise_variance.sqrt(),
            observed=np.array(given, dtype=np.int64),
            replace=True,
            progress=False,
        )


def summed_gains(setting: Setting, chosen: Selection, rule: str) -> Float[np.ndarray, " n"]:
    """The gains in the paper's unit, sums over the targets; ``select`` gives means."""
    return chosen.gains if rule == "itl" else chosen.gains * setting.target_count
