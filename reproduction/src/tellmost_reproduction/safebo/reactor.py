r"""A semi-batch reactor: what a recipe of six parameters makes of a charge, and how hot it gets.

Our own, synthetic: the balances are the textbook's, the constants were chosen and not measured. A
vessel holds A; B is fed at the rate F until the wanted ratio to A is reached, and then the batch
is held. A + B make the product P, P + B make waste W, and both give off heat, which a jacket
removes. With amounts n in kmol, t in h, T in K, V in m³ and c the catalyst's kg/m³,

.. math::
    r_1 = c\,k_1 e^{-\frac{E_1}{R} (\frac1T - \frac1{320})} \frac{n_A n_B}{V}, \qquad
    r_2 = c\,k_2 e^{-\frac{E_2}{R} (\frac1T - \frac1{320})} \frac{n_P n_B}{V},

.. math::
    \dot n_A = -r_1, \quad \dot n_B = F - r_1 - r_2, \quad
    \dot n_P = r_1 - r_2, \quad \dot n_W = r_2,

.. math::
    C V \dot T = H_1 r_1 + H_2 r_2 - U V q^{0.6} (T - T_J) - C \dot V (T - 300),

where q is the coolant's flow, and V grows from 1 by the volume of B. The batch starts at the
jacket's temperature :math:`T_J`, with :math:`n_A = 2.5`. Its measures are

.. math::
    \text{production} = \frac{120\, n_P}{t_{feed} + t_{hold} + 1}, \qquad
    \text{temperature} = \max_t T, \qquad \text{purity} = \frac{100\, n_P}{n_A + n_P + n_W}

in kg/h, K and %, the last two at the end; 1 h is the time between batches. Solved by the classical
Runge-Kutta method.
"""

from dataclasses import dataclass

import numpy as np

from tellmost.shapes import Float
from tellmost.targets.box import Box

RECIPES = Box(
    [295.0, 0.5, 0.95, 0.5, 0.5, 0.5],
    [315.0, 2.0, 1.25, 1.5, 2.0, 2.5],
    names=("jacket", "feed_rate", "feed_ratio", "catalyst", "coolant", "hold"),
)
"""In K, kmol/h, kmol of B per kmol of A, kg/m³, m³/h and h."""

CHARGE = 2.5  # of A, kmol
FED_VOLUME = 0.3  # m³, whatever the amount of B in it
FED_AT = 300.0  # K
RATES = (3.0, 0.05)  # k, m⁶/(kg kmol h), at REFERENCE
ENERGIES = (50.0, 85.0)  # E, MJ/kmol: heat favours the waste
HEATS = (90.0, 80.0)  # H, MJ/kmol
GAS_CONSTANT = 8.314e-3  # R, MJ/(kmol K)
REFERENCE = 320.0  # K
HEAT_CAPACITY = 3.5  # C, MJ/(m³ K)
COOLING = 1.75  # U, MJ/(m³ K h), at a flow of 1 m³/h
MOLAR_MASS = 120.0  # of P, kg/kmol
BETWEEN_BATCHES = 1.0  # h
STEPS = 100  # of each phase: the peak is found to 0.01 K, the rest to 1e-4


@dataclass(frozen=True)
class Batch:
    """What came of each recipe."""

    production: Float[np.ndarray, " n"]  # kg/h
    temperature: Float[np.ndarray, " n"]  # the highest, K
    purity: Float[np.ndarray, " n"]  # %


def make_batch(recipes: Float[np.ndarray, "n 6"]) -> Batch:
    """All recipes at once."""
    jacket, rate, ratio, _, _, hold = recipes.T
    feed = ratio * CHARGE / rate
    zero = np.zeros_like(jacket)
    state = np.stack([zero + CHARGE, zero, zero, zero, jacket])
    state, peak = _integrate(state, recipes, start=zero, lasts=feed, is_fed=True)
    state, later = _integrate(state, recipes, start=feed, lasts=hold, is_fed=False)
    a, _, product, waste, _ = state
    return Batch(
        production=MOLAR_MASS * product / (feed + hold + BETWEEN_BATCHES),
        temperature=np.maximum(peak, later),
        purity=100 * product / (a + product + waste),
    )


def _integrate(
    state: Float[np.ndarray, "5 n"],
    recipes: Float[np.ndarray, "n 6"],
    *,
    start: Float[np.ndarray, " n"],
    lasts: Float[np.ndarray, " n"],
    is_fed: bool,
) -> tuple[Float[np.ndarray, "5 n"], Float[np.ndarray, " n"]]:
    """The state at the end of a phase, and its highest temperature."""
    h, peak = lasts / STEPS, state[4]
    for step in range(STEPS):
        t = start + step * h
        k1 = _derivative(state, t, recipes, is_fed)
        k2 = _derivative(state + h / 2 * k1, t + h / 2, recipes, is_fed)
        k3 = _derivative(state + h / 2 * k2, t + h / 2, recipes, is_fed)
        k4 = _derivative(state + h * k3, t + h, recipes, is_fed)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        peak = np.maximum(peak, state[4])
    return state, peak


def _derivative(
    state: Float[np.ndarray, "5 n"],
    t: Float[np.ndarray, " n"],
    recipes: Float[np.ndarray, "n 6"],
    is_fed: bool,
) -> Float[np.ndarray, "5 n"]:
    jacket, rate, ratio, catalyst, flow, _ = recipes.T
    a, b, product, _, temperature = state
    feed = ratio * CHARGE / rate  # h
    volume = 1 + FED_VOLUME * np.minimum(t / feed, 1.0)
    colder = (1 / temperature - 1 / REFERENCE) / GAS_CONSTANT
    speeds = [catalyst * k * np.exp(-e * colder) for k, e in zip(RATES, ENERGIES, strict=True)]
    r1, r2 = speeds[0] * a * b / volume, speeds[1] * product * b / volume
    fed, inflow = (rate, FED_VOLUME / feed) if is_fed else (0.0 * rate, 0.0 * rate)
    heat = HEATS[0] * r1 + HEATS[1] * r2
    heat -= COOLING * volume * flow**0.6 * (temperature - jacket)
    heat -= HEAT_CAPACITY * inflow * (temperature - FED_AT)
    return np.stack([-r1, fed - r1 - r2, r1 - r2, r2, heat / (HEAT_CAPACITY * volume)])
