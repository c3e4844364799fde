r"""The 6d task, beyond the paper: the recipe of a batch, with two limits that bind by degrees.

The quadcopter's constraint is in effect binary. Here a reactor (``reactor.py``) is to produce as
much as it can, in kg/h, while its peak stays at most 326 K and its product at least 91% pure.
These limits have different units and sides, and a sixth of all recipes keeps them. Either of them
alone would admit better recipes than the best one that keeps both. That one is near the limits and
far from where the task starts.

The domain is a fixed set of 2,048 Sobol points and is searched whole, so regret and safe set are
exact. So are the Lipschitz constants of SafeOpt and GoOSE, but they lead nowhere: no safe point of
the set is near enough to another to prove it safe. Points are shares of the range of each
parameter, since a distance that adds kelvins to hours would mean nothing.

Observed beforehand are the recipe farthest from both limits, in standard deviations of their
noise, and the eleven safe ones nearest to it, as if tried around the present recipe. From one
alone nobody could go on: neighbours are 0.3 apart in six dimensions, and by the priors purity may
fall by more than its margin over such a step, unless its slopes are known.

Priors are Matérn-5/2 with a lengthscale per parameter, by marginal likelihood (``GP.fit``) of 300
noisy recipes drawn uniformly from the box, with the noise as it is and the mean of the values.
They were rounded to three digits and are constants since. Of six such fits (samples of 200, 300
and 400, two seeds) this is the one with the best z-scores: given its 300 values, those of the
domain lie 1.1, 1.0 and 1.0 predicted standard deviations off (root mean square); with the others
it was 0.8 to 1.4. No run of an optimizer had a part in that. :func:`fit_priors` does it again.

Limits, number of points and starts were settled by the values of the domain and by short trial
runs, in which some method had to be able to leave the start, before any run that is reported.
"""

from functools import cache

import numpy as np
import torch

from tellmost.kernels import Matern, Scaled
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint
from tellmost.safebo.constraints import estimate_lipschitz, find_reached, steepest_slope
from tellmost.shapes import Bool, Float, Int
from tellmost.targets.box import Box
from tellmost_reproduction.safebo.reactor import RECIPES, make_batch
from tellmost_reproduction.safebo.tasks import Task, Values, keeps

POINTS, FEW_POINTS = 2_048, 256
STARTS = 12
SAMPLE = 300  # recipes that the priors were fitted to
HOTTEST, PUREST = 326.0, 91.0  # the limits: K, and % at least
NOISE_STD = {"objective": 1.0, "temperature": 0.5, "purity": 0.3}  # kg/h, K, %
LENGTHSCALES = {
    "objective": (6.41, 3.15, 5.13, 5.36, 14.0, 3.73),
    "temperature": (6.55, 3.54, 16.2, 5.36, 4.89, 995.0),  # it peaks before the batch is held
    "purity": (3.18, 5.78, 2.77, 2.48, 4.38, 3.67),
}
VARIANCES = {"objective": 4993.0, "temperature": 2710.0, "purity": 801.0}
MEANS = {"objective": 56.3, "temperature": 329.8, "purity": 89.3}

PRIORS = {
    name: GP(
        Scaled(Matern(2.5, LENGTHSCALES[name]), VARIANCES[name]),
        mean=MEANS[name],
        noise_std=NOISE_STD[name],
    )
    for name in NOISE_STD
}


LIMITS = {
    "temperature": Constraint(PRIORS["temperature"], at_most=HOTTEST),
    "purity": Constraint(PRIORS["purity"], at_least=PUREST),
}


@cache
def process(points: int = POINTS) -> Task:
    """The 6d task. The paper has no constants for it, so there are no oracle's."""
    domain = Box(6 * [0.0], 1.0).sobol(points, seed=0).numpy()
    values = evaluate(domain)
    true = {name: steepest_slope(domain, values[name], norm=1) for name in LIMITS}
    drawn = {name: estimate_lipschitz(PRIORS[name], domain, norm=1) for name in LIMITS}
    return Task(
        name="process",
        domain=domain,
        values=values,
        objective=PRIORS["objective"],
        constraints=LIMITS,
        starts=find_starts(domain, values),
        slopes={"true": true, "estimated": drawn},
        beta=3.0,
        rounds=100,
    )


def small_process() -> Task:
    """Another task with fewer points, to see that code runs."""
    return process(FEW_POINTS)


def find_reaching(task: Task) -> Bool[np.ndarray, " n"]:
    """Safe rows that would prove another row safe by true constants, if all were known."""
    margins = (HOTTEST - task.values["temperature"], task.values["purity"] - PUREST)
    slopes = [task.slopes["true"][name] for name in LIMITS]
    found = np.zeros(len(task.domain), dtype=bool)
    points = torch.from_numpy(task.domain)
    for row in np.flatnonzero(task.is_safe).tolist():
        known = torch.tensor([[float(margin[row])] for margin in margins])
        others = torch.cat([points[:row], points[row + 1 :]])
        found[row] = bool(find_reached(slopes, points[row : row + 1], known, others).any())
    return found


def evaluate(shares: Float[np.ndarray, "n 6"]) -> dict[str, Float[np.ndarray, " n"]]:
    """Compute all outputs without noise, at shares of the ranges."""
    low, high = np.array(RECIPES.low), np.array(RECIPES.high)
    batch = make_batch(low + shares * (high - low))
    return {
        "objective": batch.production,
        "temperature": batch.temperature,
        "purity": batch.purity,
    }


def find_starts(domain: Float[np.ndarray, "n 6"], values: Values) -> Int[np.ndarray, " s"]:
    """The row farthest from both limits by its noise, and the safe ones nearest to it."""
    cool = (HOTTEST - values["temperature"]) / NOISE_STD["temperature"]
    pure = (values["purity"] - PUREST) / NOISE_STD["purity"]
    apart = np.linalg.norm(domain - domain[np.minimum(cool, pure).argmax()], axis=1)
    return np.where(keeps(LIMITS, values), apart, np.inf).argsort(kind="stable")[:STARTS]


def fit_priors(seed: int = 0) -> dict[str, GP]:
    """Fit ``PRIORS`` again. This needs the extra ``bo``."""
    rng = np.random.default_rng(seed)
    shares = rng.random((SAMPLE, 6))
    found = {}
    for name, values in evaluate(shares).items():
        y = values + NOISE_STD[name] * rng.standard_normal(SAMPLE)
        kernel = Scaled(Matern(2.5, np.ones(6)), float(y.var()))
        found[name] = GP.fit(shares, y, kernel, noise_std=NOISE_STD[name], mean=float(y.mean()))
    return found
