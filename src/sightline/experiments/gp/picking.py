"""The adaptive loop: which points a rule observes, one after the other."""

import warnings

import numpy as np

from sightline.experiments.gp.settings import Setting
from sightline.rules import Rule
from sightline.selecting import select
from sightline.shapes import Int


def pick(setting: Setting, rule: Rule, rounds: int) -> Int[np.ndarray, " t"]:
    """Rows of S in the order of their observation; a row may come again.

    Notes about the choice of rule and noise are left out: both are the experiment's.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return select(
            setting.pool,
            setting.target_points,
            rounds,
            rule=rule,
            kernel=setting.kernel,
            noise_std=setting.noise,
            replace=True,
            progress=False,
        ).indices
