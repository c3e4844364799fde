"""The largest marginal gains, and how much harder synergies make a task."""

from typing import Any

import numpy as np

from tellmost.rows.opening import check_vector, check_whole
from tellmost.shapes import Float
from tellmost.theory.greedy import choose, summed_gains
from tellmost.theory.joint import Joint
from tellmost.theory.reductions import reduce_singly
from tellmost.theory.setting import check_picks, check_rule_name, check_setting


def marginal_gains(
    pool: Any, targets: Any, n: int, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " n"]:
    r"""The largest gain at each of the first n steps of a rule.

    .. math:: \Gamma_i = \max_{x \in S} \Delta_A(x \mid x_{1:i}), \qquad i = 0, \dots, n - 1

    Hübotter et al. 2024, App. "Measures of Synergies & Approximate Submodularity". A gain above
    the one before shows a synergy. In the paper's unit: sums over the targets for "vtl" and
    "mm-itl", where ``select(...).gains`` are means.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    rule = check_rule_name(rule)
    return summed_gains(setting, choose(setting, check_whole(n, "n"), rule), rule)


def marginal_gains_along(
    pool: Any, targets: Any, picks: Any, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " t"]:
    r"""The same along any picks: :math:`\Gamma_0, \dots, \Gamma_n`, after each prefix of them."""
    setting = check_setting(pool, targets, kernel, noise_std)
    rule, rows = check_rule_name(rule), check_picks(picks, "picks", len(setting.pool))
    prefixes = (rows[:count] for count in range(len(rows) + 1))
    return np.array([float(reduce_singly(Joint.of(setting, p), rule).max()) for p in prefixes])


def task_complexity(gains: Any) -> Float[np.ndarray, " n"]:
    r"""How much larger a gain is than the smallest so far: the price of synergies.

    .. math:: \alpha_n = \max_{0 \le i < n} \Gamma_{n-1} / \Gamma_i

    Hübotter et al. 2024, App. "Measures of Synergies & Approximate Submodularity", definition
    "Task complexity", of each prefix: entry n - 1 is :math:`\alpha_n`, from gains 0 to n - 1, so
    it can be followed online. At least 1; exactly 1 while gains shrink. Units cancel:
    ``select(...).gains`` will do. The definition asks for positive gains; here 0 / 0 is 1.
    """
    count = np.size(gains)
    if count == 0:
        raise ValueError("gains must not be empty; got none.")
    values = check_vector(gains, "gains", count, "step").numpy()
    if (values < 0).any():
        raise ValueError(f"gains must not be negative; got {values.min():g}.")
    smallest = np.minimum.accumulate(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values == smallest, 1.0, values / smallest)
