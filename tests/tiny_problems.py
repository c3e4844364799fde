"""Random problems so small that everything about them can be enumerated."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from problems import KERNELS, Case, make_case, seeds

RULES = ("itl", "vtl", "mm-itl")

kernels = st.sampled_from(KERNELS)
rules = st.sampled_from(RULES)
noise_shares = st.sampled_from([0.1, 0.5, 2.0])
__all__ = ["RULES", "inside", "kernels", "noise_shares", "repeated", "rules", "seeds", "tiny"]


def tiny(seed: int, kernel: str, *, noise_share: float = 0.5, n: int = 4, m: int = 2) -> Case:
    """Some samples, some targets elsewhere, noise that differs from sample to sample."""
    return make_case(
        seed, kernel=kernel, n=n, m=m, d=3, noise_share=noise_share, per_point_noise=True
    )


def inside(case: Case) -> Case:
    """The same with every sample among the targets, after the other ones."""
    n, m = case.oracle.n, case.oracle.m
    order = [*range(n + m), *range(n)]
    targets = np.concatenate([case.targets, case.pool])
    problem = replace(case.oracle, K=case.oracle.K[np.ix_(order, order)], m=m + n)
    return replace(case, targets=targets, oracle=problem)


def repeated(case: Case) -> Case:
    """The same with the first sample there twice."""
    n = case.oracle.n
    order = [*range(n), 0, *range(n, len(case.oracle.K))]
    noise = case.oracle.noise[[*range(n), 0]]
    problem = replace(case.oracle, K=case.oracle.K[np.ix_(order, order)], n=n + 1, noise=noise)
    arguments = case.arguments | {"noise_std": np.sqrt(noise)}
    pool = np.concatenate([case.pool, case.pool[:1]])
    return replace(case, pool=pool, oracle=problem, arguments=arguments)
