"""The adaptive loop: which points a rule observes, one after the other."""

import warnings

import numpy as np

from tellmost.rules import Rule
from tellmost.selecting.choosers import NO_NUMBERS
from tellmost.selecting.select import select
from tellmost.shapes import Int
from tellmost_reproduction.gp.methods import Method
from tellmost_reproduction.gp.settings import Setting


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


def pick_by(
    method: Method, setting: Setting, rounds: int, *, seed: int | None = None
) -> Int[np.ndarray, " t"]:
    """A method's picks; what fails in a rule of the user's is said with the rule's name."""
    rule = method.rule if seed is None else method.with_seed(seed)
    try:
        return pick(setting, rule, rounds)
    except Exception as error:
        if not method.is_own:
            raise
        what = (
            "a gain was NaN or infinite: guard the division or the logarithm"
            if str(error) == NO_NUMBERS  # whose advice is about the noise, which is given here
            else f"{type(error).__name__}: {error}"
        )
        raise RuntimeError(f"--rule: {method.key!r} failed in {setting.name}; {what}.") from error
