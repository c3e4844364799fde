"""How safe, and how good, is an optimizer that does not know its prior?

Functions of 1 to 3 parameters are drawn from Gaussian and Matern-5/2 priors, whose lengthscales
lie between 0.1 and 0.5 of the domain's width. Objective and constraint are the same function, and
five measurements beside each other are known to be safe. Every method sees the same functions,
seeds and noise. ``--hard`` takes functions that are steeper elsewhere than at their seeds.
"""

import argparse
import statistics
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import process_time

import numpy as np
import torch

import tellmost as tm
from setting import save
from tellmost.safebo import NoSafePoint

POINTS, SEEDS, NEAR = 1_000, 5, 10  # of a domain; seeds are among so many nearest safe points
NOISE_SHARE = 0.05  # of the function's standard deviation
METHODS = {
    "true prior": {},
    "mixture": {"known": ("noise_std",)},
    "mixture, noise unknown": {"known": ()},
    "mixture at 0.997": {"known": ("noise_std",), "confidence": 0.997},
    "hpd": {"known": ("noise_std",), "sets": "hpd"},
    "hpd, steps of 0.1": {"known": ("noise_std",), "sets": "hpd", "max_step": 0.1},
    "fitted to ten measurements": {"fitted": 10},
    "mixture, ard": {"known": ("noise_std",), "ard": True},
}
BAR = ("true prior", "mixture")


@dataclass(frozen=True)
class Truth:
    """A function on the points of its domain, where it must stay, and where we begin."""

    kind: str
    points: np.ndarray
    f: np.ndarray
    limit: float
    seeds: np.ndarray  # rows, of which the first SEEDS are declared
    prior: tm.GP | None

    @property
    def noise_std(self) -> float:
        return NOISE_SHARE * float(self.f.std())


def drawn(number: int) -> Truth:
    """A function drawn from a prior, with a unit and a level of its own."""
    rng = np.random.default_rng([21, number])
    d, lengthscale = 1 + number % 3, float(np.exp(rng.uniform(np.log(0.1), np.log(0.5))))
    kernel = tm.kernels.Gaussian(lengthscale) if rng.uniform() < 0.5 else None
    kernel = kernel or tm.kernels.Matern(2.5, lengthscale)
    points = spread(d, number)
    scale, level = np.exp(rng.uniform(-2, 2)), rng.normal(scale=3)
    K = kernel.block(points, points) + 1e-8 * torch.eye(POINTS, dtype=torch.float64)
    f = torch.linalg.cholesky(K).numpy() @ rng.standard_normal(POINTS)
    truth = begin(type(kernel).__name__, points.numpy(), scale * f + level, rng)
    prior = tm.GP(
        tm.kernels.Scaled(kernel, scale**2), mean=float(level), noise_std=truth.noise_std
    )
    return replace(truth, prior=prior)


def hard(number: int) -> Truth:
    """A function that is steeper elsewhere than at its seeds."""
    rng = np.random.default_rng([22, number])
    kind = ("bowl", "cliff", "shorter lengthscale")[number % 3]
    points = spread(1 + number // 3 % 2, number)
    x = points.numpy()
    if kind == "bowl":
        f = 1 - ((x - rng.uniform(0.3, 0.7, x.shape[1])) ** 2).sum(axis=1) * 8
        return begin(kind, x, f, rng, limit=0.0)
    if kind == "cliff":
        edge = rng.uniform(0.55, 0.85)
        f = 1 + 0.3 * np.sin(4 * x[:, 0]) - 3 / (1 + np.exp(-(x[:, 0] - edge) / 0.02))
        return begin(kind, x, f, rng, limit=0.0, among=x[:, 0] < 0.4)
    halves = [draw(tm.kernels.Gaussian(length), points, rng) for length in (0.5, 0.12)]
    share = 1 / (1 + np.exp(-(x[:, 0] - 0.5) / 0.05))
    f = halves[0] * (1 - share) + halves[1] * share
    return begin(kind, x, f, rng, among=x[:, 0] < 0.3)


def draw(kernel: tm.kernels.Kernel, points: torch.Tensor, rng: np.random.Generator) -> np.ndarray:
    K = kernel.block(points, points) + 1e-8 * torch.eye(len(points), dtype=torch.float64)
    return torch.linalg.cholesky(K).numpy() @ rng.standard_normal(len(points))


def spread(d: int, number: int) -> torch.Tensor:
    return tm.Box([0.0] * d, [1.0] * d).sobol(POINTS, number)


def begin(
    kind: str,
    points: np.ndarray,
    f: np.ndarray,
    rng: np.random.Generator,
    limit: float | None = None,
    among: np.ndarray | None = None,
) -> Truth:
    """Choose a limit, by default with 40 to 80% of the domain above it, and safe seeds."""
    limit = float(np.quantile(f, rng.uniform(0.2, 0.6))) if limit is None else limit
    is_fit = (f > limit + 0.5 * f.std()) & (True if among is None else among)
    rows = np.flatnonzero(is_fit if is_fit.any() else f >= np.quantile(f, 0.95))
    centre = rng.choice(rows)
    safe = np.flatnonzero(f > limit + 0.5 * f.std())
    order = np.linalg.norm(points[safe] - points[centre], axis=1).argsort()[1:NEAR]
    seeds = np.append(centre, rng.permutation(safe[order])[: 2 * SEEDS - 1])
    return Truth(kind, points, f, limit, seeds, None)


def optimizer(truth: Truth, method: str, rng: np.random.Generator) -> tm.SafeOptimizer:
    how = dict(METHODS[method])
    known, ard = how.pop("known", None), how.pop("ard", False)
    count = how.pop("fitted", SEEDS)
    values = truth.f[truth.seeds] + truth.noise_std * rng.standard_normal(len(truth.seeds))
    X, y = truth.points[truth.seeds[:count]], values[:count]
    if known is not None:
        gp = tm.GP.unknown(noise_std=truth.noise_std if known else None, ard=ard)
    else:
        gp = truth.prior if count == SEEDS else tm.GP.fit(X, y)
    return tm.SafeOptimizer(
        truth.points,
        objective=gp,
        constraints={"f": tm.Constraint(gp, at_least=truth.limit)},
        safe_seed=(X, {"f": y.tolist()}),
        on_violation="continue",
        on_miscalibration="log",
        **how,
    )


def run(truth: Truth, method: str, number: int, asks: int) -> dict:
    rng = np.random.default_rng([23, number])
    opt = optimizer(truth, method, rng)
    rows, regret, start = [], {}, process_time()
    for step in range(1, asks + 1):
        try:
            rows.append(opt.ask().index)
        except NoSafePoint:
            break
        y = truth.f[rows[-1]] + truth.noise_std * rng.standard_normal()
        opt.tell(row=rows[-1], objective=y)
        if step in (asks // 2, asks):
            regret[step] = regret_of(opt, truth)
    used = process_time() - start
    declared = truth.points[truth.seeds[:SEEDS]]
    far = 1.5 * np.ptp(declared, axis=0) + 0.01  # along one parameter at least
    away = np.abs(truth.points[rows][:, None] - declared).min(axis=1) if rows else np.zeros((1, 1))
    is_safe = truth.f >= truth.limit
    return {
        "d": truth.points.shape[1],
        "asks": len(rows),
        "unsafe": int((~is_safe[rows]).sum()),
        "warned": any(one.kind == "miscalibrated" for one in opt.log),
        "left": bool(np.setdiff1d(rows, truth.seeds[:SEEDS]).size),
        "far": bool((away > far).any()),
        "safe_set": int((opt.safe_mask & is_safe).sum()),
        "regret": [regret.get(step) for step in (asks // 2, asks)],
        "range": float(np.ptp(truth.f)),
        "deviation": float(truth.f.std()),
        "ms": 1e3 * used / max(len(rows), 1),
    }


def regret_of(opt: tm.SafeOptimizer, truth: Truth) -> float:
    """What the recommended point lacks to the best safe one."""
    best = truth.f[truth.f >= truth.limit].max()
    seeds = truth.seeds[:SEEDS]
    row = opt.best.index if opt.safe_mask.any() else seeds[truth.f[seeds].argmin()]
    return float(best - truth.f[row])


def summary(runs: list[dict]) -> dict:
    asks = sum(one["asks"] for one in runs)
    regrets = [[one["regret"][i] / one["deviation"] for one in runs] for i in (0, 1)]
    return {
        "runs": len(runs),
        "left_by_dimension": {
            d: statistics.fmean(one["left"] for one in runs if one["d"] == d)
            for d in sorted({one["d"] for one in runs})
        },
        "unsafe_share": sum(one["unsafe"] for one in runs) / asks,
        "runs_with_violation": sum(one["unsafe"] > 0 for one in runs) / len(runs),
        "runs_with_warning": sum(one["warned"] for one in runs) / len(runs),
        "left_the_seeds": sum(one["left"] for one in runs) / len(runs),
        "left_their_surroundings": sum(one["far"] for one in runs) / len(runs),
        "safe_set": statistics.fmean(one["safe_set"] for one in runs) / POINTS,
        "regret_in_deviations": [statistics.fmean(one) for one in regrets],
        "regret": [statistics.fmean(one["regret"][i] for one in runs) for i in (0, 1)],
        "range": statistics.fmean(one["range"] for one in runs),
        "range_in_deviations": statistics.fmean(one["range"] / one["deviation"] for one in runs),
        "ms_per_ask_and_tell": statistics.median(one["ms"] for one in runs),
    }


def measure(make, methods: list[str], runs: int, asks: int, first: int) -> Iterator[tuple]:
    for method in methods:
        found = []
        for truth, number in ((make(number), number) for number in range(first, first + runs)):
            if len(truth.seeds) >= METHODS[method].get("fitted", 1):  # an island may be small
                found.append(run(truth, method, number, asks))
        row = summary(found)
        yield method, row
        half, whole = row["regret_in_deviations"]
        print(
            f"{method:28} unsafe {100 * row['unsafe_share']:5.2f}%  runs with a violation "
            f"{100 * row['runs_with_violation']:4.0f}%  "
            f"warned {100 * row['runs_with_warning']:4.0f}%  "
            f"left {100 * row['left_the_seeds']:4.0f}% "
            f"{100 * row['left_their_surroundings']:4.0f}%  "
            f"safe set {row['safe_set']:.3f}  regret {half:.3f} {whole:.3f}  "
            f"{row['ms_per_ask_and_tell']:.1f} ms",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--asks", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--methods", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    runs, asks = (3, 6) if given.smoke else (given.runs, given.asks)
    methods = list(BAR) if given.smoke else given.methods or list(METHODS)
    methods = [one for one in methods if not (given.hard and one == "true prior")]
    make = hard if given.hard else drawn
    name, table = "unknown_priors_hard" if given.hard else "unknown_priors", {}
    for method, row in measure(make, methods, runs, asks, given.first):
        table[method] = row
        if not given.smoke and given.methods is None:
            save(name, {"asks": asks, "methods": table})


if __name__ == "__main__":
    main()
