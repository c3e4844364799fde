"""Every rule, kernel and option against the dense float64 definitions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import (
    KERNELS,
    Case,
    clustered,
    for_rule,
    has_clear_rank,
    kernel_pair,
    make_case,
    picks_as_a_list,
    rule_object,
    seeds,
)
from tellmost.posterior.weight_space import Start

RULES = list(oracle.RULES)
CONDITIONING = [rule for rule in RULES if rule not in ("cosine", "top-k")]


def check_against_oracle(case: Case, rule: str, k: int | None, **more) -> None:
    """Each pick is the oracle's best given the picks before it, and its gain is the oracle's."""
    chosen = case.select(k, rule_object(case, rule), **more)
    relative = 1e-9 if case.noise_share >= 0.05 else 1e-6
    eligible = oracle.Eligible(case.oracle)
    first = None
    for index, gain in zip(chosen.indices, chosen.gains, strict=True):
        gains = oracle.RULES[rule](case.oracle, eligible.picks)
        mask = eligible.mask()
        assert mask[index], "a row was picked that no option allows"
        scores = gains if case.oracle.cost is None else gains / case.oracle.cost
        first = abs(gains[index]) if first is None else first
        slack = relative * abs(gains[index]) + 1e-12 * first
        assert gain == pytest.approx(gains[index], abs=slack)
        assert scores[index] >= scores[mask].max() - relative * abs(scores[index]) - 1e-12 * first
        eligible.picks.append(int(index))
    scale = chosen.uncertainty[0]
    for t in range(len(chosen) + 1):
        expected = oracle.weighted_uncertainty(case.oracle, eligible.picks[:t])
        assert chosen.uncertainty[t] == pytest.approx(expected, rel=relative, abs=1e-12 * scale)


@pytest.mark.parametrize("rule", RULES)
@given(
    seed=seeds,
    kernel=st.sampled_from(KERNELS),
    noise_share=st.sampled_from([0.05, 0.3, 1.0, 10.0]),
    d=st.sampled_from([2, 6, 40]),
    m=st.sampled_from([1, 4, 9]),
    per_point_noise=st.booleans(),
    observed=st.sampled_from([0, 3]),
    some_candidates=st.booleans(),
    weighted=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_picks_and_gains_are_the_oracles(rule, **options):
    case = for_rule(make_case(**options), rule)
    assume(has_clear_rank(case))
    check_against_oracle(case, rule, 7)


@pytest.mark.parametrize("rule", CONDITIONING)
@given(
    seed=seeds, kernel=st.sampled_from(KERNELS), noise_share=st.sampled_from([1e-4, 1e-3, 0.01])
)
@settings(max_examples=12, deadline=None)
def test_small_noise_keeps_six_digits(rule, **options):
    case = for_rule(make_case(m=3, **options), rule)
    assume(has_clear_rank(case))
    check_against_oracle(case, rule, 8)


@pytest.mark.parametrize("rule", CONDITIONING)
@given(seed=seeds, kernel=st.sampled_from(KERNELS), outside=st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_points_observed_outside_the_pool_are_conditioned_on(rule, **options):
    check_against_oracle(for_rule(make_case(**options), rule), rule, 5)


@pytest.mark.parametrize("rule", CONDITIONING)
@given(seed=seeds, kernel=st.sampled_from(KERNELS), per_point_noise=st.booleans())
@settings(max_examples=10, deadline=None)
def test_repeats_are_a_multiset(rule, **options):
    case = for_rule(make_case(n=6, **options), rule)
    case = replace(case, oracle=replace(case.oracle, replace=True))
    check_against_oracle(case, rule, 15, replace=True)


@pytest.mark.parametrize(
    "rule",
    [
        "vtl",
        "itl",
        "itl-y",
        "mm-itl",
        "truvar",
        "local-uncertainty",
        "uncertainty",
        "undirected-itl",
        "undirected-vtl",
        "k-center",
    ],
)
@given(seed=seeds, kernel=st.sampled_from(KERNELS), some_candidates=st.booleans())
@settings(max_examples=10, deadline=None)
def test_costs_rank_by_gain_per_cost_within_the_budget(rule, seed, **options):
    case = for_rule(make_case(seed, **options), rule)
    cost = np.random.default_rng(seed).uniform(0.2, 3.0, size=case.oracle.n)
    case = replace(case, oracle=replace(case.oracle, cost=cost, budget=6.0))
    check_against_oracle(case, rule, None, cost=cost, budget=6.0)


@pytest.mark.parametrize("rule", CONDITIONING)
@given(seed=seeds, kernel=st.sampled_from(KERNELS))
@settings(max_examples=10, deadline=None)
def test_groups_are_capped(rule, seed, **options):
    case = for_rule(make_case(seed, **options), rule)
    groups = np.random.default_rng(seed).integers(0, 5, size=case.oracle.n)
    case = replace(case, oracle=replace(case.oracle, groups=groups, max_per_group=2))
    check_against_oracle(case, rule, 8, groups=groups, max_per_group=2)


@pytest.mark.parametrize("rule", CONDITIONING)
@given(
    seed=seeds,
    noise_ratio=st.sampled_from([0.01, 0.1, 1.0]),
    kernel=st.sampled_from(KERNELS),
)
@settings(max_examples=10, deadline=None)
def test_float32_pools_are_picked_from_as_float64_ones(rule, seed, noise_ratio, kernel):
    case = make_case(seed, kernel=kernel, noise_share=noise_ratio**0.5, dtype=np.float32, n=40)
    case = for_rule(case, rule)
    assume(has_clear_rank(case))
    chosen = case.select(12, rule_object(case, rule))
    first = None
    for t, index in enumerate(chosen.indices):
        gains = oracle.RULES[rule](case.oracle, picks_as_a_list(chosen)[:t])
        gains[chosen.indices[:t]] = -np.inf
        first = gains.max() if first is None else first
        if gains.max() < 1e-3 * first:
            break
        assert gains[index] >= gains.max() - 1e-5 * abs(gains.max())


@pytest.mark.parametrize("rule", CONDITIONING)
@given(
    seed=seeds,
    kernel=st.sampled_from(KERNELS),
    d=st.sampled_from([6, 40]),
    observed=st.sampled_from([0, 3]),
    with_targets=st.booleans(),
)
@settings(max_examples=8, deadline=None)
def test_top_b_picks_by_first_score_and_reports_marginal_gains(rule, with_targets, **options):
    case = for_rule(make_case(**options), rule)
    targets = case.targets if with_targets or tm.rules.get(rule).needs_targets else None
    case = replace(case, targets=targets)
    chosen = case.select(5, rule_object(case, rule), conditional=False)
    scores = oracle.RULES[rule](case.oracle, [])
    scores[list(case.oracle.observed)] = -np.inf
    for t, index in enumerate(chosen.indices):
        assert scores[index] >= scores.max() - 1e-8 * abs(scores.max())
        scores[index] = -np.inf
        expected = oracle.RULES[rule](case.oracle, picks_as_a_list(chosen)[:t])[index]
        assert chosen.gains[t] == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("rule", ["vtl", "undirected-vtl"])
@given(
    kernel=st.sampled_from(KERNELS),
    d=st.sampled_from([3, 40]),
    observed=st.sampled_from([0, 3]),
    some_candidates=st.booleans(),
    per_point_noise=st.booleans(),
    weighted=st.booleans(),
    seed=seeds,
    more=st.fixed_dictionaries(
        {},
        optional={
            "conditional": st.just(False),
            "replace": st.just(True),
            "normalize": st.sampled_from(["unit", "center", "center+unit"]),
            "cost": st.just(np.linspace(1.0, 3.0, 24)),
            "groups": st.just(np.arange(24) % 5),
            "columns_ahead": st.sampled_from([1, 16]),
            "min_gain_share": st.just(1e-3),
        },
    ),
)
@settings(max_examples=40, deadline=None)
def test_gains_are_what_the_uncertainty_falls_by(rule, more, weighted, **options):
    if "groups" in more:
        more["max_per_group"] = 2
    if "conditional" in more:
        more = {name: more[name] for name in more if name not in ("replace", "min_gain_share")}
    case = make_case(weighted=weighted and rule == "vtl", **options)
    chosen = tm.select(
        case.pool, case.targets if rule == "vtl" else None, 7, rule=rule, **case.arguments, **more
    )
    falls = -np.diff(chosen.uncertainty)
    scale = chosen.uncertainty[0]
    np.testing.assert_allclose(chosen.gains, falls, rtol=1e-7, atol=1e-12 * scale)


def measured_case(seed, kernel, d, is_weighted, observed) -> Case:
    """Targets of two of six clusters, as examples, and the oracle's weighted points."""
    pool, targets = clustered(40, d, 6, seed, dtype=np.float64)
    ours, theirs = kernel_pair(kernel, d)
    rng = np.random.default_rng(seed)
    seen = rng.choice(40, size=observed, replace=False)
    w = rng.uniform(0.2, 1.0, size=6) if is_weighted else np.full(6, 1 / 6)
    w /= w.sum()
    arguments = {"kernel": ours, "noise_std": 0.5 * d**0.5, "targets_are": "examples"}
    arguments |= {"observed": seen, "target_weights": w, "candidates": np.arange(1, 40)}
    chosen = tm.select(pool, targets, 1, **arguments)
    assume(chosen.settings["targets_are"] == "examples")
    everything = np.concatenate([pool, targets])
    Z = np.concatenate([pool, everything])
    K = oracle.matrix(theirs, Z, Z)
    to_targets = K[40:, -6:]
    distances = np.diag(K)[40:, None] - 2 * to_targets + np.diag(K)[-6:]
    distances = np.where(distances > 1e-12 * np.diag(K)[-6:], distances, 0.0)
    measure = oracle.Examples(distances, w).measure(chosen.settings["examples"]["bandwidth"])
    problem = oracle.Problem(
        K=K,
        n=40,
        m=46,
        noise=np.full(40, 0.25 * d),
        weights=measure,
        observed=tuple(map(int, seen)),
        candidates=np.arange(1, 40),
    )
    return Case(pool, targets, arguments, problem, 0.5)


@pytest.mark.parametrize("rule", ["vtl", "ctl", "mm-itl"])
@settings(max_examples=40, deadline=None)
@given(
    seed=seeds,
    kernel=st.sampled_from(KERNELS),
    d=st.sampled_from([3, 20, 100]),
    is_weighted=st.booleans(),
    observed=st.sampled_from([0, 3]),
)
def test_targets_as_examples_are_weighted_targets(rule, seed, kernel, d, is_weighted, observed):
    case = measured_case(seed, kernel, d, is_weighted, observed)
    check_against_oracle(case, rule, 6)
    chosen = case.select(6, rule)
    for when, picks in ((0, []), (1, picks_as_a_list(chosen))):
        left = np.diag(oracle.posterior(case.oracle, picks))[-6:]
        assert chosen.target_variance[when] == pytest.approx(left, rel=1e-8, abs=1e-12)


@given(seed=seeds, d=st.sampled_from([12, 30]), observed=st.sampled_from([0, 3]))
@settings(max_examples=8, deadline=None)
def test_values_that_begin_in_float32_choose_the_same(seed, d, observed):
    case, exactly = measured_case(seed, "linear", d, False, observed), Start.by_triangle
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tellmost.posterior.weight_space.TRIANGLE_STEP", 4)
        patch.setattr(Start, "by_triangle", lambda start, is_rough: exactly(start, is_rough=True))
        check_against_oracle(case, "vtl", 12)
