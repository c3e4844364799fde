"""Random options of ``select``, each pick compared with long-double arithmetic.

A pick is wrong if another row that may be picked has a better score in truth, by more than the
ties and the rounding that the library states.
"""

from collections import Counter

import numpy as np
import torch
from exact import Real, covariance, has_clear_rank, normalized, open_rows, oracle

import tellmost as tm
from tellmost.numerics import TIE_FLOOR, TIE_TOLERANCE
from tellmost.rows.record_files import read_records
from tellmost.rules import targets_in_pool
from tellmost.selecting.checkpoint import ROUNDING

KERNELS = ("linear", "linear", "gaussian", "laplace", "matern 0.5", "matern 1.5", "matern 2.5")
FORMS = ("array", "tensor", "npy", "files", "blocks", "csv")
FALLS = {"vtl": True, "undirected-vtl": False}  # with, and without targets: gains are falls
NATS = 0.01  # information is a difference of logarithms, each of which has an error of about 1e-16
SAME_FALL = 1e-7  # relative, between a gain and a difference of uncertainties


class Blocks:
    """Rows in blocks, read anew for each pass."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return (self.rows[i : i + 7] for i in range(0, len(self.rows), 7))


def fuzz(rng, folder, note):
    """One random problem."""
    rule, kernel = str(rng.choice(list(oracle.RULES))), str(rng.choice(KERNELS))
    note |= {"rule": rule, "kernel": kernel, "form": str(rng.choice(FORMS))}
    pool, targets, options, problem = draw(rng, rule, kernel, note)
    if rule.startswith("itl") and not has_clear_rank(problem):
        return Counter(unclear=1)
    given = stored(pool, note["form"], folder)
    lengthscale = note["lengthscale"]
    kernel = {
        "linear": tm.kernels.Linear,
        "gaussian": lambda: tm.kernels.Gaussian(lengthscale),
        "laplace": lambda: tm.kernels.Laplace(lengthscale),
    }.get(kernel, lambda: tm.kernels.Matern(float(kernel[-3:]), lengthscale))()
    chosen = tm.select(given, targets, rule=rule, kernel=kernel, **options)
    check_picks(problem, chosen, rule, options)
    check_uncertainty(problem, chosen, rule, targets is not None)
    return Counter(picks=len(chosen))


def stored(pool, form, folder):
    """The pool in one of the forms that a user may have it in."""
    paths = [folder / name for name in ("a.npy", "b.npy", "a.csv")]
    np.save(paths[0], pool[:5] if form == "files" else pool)
    np.save(paths[1], pool[5:])
    names = ",".join(f"x{i}" for i in range(pool.shape[1]))
    lines = [",".join(map(repr, row)) for row in pool.tolist()]
    paths[2].write_text("\n".join([names, *lines, ""]))
    forms = {"array": lambda: pool, "tensor": lambda: torch.from_numpy(pool)}
    forms |= {"npy": lambda: paths[0], "files": lambda: paths[:2], "blocks": lambda: Blocks(pool)}
    return (forms | {"csv": lambda: read_records(paths[2]).vectors})[form]()


def draw(rng, rule, kernel, note):
    """The arguments of select, and the problem as the definitions read it."""

    def maybe(share=0.3):
        return bool(rng.random() < share)

    about, n, m = tm.rules.get(rule), int(rng.integers(8, 40)), int(rng.integers(1, 9))
    d, dtype = int(rng.choice([1, 2, 6, 20, 50])), str(rng.choice(["f8", "f8", "f4", "f2"]))
    how = str(rng.choice(["", "", "unit", "center", "center+unit"]))
    is_plain = dtype == "f2" or rule == "local-uncertainty"  # whose definition has a unit
    scale = 1.0 if is_plain else float(10 ** rng.uniform(-3, 3))
    pool = ((rng.standard_normal((n, d)) + 3 * maybe()) * scale).astype(dtype)
    pool[n - 1] = pool[0] if maybe(0.1) else pool[n - 1]
    rows = np.sort(rng.choice(n, size=2 * n // 3, replace=False)) if maybe() else np.arange(n)
    targets = (rng.standard_normal((m, d)) * scale).astype(dtype)
    inside = {None: 0, "some": max(m - 1, 1), "all": m}[targets_in_pool(about)]
    targets[:inside] = pool[rng.choice(rows, size=inside)]
    seen = rng.choice(n, size=3 * maybe(), replace=False)
    outside = (rng.standard_normal((2 * maybe(), d)) * scale).astype(dtype)[
        : 0 if len(seen) else 2
    ]
    lengthscale = float(np.sqrt(d)) * (1.0 if "unit" in how else scale)
    points = np.concatenate([normalized(p, pool, how) for p in (pool, targets, outside)])
    K = covariance(kernel, lengthscale, points)

    ratio = float(10 ** rng.uniform(-4, 1))
    noise = Real(ratio) * np.diag(K)[rows].mean() * np.ones(n, Real)
    options = {"normalize": how or None, "conditional": not maybe(0.2), "noise_ratio": ratio}
    options["columns_ahead"] = [None, 1, 2, 16][rng.integers(4)]
    if maybe():
        varies = rule != "itl-y" and not len(outside) and maybe(0.5)
        std = np.sqrt(noise).astype(float) * rng.uniform(0.3, 3, size=n) ** varies
        options |= {"noise_ratio": None, "noise_std": std if varies else float(std[0])}
        noise = std.astype(Real) ** 2
    more = {}
    if about.weighs_targets and maybe():
        options["target_weights"] = rng.uniform(0.1, 1, size=m)
        more["weights"] = options["target_weights"] / options["target_weights"].sum(dtype=Real)
    if options["conditional"] and rule not in ("cosine", "top-k") and maybe():
        more["replace"] = True
    if not about.is_signed and maybe():
        more["cost"] = rng.uniform(0.2, 3, size=n)
        more |= {"budget": float(rng.uniform(1, 8))} if maybe(0.5) else {}
    if maybe():
        more |= {"groups": rng.integers(0, 5, size=n), "max_per_group": int(rng.integers(1, 4))}
    options |= {name: value for name, value in more.items() if name != "weights"}
    if not about.is_signed and options["conditional"] and maybe(0.2):
        options["min_gain_share"] = float(10 ** rng.uniform(-3, -0.1))
    if len(rows) < n:
        options["candidates"] = rows if maybe(0.5) else np.isin(np.arange(n), rows)
    if len(seen) or len(outside):
        options["observed"] = seen if len(seen) else outside
    options["k"] = int(min(rng.integers(1, 13), len(set(rows.tolist()) - set(seen.tolist()))))
    has_targets = about.needs_targets or maybe(0.5)
    note |= {"n, m, d": (n, m, d), "dtype": dtype, "scale": scale, "lengthscale": lengthscale}
    note |= {"has targets": has_targets, **options}
    more["observed"] = (*map(int, seen), *range(n + m, len(K)))
    more |= {"outside_noise": noise[0], "target_noise": noise[0] if rule == "itl-y" else 0.0}
    problem = oracle.Problem(K, n, m, noise, candidates=rows, **more)
    return pool, targets if has_targets else None, options, problem


def rounding(problem):
    """The share of the first gain by which the library says that gains are rounded."""
    prior = np.diag(problem.K)[: problem.n].mean()
    return TIE_FLOOR + ROUNDING * float(1 + prior / problem.noise.min())


def check_picks(problem, chosen, rule, options):
    """Each pick may be picked, is the best, and has the gain that is stated."""
    picks = chosen.indices.tolist()
    cost = np.ones(problem.n) if problem.cost is None else problem.cost
    cost = cost / cost[problem.candidates].mean()
    scored = oracle.RULES[rule](problem, [])
    least_scale = 1 if tm.rules.get(rule).is_signed else 0  # similarities are sums around 1
    least_scale = NATS if "itl" in rule else least_scale
    largest = np.abs(scored[open_rows(problem, [])]).max(initial=0)
    first = max(largest, least_scale)
    floor = rounding(problem) * first
    margin = TIE_TOLERANCE * first + floor
    least = options["min_gain_share"] * largest if "min_gain_share" in options else -np.inf
    for t in range(len(picks) + 1):
        gains, may = oracle.RULES[rule](problem, picks[:t]), open_rows(problem, picks[:t])
        scored = gains if options["conditional"] else scored
        rivals = may & (gains > least + margin)
        if t == len(picks):
            assert t == options["k"] or not rivals.any(), f"it ended after {t} picks"
            return
        row, gain, true = picks[t], chosen.gains[t], gains[picks[t]]
        assert may[row], f"pick {t}: row {row} may not be picked"
        assert true >= least - margin, f"pick {t}: {true!r} is below the least gain"
        slack = TIE_TOLERANCE * np.abs(true) + floor
        assert np.abs(gain - true) <= slack, f"pick {t}: gain {gain!r}, in truth {true!r}"
        best, score = (scored / cost)[rivals].max(initial=-np.inf), scored[row] / cost[row]
        slack = TIE_TOLERANCE * np.abs(score) + floor / cost.min()
        assert score >= best - slack, f"pick {t}: row {row} scores {score!r}, another {best!r}"


def check_uncertainty(problem, chosen, rule, has_targets):
    """It is the mean variance of the targets, or else of the candidates, after each pick."""
    left, picks = chosen.uncertainty, chosen.indices.tolist()
    floor = rounding(problem) * left[0]
    for t in range(len(picks) + 1):
        variance = np.diag(oracle.posterior(problem, picks[:t]))
        of_rows = variance[problem.candidates].mean()
        true = problem.w @ variance[problem.A] if has_targets else of_rows
        slack = TIE_TOLERANCE * true + floor
        assert np.abs(left[t] - true) <= slack, f"uncertainty {t}: {left[t]!r}, truly {true!r}"
    if FALLS.get(rule) is has_targets:
        same = np.isclose(chosen.gains, -np.diff(left), rtol=SAME_FALL, atol=floor)
        assert same.all(), f"gains {chosen.gains} are not the falls {-np.diff(left)}"
