"""Whether points that are said to be safe are safe, in many random problems.

Each test states the probability with which it fails though the claim holds, for fresh seeds; the
seeds are fixed, so a test that passes goes on passing.
"""

import numpy as np
import pytest
from scipy import stats

import tellmost as tm
from tellmost.targets import NoTargetsLeft

TAKEN_AS_TOLD = {"on_miscalibration": "log", "suspect_z": np.inf}
DOMAIN = np.linspace(0, 1, 25)
LENGTHSCALE, NOISE = 0.25, 0.1
KERNEL = tm.kernels.Gaussian(LENGTHSCALE)
K = np.exp(-0.5 * ((DOMAIN[:, None] - DOMAIN) / LENGTHSCALE) ** 2)
ERROR = 1e-3  # of each statistical test

many_runs = pytest.mark.skipif(
    "config.getoption('--shapes', False)", reason="shapes are those of the other tests, many times"
)


def bounded_function(rng: np.random.Generator, norm: float) -> np.ndarray:
    """A function of exactly this norm: a sum of kernels at some points of the domain."""
    weights = np.zeros(len(DOMAIN))
    centres = rng.choice(len(DOMAIN), size=6, replace=False)
    weights[centres] = rng.normal(size=6)
    f = K @ weights * norm / np.sqrt(weights @ K @ weights)
    return f * np.sign(f[np.abs(f).argmax()])  # its largest value is positive


def run_bounded(seed: int, beta, rounds: int, norm: float = 2.0, targets=None):
    """Yields optimizer, f, limit and query after each round; f is objective and constraint."""
    rng = np.random.default_rng(seed)
    f = bounded_function(rng, norm)
    limit = 0.3 * float(f.max())  # above the prior mean, so that nothing is safe at first
    gp = tm.GP(KERNEL, noise_std=NOISE)
    optimizer = tm.SafeOptimizer(
        DOMAIN,
        objective=gp,
        constraints={"f": tm.Constraint(gp, at_least=limit)},
        safe_seed=DOMAIN[[int(f.argmax())]],
        on_violation="continue",
        **TAKEN_AS_TOLD,
        targets=targets or tm.targets.PotentialMaximizers(),
        **beta,
    )
    for _ in range(rounds):
        query = optimizer.ask()
        optimizer.tell(query, f[query.index] + NOISE * rng.standard_normal())
        yield optimizer, f, limit, query


def has_violated(seed: int, beta, norm: float) -> bool:
    """True if any query of a run is unsafe in truth, while it goes where safety is unknown."""
    run = run_bounded(seed, beta, 12, norm, tm.targets.PotentialExpanders())
    try:
        return any(f[query.index] < limit for _, f, limit, query in run)
    except NoTargetsLeft:
        return False


@many_runs
def test_runs_with_a_violation_are_at_most_a_share_of_delta():
    delta, runs = 0.1, 60
    most = stats.binom.ppf(1 - ERROR, runs, delta)
    bound = {"beta": tm.safebo.RKHSBound(2.0, delta)}
    assert sum(has_violated(seed, bound, 2.0) for seed in range(runs)) <= most
    # a width that covers only functions of a smaller norm fails the same test
    assert sum(has_violated(seed, {"confidence": 0.7}, 6.0) for seed in range(runs)) > most


@pytest.mark.parametrize("seed", range(8))
def test_intersected_bounds_only_tighten_and_enclose_what_they_claim(seed):
    safe, maximizers = np.zeros(len(DOMAIN), bool), np.ones(len(DOMAIN), bool)
    bound = {"beta": tm.safebo.RKHSBound(2.0, 0.1)}
    for optimizer, f, limit, _ in run_bounded(seed, bound, 15):
        assert (optimizer.safe_mask >= safe).all()
        assert (optimizer.target_mask <= maximizers).all()
        safe, maximizers = optimizer.safe_mask, optimizer.target_mask
        lower, upper = optimizer.bounds("f")
        assert (lower <= f).all() and (f <= upper).all()  # holds with these seeds
        is_safe = f >= limit
        assert (safe <= is_safe).all() and (is_safe <= optimizer.optimistic_mask).all()
        assert maximizers[f.argmax()]
        if safe.any():
            regret = f.max() - f[optimizer.best.index]
            assert regret <= optimizer.regret_bound() + 1e-12
    assert safe.any()


def hill(points):
    """A prior mean that is safe in the middle alone."""
    return 1.5 - 5.0 * (points[:, 0] - 0.5).abs()


def unsafe_queries(seed: int, confidence: float, shift: float = 0.0):
    """A run on a draw from the prior: which queries are unsafe, and with what chance.

    Nothing is chosen by looking at f, so the model is right about it.
    """
    import torch

    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    g = hill(torch.from_numpy(DOMAIN)[:, None]).numpy() + root @ rng.normal(size=len(K)) - shift
    f = root @ rng.normal(size=len(K))
    optimizer = tm.SafeOptimizer(
        DOMAIN,
        objective=tm.GP(KERNEL, noise_std=NOISE),
        constraints={"g": tm.Constraint(tm.GP(KERNEL, mean=hill, noise_std=NOISE), at_least=0.0)},
        confidence=confidence,
        targets=tm.targets.PotentialExpanders(),
        on_violation="continue",
        **TAKEN_AS_TOLD,
    )
    unsafe, chances = [], []
    for _ in range(8):
        try:
            query = optimizer.ask()
        except (tm.safebo.NoSafePoint, NoTargetsLeft):
            break
        unsafe.append(g[query.index] < 0)
        chances.append(1 - query.probability_safe)
        noise = NOISE * rng.standard_normal(2)
        optimizer.tell(query, f[query.index] + noise[0], {"g": g[query.index] + noise[1]})
    return np.array(unsafe, dtype=float), np.array(chances)


def exceeds(shares: list[float], bound: float) -> bool:
    """True if the mean over runs is above a bound, by a one-sided t-test.

    Queries of one run depend on each other; runs do not.
    """
    return stats.ttest_1samp(shares, bound, alternative="greater").pvalue < ERROR


@many_runs
def test_queries_are_unsafe_no_more_often_than_the_confidence_allows():
    runs = [unsafe_queries(seed, 0.8) for seed in range(120)]
    shares = [unsafe.mean() for unsafe, _ in runs]
    assert all((chances <= 0.2 + 1e-12).all() for _, chances in runs)
    assert not exceeds(shares, 0.2)
    # constraints that are worse than the prior says fail the same test
    assert exceeds([unsafe_queries(seed, 0.8, shift=1.5)[0].mean() for seed in range(40)], 0.2)
    # and what a query says of its chances is right on average, to either side
    surprise = [(unsafe - chances).mean() for unsafe, chances in runs]
    assert stats.ttest_1samp(surprise, 0.0).pvalue > ERROR


def test_pointwise_levels_are_not_intersected():
    """A safe point that measures badly leaves the safe set again."""
    gp = tm.GP(KERNEL, noise_std=NOISE)
    optimizer = tm.SafeOptimizer(
        DOMAIN,
        objective=gp,
        constraints={"f": tm.Constraint(gp, at_least=0.0)},
        confidence=0.9,
        on_violation="continue",
        **TAKEN_AS_TOLD,
    )
    optimizer.tell(row=5, objective=0.3)
    assert optimizer.safe_mask[5]
    lower, _ = optimizer.bounds()
    optimizer.tell(row=5, objective=-0.5)
    assert not optimizer.safe_mask[5]
    assert optimizer.bounds()[0][5] < lower[5]
    with pytest.raises(tm.safebo.NoSafePoint):
        optimizer.ask()


@pytest.mark.parametrize("gap", [-1e-6, 1e-10, 1e-8])
def test_bounds_of_two_rounds_may_exclude_each_other_by_rounding_alone(gap):
    """The prior says at most 3; one measurement moves the lower bound to ``gap`` above that."""
    beta, noise = 3.0, 0.1
    variance = noise**2 / (1 + noise**2)  # of f where it was measured; before that it is 1
    measured = (1 + noise**2) * (beta + beta * variance**0.5 + gap)
    gp = tm.GP(KERNEL, noise_std=noise)
    everywhere = np.ones(len(DOMAIN), bool)
    optimizer = tm.SafeOptimizer(DOMAIN, objective=gp, beta=beta, targets=lambda _: everywhere)
    optimizer.tell(row=12, objective=measured)
    if gap < 1e-9:
        optimizer.ask()
        return
    with pytest.raises(tm.safebo.MiscalibratedModel) as caught:
        optimizer.ask()
    assert caught.value.gap == pytest.approx(gap, rel=1e-3)


def test_a_width_that_cannot_hold_in_all_rounds_is_found_out_and_said_how_to_mend():
    rng = np.random.default_rng(0)
    gp = tm.GP(KERNEL, noise_std=NOISE)
    optimizer = tm.SafeOptimizer(DOMAIN, objective=gp, beta=0.3)
    message = "raise it, or give confidence=.*calibration.*refit.*noise is larger"

    def go_on() -> None:
        for _ in range(50):
            optimizer.tell(optimizer.ask(), float(rng.normal()))

    with pytest.raises(tm.safebo.MiscalibratedModel, match=message) as caught:
        go_on()
    assert caught.value.name == "objective" and caught.value.gap > 0
