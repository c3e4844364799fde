"""Verdicts on runs that are known: each claim can hold, and can fail."""

import numpy as np
import pytest

from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, OPEN
from tellmost_reproduction.safebo import claims as orders
from tellmost_reproduction.safebo import claims as places
from tellmost_reproduction.safebo.claims import CLAIMS
from tellmost_reproduction.safebo.experiments import EXPERIMENTS
from tellmost_reproduction.safebo.methods import BY_KEY, METHODS
from tellmost_reproduction.safebo.process import small_process
from tellmost_reproduction.safebo.records import (
    Experiment,
    Record,
    compare,
    describe,
    describe_rounds,
    rounds_needed,
)
from tellmost_reproduction.safebo.runs import Run
from tellmost_reproduction.safebo.tasks import barriers, bumps, island, third_bump

SEEDS, ROUNDS = 4, 6


def made(levels, *, task=None, violations=None, safe=None, picks=None, **others):
    """Runs that fall from a regret of 1 to a level, by key; nearly the same with every seed."""
    task = bumps() if task is None else task
    keys = [method.key for method in METHODS] if not others else list(levels)
    runs = [
        a_run(
            key,
            seed,
            levels.get(key, 0.5),
            (violations or {}).get(key, 0),
            (safe or {}).get(key, 5),
            (picks or {}).get(key, np.zeros(ROUNDS, dtype=int)),
        )
        for key in keys
        for seed in range(SEEDS)
    ]
    methods = tuple(BY_KEY[key] for key in keys)
    experiment = Experiment("safebo-1d", "", bumps, methods, SEEDS, ())
    return Record(experiment, task, ROUNDS, SEEDS, tuple(runs))


def a_run(key, seed, level, violations, safe, picks):
    regret = np.full(ROUNDS + 1, level + 1e-3 * seed)
    regret[0] = 1.0
    counts, no = np.full(ROUNDS + 1, safe), np.zeros(ROUNDS + 1, dtype=bool)
    counts[0] = min(safe, 1)  # it opens, unless it has one point at the end
    violates = np.arange(ROUNDS) < violations
    seconds = np.ones(ROUNDS)
    return Run(key, seed, picks, regret, counts, 0 * counts, no, violates, seconds)


BY_SLOPE = ("safeopt", "safeopt-estimated", "goose", "goose-estimated")
GOOD = {"itl": 0.2, "vtl": 0.1}
CASES = [
    (orders.on_par, GOOD, {"itl": 0.9, "vtl": 0.9}),
    (orders.vtl_ahead, GOOD, {"itl": 0.1, "vtl": 0.2}),
    (orders.safeopt_slower, GOOD, {"itl": 0.9, "vtl": 0.9}),
    (orders.heuristic_fails, {"heuristic-safeopt": 0.9}, {"heuristic-safeopt": 0.1}),
    (
        orders.goose_fails,
        {"goose-oracle": 0.9, "goose-estimated": 0.9},
        {"goose-oracle": 0.1, "goose-estimated": 0.1},
    ),
    (orders.ise_worse, {"ise": 0.9}, {"ise": 0.1}),
    (orders.thompson_better, {"itl": 0.9, "itl-thompson": 0.1}, GOOD),
    (orders.thompson_worse, GOOD, {"itl": 0.9, "itl-thompson": 0.1}),
    (orders.ise_bo_never_better, GOOD | {"ise-bo": 0.01}, {"ise-bo-draws": 0.1}),
]


@pytest.mark.parametrize(
    ("claim", "holds", "fails"), CASES, ids=[claim.__name__ for claim, *_ in CASES]
)
def test_a_claim_about_order_holds_or_fails_by_the_runs(claim, holds, fails):
    assert claim(made(holds)).holds == HOLDS
    assert claim(made(fails)).holds == FAILS


def test_methods_that_never_leave_the_start_are_no_opponents():
    rivals = {"safeopt-oracle": 1, "safeopt-estimated": 1, "goose-oracle": 1, "goose-estimated": 1}
    found = orders.on_par(made({"itl": 0.2, "vtl": 0.1}, safe=rivals))
    assert found.holds == HOLDS and "Comparisons: 6 won, 0 on par, 0 lost" in found.finding
    assert "never leave the start: SafeOpt, oracle L, SafeOpt, est. L, GoOSE" in found.finding
    assert "Not compared" not in orders.on_par(made(GOOD)).finding


def test_slopes_fail_if_none_of_the_methods_by_slope_opens():
    task = small_process()
    shut = dict.fromkeys(BY_SLOPE, 1)
    found = orders.slopes_fail(made({}, task=task, safe=shut))
    assert found.holds == HOLDS and "0 of 4 ever learn" in found.finding
    assert orders.slopes_fail(made({}, task=task)).holds == FAILS
    assert orders.slopes_fail(made({}, task=task, safe=shut | {"goose": 9})).holds == IN_PART


def test_nothing_is_judged_of_rules_that_never_leave_the_start():
    kept = {"itl": 1, "vtl": 1}
    found = {v.claim: v.holds for v in orders.judge(made({}, safe=kept))}
    assert list(found.values()).count(OPEN) == len(orders.ABOUT_OURS)
    assert found["Heuristic SafeOpt fails"] != OPEN
    assert OPEN not in {v.holds for v in orders.judge(made({}, safe=kept | {"vtl": 2}))}


def test_a_claim_that_is_true_of_one_of_two_methods_holds_in_part():
    assert orders.on_par(made({"itl": 0.2, "vtl": 0.9})).holds == IN_PART
    assert orders.goose_fails(made({"goose-oracle": 0.1, "goose-estimated": 0.9})).holds == IN_PART
    found = orders.on_par(made({"itl": 0.2, "vtl": 0.9})).finding
    assert "VTL 0.901 against ISE 0.501" in found


def test_a_difference_that_seeds_explain_is_not_clear():
    record = made({"itl": 0.5, "vtl": 0.5})
    one = compare(record, "vtl", "itl")
    assert not one.is_better and not one.is_worse and "not clear" in describe(one)
    assert orders.vtl_ahead(record).holds == FAILS


def test_rounds_are_counted_until_a_regret_stays_low():
    record = made({"itl": 0.1, "vtl": 0.9})
    assert rounds_needed(record, "itl", 0.5) == [1] * SEEDS
    assert rounds_needed(record, "vtl", 0.5) == [None] * SEEDS
    assert "after 1 rounds" in describe_rounds(record, "itl", 0.5)
    assert "none of 4 seeds" in describe_rounds(record, "vtl", 0.5)


def test_safety_is_claimed_of_our_rules_alone():
    assert places.stay_safe(made({}, violations={"eic": 2})).holds == HOLDS
    assert places.stay_safe(made({}, violations={"vtl": 1})).holds == IN_PART
    assert places.stay_safe(made({}, violations={"itl": 1, "vtl": 1})).holds == FAILS
    assert "EIC (unsafe) 8" in places.stay_safe(made({}, violations={"eic": 2})).finding


def test_eic_must_violate_for_the_claim_about_it_to_hold():
    assert places.eic_violates(made({}, violations={"eic": 2})).holds == HOLDS
    assert places.eic_violates(made({})).holds == FAILS
    assert places.eic_violates(made({}, violations={"vtl": 1})).holds == FAILS


def test_the_safe_set_stays_the_seed_where_nothing_else_is_measured():
    moving = {"safeopt-oracle": np.arange(ROUNDS)}
    assert places.never_opens(made({})).holds == HOLDS
    found = places.never_opens(made({}, picks=moving | {"eic": np.arange(ROUNDS)}))
    assert found.holds == IN_PART and "15 of 16 methods" in found.finding
    assert "SafeOpt, oracle L in 4 of 4 runs" in found.finding and "EIC" not in found.finding
    everywhere = dict.fromkeys([method.key for method in METHODS], np.arange(ROUNDS))
    assert places.never_opens(made({}, picks=everywhere)).holds == FAILS


def test_sizes_match_regrets_if_their_ranks_are_reversed():
    levels = {method.key: 0.05 * i for i, method in enumerate(METHODS)}
    sizes = {key: 100 - i for i, key in enumerate(levels)}
    assert places.size_matches(made(levels, safe=sizes)).holds == HOLDS
    same = {key: 100 + i for i, key in enumerate(levels)}
    assert places.size_matches(made(levels, safe=same)).holds == FAILS


def test_methods_focus_if_they_measure_where_the_objective_is_high():
    task = island()
    high = np.full(ROUNDS, task.optimum)
    low = np.full(ROUNDS, int(task.f.argmin()))
    good = {"itl-thompson": high, "goose-oracle": high, "itl": low, "safeopt-oracle": low}
    levels = dict.fromkeys(good, 0.5)
    # seeds do not differ here, so a difference has no error and is clear
    assert places.focus(made(levels, task=task, picks=good, some=True)).holds == HOLDS
    bad = {key: low if picks is high else high for key, picks in good.items()}
    assert places.focus(made(levels, task=task, picks=bad, some=True)).holds == FAILS


def test_jumping_is_judged_by_the_safe_set_at_the_end(monkeypatch):
    task = barriers()
    keys = ("itl-expanders", "safeopt-expanders", "safeopt", "goose")
    top = int(np.abs(task.domain[:, 0] - np.pi / 2 * 1.0).argmin())
    far = int(np.flatnonzero(third_bump(task))[25])
    known = {"itl-expanders": np.full(ROUNDS, far)}
    edge = int(np.abs(task.domain[:, 0] - 3 * np.pi).argmin())
    others = dict.fromkeys(keys[1:], np.full(ROUNDS, edge))
    record = made(dict.fromkeys(keys, 0.0), task=task, picks=known | others, some=True)
    found = places.jump(record)
    assert found.holds == HOLDS and "0 of 4 seeds, 0% of it" in found.finding
    assert places.adapt(record).holds == HOLDS  # the sine is 0.9991 there
    swapped = {"itl-expanders": np.full(ROUNDS, edge)} | dict.fromkeys(
        keys[1:], np.full(ROUNDS, top)
    )
    record = made(dict.fromkeys(keys, 0.0), task=task, picks=swapped, some=True)
    assert places.jump(record).holds == IN_PART  # neither gets there
    assert places.adapt(record).holds == FAILS


def test_every_experiment_has_claims_whose_methods_it_runs():
    assert set(CLAIMS) <= set(EXPERIMENTS)
    for name in ("safebo-1d", "safebo-2d", "safebo-quadcopter"):
        keys = {method.key for method in EXPERIMENTS[name].methods}
        assert keys == {method.key for method in METHODS}
    for name in EXPERIMENTS:
        assert places.stay_safe in CLAIMS[name]
    for name in ("safebo-1d", "safebo-2d", "safebo-quadcopter", "safebo-quadcopter-text"):
        assert orders.on_par in CLAIMS[name] and places.stay_safe in CLAIMS[name]
