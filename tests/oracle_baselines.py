"""The slow, obvious float64 version of other methods of safe optimization.

Every safe set and every goal is found by going through all rounds again, every imagined
observation by solving with one more row, every expectation by quadrature. Each method answers with
a score for every row, -inf where a row may not be asked for. Nothing here imports Tellmost.
"""

from dataclasses import dataclass, replace
from math import erf, log, pi, sqrt

import numpy as np

from oracle_safebo import Safe, Told

NODES = np.linspace(-10, 10, 2_001)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()


@dataclass(frozen=True)
class Grown:
    """A round of SafeOpt: the safe set, and the one before, from which it grew."""

    lower: np.ndarray
    upper: np.ndarray
    sources: np.ndarray
    is_safe: np.ndarray


def bounds_at(safe: Safe, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Over the domain, after so many rounds."""
    n = len(safe.X)
    first = 0 if safe.is_intersected else rounds
    each = [safe.bounds_after(r) for r in range(first, rounds + 1)]
    lower = np.max([one[0] for one in each], axis=0)[:, :n]
    return lower, np.min([one[1] for one in each], axis=0)[:, :n]


def margins(safe: Safe, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The margins of each limit at worst and at best, in its unit: a row per limit."""
    worst, best = [], []
    for limit in safe.limits:
        low, high = lower[limit.function] - limit.value, upper[limit.function] - limit.value
        worst.append(low if limit.is_lower else -high)
        best.append(high if limit.is_lower else -low)
    return np.array(worst), np.array(best)


def reaches(safe: Safe, slopes, margin: np.ndarray, z: int, x: int) -> bool:
    """True if row z keeps every limit at row x, by its margins and the Lipschitz constants."""
    return all(
        margin[i, z] - constant * np.linalg.norm(safe.X[x] - safe.X[z], ord=norm) >= 0
        for i, (constant, norm) in enumerate(slopes)
    )


def grow(safe: Safe, slopes, seeds: list[int]) -> list[Grown]:
    """All rounds of SafeOpt's safe set."""
    n, history = len(safe.X), []
    for rounds in range(len(safe.told) + 1):
        lower, upper = bounds_at(safe, rounds)
        worst, _ = margins(safe, lower, upper)
        if rounds == 0:
            is_safe = safe.is_safe(lower, upper)
            sources = is_safe.copy()
            sources[seeds] = True
        else:
            sources = history[-1].sources | history[-1].is_safe
            zs = np.flatnonzero(sources)
            is_safe = np.array(
                [any(reaches(safe, slopes, worst, z, x) for z in zs) for x in range(n)]
            )
        history.append(Grown(lower, upper, sources, is_safe))
    return history


def rising(safe: Safe, lower, upper) -> tuple[np.ndarray, np.ndarray]:
    return (-upper[0], -lower[0]) if safe.is_minimized else (lower[0], upper[0])


def widths(safe: Safe, lower, upper, functions=None) -> np.ndarray:
    chosen = range(len(safe.functions)) if functions is None else functions
    return np.max([(upper[i] - lower[i]) / safe.scale(i) for i in chosen], axis=0)


def only(mask: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return np.where(mask, scores, -np.inf)


def maximizers(safe: Safe, lower, upper, is_safe) -> np.ndarray:
    low, high = rising(safe, lower, upper)
    return is_safe & (high >= low[is_safe].max())


def slope_expanders(safe: Safe, slopes, now: Grown) -> np.ndarray:
    _, best = margins(safe, now.lower, now.upper)
    beyond = np.flatnonzero(~now.is_safe)
    return np.array(
        [
            now.is_safe[z] and any(reaches(safe, slopes, best, z, x) for x in beyond)
            for z in range(len(safe.X))
        ]
    )


def safeopt(safe: Safe, slopes, seeds: list[int], is_open: np.ndarray) -> np.ndarray:
    now = grow(safe, slopes, seeds)[-1]
    wanted = slope_expanders(safe, slopes, now) | maximizers(
        safe, now.lower, now.upper, now.is_safe
    )
    among = wanted & is_open if (wanted & is_open).any() else is_open
    return only(among, widths(safe, now.lower, now.upper))


def goose(safe: Safe, slopes, seeds: list[int], is_open: np.ndarray, epsilon: float) -> np.ndarray:
    """The goal is followed through all rounds."""
    history = grow(safe, slopes, seeds)
    scales = np.array([safe.scale(limit.function) for limit in safe.limits])[:, None]
    goal, n = None, len(safe.X)
    for rounds, now in enumerate(history):
        told = {tuple(one.x) for one in safe.told[:rounds]}
        _, best = margins(safe, now.lower, now.upper)
        zs = np.flatnonzero(now.sources)
        less = best - epsilon * scales
        optimistic = np.array(
            [any(reaches(safe, slopes, less, z, x) for z in zs) for x in range(n)]
        )
        if not all(tuple(safe.X[row]) in told for row in seeds):
            continue
        was_safe = goal is not None and history[rounds - 1].is_safe[goal]
        if goal is None or was_safe or not (optimistic | now.is_safe)[goal]:
            high = rising(safe, now.lower, now.upper)[1]
            among = only(optimistic | now.is_safe, high)
            goal = int(among.argmax()) if np.isfinite(among).any() else None
    if now.is_safe[goal] and is_open[goal]:
        return only(np.arange(n) == goal, np.zeros(n))
    width = widths(safe, now.lower, now.upper, {limit.function for limit in safe.limits})
    wide = np.flatnonzero(is_open & now.is_safe & (width > epsilon))
    targets = np.flatnonzero(optimistic & ~now.is_safe)
    for x in sorted(targets, key=lambda x: np.abs(safe.X[x] - safe.X[goal]).sum()):
        found = [z for z in wide if reaches(safe, slopes, best, z, x)]
        if found:
            return only(np.isin(np.arange(n), found), width)
    return only(is_open, width)


def imagined(safe: Safe, row: int, number: int, value: float) -> tuple[np.ndarray, np.ndarray]:
    """Present bounds of a function had a row come out so; the width is the present one."""
    numbers, last = range(len(safe.functions)), len(safe.told)
    counts = [len(safe.seen(i, last)[1]) for i in numbers]
    beta = safe.betas(counts, [safe.information(i, last) for i in numbers])[number]
    told = Told(safe.X[row], {number: (value, safe.functions[number].noise_std[row])})
    mean, K = replace(safe, told=[*safe.told, told]).posterior(number, last + 1)
    std = np.sqrt(np.diag(K).clip(0))
    return (mean - beta * std)[: len(safe.X)], (mean + beta * std)[: len(safe.X)]


def imagined_expanders(safe: Safe) -> np.ndarray:
    lower, upper = bounds_at(safe, len(safe.told))
    is_safe, (worst, _) = safe.is_safe(lower, upper), margins(safe, lower, upper)
    expands = np.zeros(len(safe.X), dtype=bool)
    for row in np.flatnonzero(is_safe):
        kept = np.ones(len(safe.X), dtype=bool)
        for i, limit in enumerate(safe.limits):
            hoped = (upper if limit.is_lower else lower)[limit.function, row]
            low, high = imagined(safe, row, limit.function, hoped)
            margin = low - limit.value if limit.is_lower else limit.value - high
            kept &= (np.maximum(margin, worst[i]) if safe.is_intersected else margin) >= 0
        expands[row] = kept.sum() > is_safe.sum()
    return expands


def heuristic_safeopt(safe: Safe, is_open: np.ndarray) -> np.ndarray:
    lower, upper = bounds_at(safe, len(safe.told))
    is_safe = safe.is_safe(lower, upper)
    wanted = imagined_expanders(safe) | maximizers(safe, lower, upper, is_safe)
    among = wanted & is_open if (wanted & is_open).any() else is_open
    return only(among, widths(safe, lower, upper))


def sign_entropy(m: np.ndarray) -> np.ndarray:
    """The entropy of the sign of a Gaussian, as ISE approximates it. m is its mean over its sd."""
    return log(2) * np.exp(-(m**2) / (pi * log(2)))


def sign_information(safe: Safe) -> np.ndarray:
    """The gain at every row, about the best x' and limit: entropies averaged by quadrature."""
    n, last = len(safe.X), len(safe.told)
    most = np.zeros(n)
    for limit in safe.limits:
        mean, K = safe.posterior(limit.function, last)
        margin, K = mean[:n] - limit.value, K[:n, :n]
        for x in range(n):
            spread = K[x, x] + safe.functions[limit.function].noise_std[x] ** 2
            sd = np.sqrt(np.diag(K) - K[x] ** 2 / spread)
            outcomes = margin + np.outer(NODES * sqrt(spread), K[x] / spread)
            after = WEIGHTS @ sign_entropy(outcomes / sd)
            information = sign_entropy(margin / np.sqrt(np.diag(K))) - after
            most[x] = max(most[x], information.max())
    return most


def max_value_information(safe: Safe, best: np.ndarray) -> np.ndarray:
    """Entropy of the objective less that of what lies below each drawn maximum."""
    n = len(safe.X)
    mean, K = safe.posterior(0, len(safe.told))
    mean, sd = mean[:n] * (-1 if safe.is_minimized else 1), np.sqrt(np.diag(K)[:n])
    found = np.zeros(n)
    for x in range(n if len(best) else 0):
        lost = [truncated_entropy(mean[x], sd[x], value) for value in best]
        found[x] = 0.5 * log(2 * pi * np.e * sd[x] ** 2) - np.mean(lost)
    return found


def truncated_entropy(mean: float, sd: float, most: float) -> float:
    """The entropy of a Gaussian that is known to be at most so much."""
    f = np.linspace(min(most, mean) - 12 * sd, min(most, mean + 12 * sd), 20_001)
    log_density = -0.5 * ((f - mean) / sd) ** 2 - 0.5 * log(2 * pi * sd**2)
    mass = np.trapezoid(np.exp(log_density), f)
    log_density = log_density - log(mass)
    return float(-np.trapezoid(np.exp(log_density) * log_density, f))


def eic(safe: Safe, is_open: np.ndarray) -> np.ndarray:
    n, last = len(safe.X), len(safe.told)
    posteriors = [safe.posterior(i, last) for i in range(len(safe.functions))]
    sign = -1 if safe.is_minimized else 1
    means = np.array([mean for mean, _ in posteriors])
    sds = np.array([np.sqrt(np.diag(K)) for _, K in posteriors])
    measured, _, _ = safe.seen(0, last)
    rows = [int(np.abs(safe.everywhere - x).sum(axis=1).argmin()) for x in measured]
    feasible = [row for row in rows if safe.is_safe(means, means)[row]]
    score = np.ones(n)
    if feasible:
        best = max(sign * means[0, row] for row in feasible)
        for x in range(n):
            f = sign * means[0, x] + sds[0, x] * np.linspace(-9, 9, 20_001)
            density = np.exp(-0.5 * ((f - sign * means[0, x]) / sds[0, x]) ** 2)
            density /= np.sqrt(2 * pi) * sds[0, x]
            score[x] = np.trapezoid(np.maximum(f - best, 0) * density, f)
    for function in {limit.function for limit in safe.limits}:
        score *= [chance(safe, function, means[function, x], sds[function, x]) for x in range(n)]
    return only(is_open, score)


def chance(safe: Safe, function: int, mean: float, sd: float) -> float:
    """That a function keeps all its limits."""
    own = [limit for limit in safe.limits if limit.function == function]
    low = max((limit.value for limit in own if limit.is_lower), default=-np.inf)
    high = min((limit.value for limit in own if not limit.is_lower), default=np.inf)
    below = [0.5 * (1 + erf((limit - mean) / sd / sqrt(2))) for limit in (low, high)]
    return max(below[1] - below[0], 0.0)
