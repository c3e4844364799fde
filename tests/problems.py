"""Random problems: the same one for Tellmost and for the oracle."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from hypothesis import strategies as st

import oracle
import tellmost as tm
from tellmost.rows.pool import Pool
from tellmost.rules import targets_in_pool

KERNELS = ("linear", "gaussian", "matern")


def kernel_pair(name: str, d: int):
    """A kernel of ours and the oracle's, with points neither far apart nor close together."""
    scale = float(np.sqrt(d))
    return {
        "linear": (tm.kernels.Linear(), oracle.linear),
        "gaussian": (tm.kernels.Gaussian(scale), lambda x, z: oracle.gaussian(x, z, scale)),
        "matern": (tm.kernels.Matern(1.5, scale), lambda x, z: oracle.matern(x, z, 1.5, scale)),
    }[name]


def clustered(n: int, d: int, m: int, seed: int = 0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((6, d))
    pool = centres[rng.integers(6, size=n)] + 0.6 * rng.standard_normal((n, d))
    targets = centres[rng.integers(2, size=m)] + 0.6 * rng.standard_normal((m, d))
    return pool.astype(dtype), targets.astype(dtype)


@dataclass(frozen=True)
class Case:
    """Arguments of select, and the oracle's view of them."""

    pool: np.ndarray
    targets: np.ndarray
    arguments: dict
    oracle: oracle.Problem
    noise_share: float  # noise standard deviation in units of the prior's

    def select(self, k: int | None, rule, **more) -> tm.Selection:
        return tm.select(self.pool, self.targets, k, rule=rule, **{**self.arguments, **more})


def make_case(
    seed: int,
    *,
    kernel: str = "linear",
    n: int = 24,
    m: int = 4,
    d: int = 6,
    noise_share: float = 0.3,
    per_point_noise: bool = False,
    observed: int = 0,
    outside: int = 0,
    some_candidates: bool = False,
    weighted: bool = False,
    dtype: type = np.float64,
) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    A = rng.standard_normal((m, d)).astype(dtype)
    O = rng.standard_normal((outside, d)).astype(dtype)  # noqa: E741
    ours, theirs = kernel_pair(kernel, d)
    Z = np.concatenate([X, A, O]).astype(np.float64)
    K = oracle.matrix(theirs, Z, Z)
    candidates = (
        np.sort(rng.choice(n, size=2 * n // 3, replace=False)) if some_candidates else None
    )
    rows = np.arange(n) if candidates is None else candidates
    std = noise_share * np.sqrt(np.diag(K)[rows].mean())
    stds = std * rng.uniform(0.5, 2.0, size=n) if per_point_noise else np.full(n, std)
    seen = rng.choice(n, size=observed, replace=False)
    weights = rng.uniform(0.1, 1.0, size=m) if weighted else None
    problem = oracle.Problem(
        K=K,
        n=n,
        m=m,
        noise=stds**2,
        outside_noise=std**2,
        weights=None if weights is None else weights / weights.sum(),
        observed=(*map(int, seen), *range(n + m, n + m + outside)),
        candidates=candidates,
    )
    arguments = {"kernel": ours, "noise_std": stds if per_point_noise else std}
    if outside:
        arguments["observed"] = O
    elif observed:
        arguments["observed"] = seen
    if candidates is not None:
        arguments["candidates"] = candidates
    if weights is not None:
        arguments["target_weights"] = weights
    return Case(X, A, arguments, problem, noise_share)


def for_rule(case: Case, rule: str) -> Case:
    """The case with what only this rule needs: a target noise, no weights, targets inside."""
    if rule == "itl-y":
        case = replace(case, oracle=replace(case.oracle, target_noise=case.oracle.outside_noise))
    if not tm.rules.get(rule).weighs_targets:
        case.arguments.pop("target_weights", None)
        case = replace(case, oracle=replace(case.oracle, weights=None))
    return case if targets_in_pool(tm.rules.get(rule)) is None else moved_inside(case, rule)


def moved_inside(case: Case, rule: str) -> Case:
    """The case with candidates in the place of targets, all of them or some."""
    problem = case.oracle
    rows = np.arange(problem.n) if problem.candidates is None else problem.candidates
    order = np.arange(len(problem.K))
    count = number_inside(rule, problem.m)
    order[problem.n : problem.n + count] = rows[:count]
    K = problem.K[np.ix_(order, order)]
    targets = targets_for(rule, case.pool, case.targets, rows)
    return replace(case, targets=targets, oracle=replace(problem, K=K))


def number_inside(rule: str, m: int) -> int:
    """How many of m targets are to be candidates."""
    wanted = targets_in_pool(tm.rules.get(rule))
    return {None: 0, "some": max(m - 1, 1), "all": m}[wanted]


def targets_for(rule: str, pool, targets, rows=None):
    """The targets; for a rule that needs them in the pool, with rows of it in their place."""
    if targets.ndim == 1:
        targets = targets[None]
    count = number_inside(rule, len(targets))
    if count == 0:
        return targets
    rows = np.arange(len(pool)) if rows is None else rows
    inside = pool[np.resize(rows, count)]
    join = torch.cat if isinstance(pool, torch.Tensor) else np.concatenate
    return join([inside, targets[count:]])


def rule_object(case: Case, rule: str):
    """By name, except where the rule has to be told the noise of the targets."""
    if rule == "itl-y":
        return tm.rules.ITL(about="y", target_noise_std=float(np.sqrt(case.oracle.outside_noise)))
    return rule


def has_clear_rank(case: Case) -> bool:
    """True if no eigenvalue of K_AA lies so near the rank tolerance that rounding decides."""
    A = case.oracle.A
    values = np.linalg.eigvalsh(case.oracle.K[np.ix_(A, A)])
    share = np.abs(values) / values.max()
    return not np.any((share > 1e-13) & (share < 1e-6))


seeds = st.integers(0, 2**32 - 1)


def picks_as_a_list(chosen: tm.Selection) -> list[int]:
    return [int(i) for i in chosen.indices]


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array))


def sizes_of_blocks(monkeypatch) -> list[int]:
    """A list to which every pool adds the size of each block of rows that it reads from now on."""
    sizes, share = [], Pool._share

    def noted(self, work, in_turn=None, most=None):
        def note(start, stop, rows):
            sizes.append(stop - start)
            return work(start, stop, rows)

        share(self, note, in_turn, most)

    monkeypatch.setattr(Pool, "_share", noted)
    return sizes
