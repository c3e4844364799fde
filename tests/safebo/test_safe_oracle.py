"""Sets, gains and asks against the slow, obvious version, step by step."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from safe_problems import SEED_ROW, Case, Options, options

import tellmost as tm

ROUNDS = 5
EMPTY = 1e-9


def near_rows(case: Case, last: int) -> np.ndarray:
    if case.options.max_step is None:
        return np.ones(len(case.X), dtype=bool)
    return (np.abs(case.X - case.X[last]) <= case.options.max_step * (1 + 1e-9)).all(axis=1)


def check_sets(case: Case, optimizer: tm.SafeOptimizer, context: float) -> None:
    """Bounds and sets at the context that was told last; each within rounding."""
    case.oracle.X = case.at(context)
    lower, upper = case.oracle.bounds()
    for number, function in enumerate(case.functions):
        for name in function.names:
            found = optimizer.bounds(name)
            np.testing.assert_allclose(found[0], lower[number], rtol=0, atol=1e-8)
            np.testing.assert_allclose(found[1], upper[number], rtol=0, atol=1e-8)
    np.testing.assert_array_equal(optimizer.safe_mask, case.oracle.is_safe(lower, upper))
    may = case.oracle.may_be_safe(lower, upper)
    np.testing.assert_array_equal(optimizer.optimistic_mask, may)


def check_gains(case: Case, now, query: tm.safebo.Query, is_open, pending) -> None:
    """The gains of all open rows, and that the row asked for has the largest."""
    lower, upper = case.oracle.bounds()
    targets = now.targets()
    is_target = case.oracle.maximizers(lower, upper)
    np.testing.assert_array_equal(targets.is_target[now.state.is_candidate].numpy(), is_target)
    wanted = case.oracle.gains(case.options.rule, is_target, pending)
    mask = now.state.is_candidate.clone()
    found = targets.gains(mask, pending)[mask].numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert is_open[query.index]
    is_proven = case.oracle.is_safe(lower, upper)[query.index]
    assert is_proven == (query.purpose != "seed") == (min(query.lower.values()) >= 0)
    best = wanted[is_open].max()
    assert wanted[query.index] >= best - 1e-6 * abs(best) - 1e-9
    check_purpose(case, query, is_target)


def check_purpose(case: Case, query: tm.safebo.Query, is_target: np.ndarray) -> None:
    """It explores if half of the variance that it removes, or more, is where f is safe."""
    if query.purpose == "seed":
        return
    removed, x = np.zeros(is_target.sum()), query.index
    for number, function in enumerate(case.functions):
        _, K = case.oracle.posterior(number, len(case.oracle.told))
        spread = K[x, x] + function.noise_std[x] ** 2
        covariance = K[x, : len(is_target)][is_target]
        removed += covariance**2 / spread / case.oracle.scale(number) ** 2
    is_safe = case.oracle.is_safe(*case.oracle.bounds())[is_target]
    share = removed[is_safe].sum() / removed.sum()
    if abs(share - 0.5) > 1e-6:
        assert query.purpose == ("explore" if share > 0.5 else "expand")


def ask_and_check(case: Case, optimizer: tm.SafeOptimizer, last: int, context, pending) -> int:
    """One ask against the oracle; returns the row to tell of."""
    case.oracle.X = case.at(context)
    lower, upper = case.oracle.bounds()
    now = [context] if case.options.has_context else None
    if (np.subtract(*case.oracle.bounds_everywhere()) > EMPTY).any():
        with pytest.raises(tm.safebo.MiscalibratedModel, match="raise it"):
            optimizer.ask(now, pending)
        return -1
    query = optimizer.ask(now, pending)
    is_near = near_rows(case, last)
    if not (is_near & case.oracle.is_safe(lower, upper)).any():
        assert (query.index, query.purpose) == (SEED_ROW, "seed")
        return query.index
    is_open = is_near & case.oracle.is_safe(lower, upper)
    is_open[SEED_ROW] |= is_near[SEED_ROW] and case.seed_stands(optimizer)
    now = optimizer._rounds.present()
    check_gains(case, now, query, is_open, pending)
    return query.index


def run(case: Case) -> None:
    optimizer = case.optimizer()
    rng = np.random.default_rng(case.options.seed)
    last, context = SEED_ROW, 0.0
    row = SEED_ROW
    for _ in range(ROUNDS):
        case.tell(optimizer, row, context)
        last = row
        check_sets(case, optimizer, context)
        context = float(rng.uniform(0, 0.3)) if case.options.has_context else 0.0
        pending = [int(rng.integers(len(case.X)))] if rng.uniform() < 0.3 else []
        try:
            row = ask_and_check(case, optimizer, last, context, pending)
        except tm.safebo.NoSafePoint:
            lower, upper = case.oracle.bounds()
            is_open = near_rows(case, last) & case.oracle.is_safe(lower, upper)
            assert not (case.seed_stands(optimizer) and near_rows(case, last)[SEED_ROW])
            assert not is_open.any()
            row = int(rng.integers(len(case.X)))
        if row < 0:
            return


CHOSEN = [
    Options(1, constraints=("both", "at_most"), noise="rows", has_data=True),
    Options(2, slope_norm=1, dimension=2, confidence="confidence", rule="itl"),
    Options(3, is_shared=True, is_minimized=True, slope_norm=2, rule="mm-itl"),
    Options(4, has_context=True, has_data=True, noise="function", rule="ctl"),
    Options(5, confidence="rkhs", noise="told", max_step=0.3, rule="itl-y"),
    Options(6, has_context=True, noise="rows", is_shared=True, slope_norm=1, max_step=0.3),
]


@pytest.mark.parametrize("options", CHOSEN, ids=lambda options: str(options.seed))
def test_sets_gains_and_asks_of_chosen_problems_are_those_of_the_oracle(options):
    run(Case(options))


@pytest.mark.parametrize("rule", ["vtl", "itl", "itl-y", "mm-itl", "ctl"])
@settings(max_examples=16, deadline=None)
@given(options=options)
def test_sets_gains_and_asks_are_those_of_the_oracle(rule, options):
    run(Case(replace(options, rule=rule)))


@pytest.mark.parametrize("confidence", ["confidence", "beta"])
def test_expanders_and_level_sets_are_those_of_the_oracle_and_so_are_their_gains(confidence):
    for seed in range(4):
        case = Case(Options(seed, constraints=("both",), confidence=confidence))
        tau = float(case.f[0][SEED_ROW]) + 0.6
        chosen = tm.targets.PotentialExpanders() if seed % 2 else tm.targets.LevelSet(tau)
        optimizer = case.optimizer(chosen)
        for row in (SEED_ROW, 0, SEED_ROW):
            case.tell(optimizer, row, 0.0)
        lower, upper = case.oracle.bounds()
        if seed % 2:
            is_target, outputs = case.oracle.expanders(lower, upper), [1]
        else:
            is_target, outputs = case.oracle.level_set(lower, upper, tau), [0, 1]
        assert is_target.any() and not is_target.all()
        np.testing.assert_array_equal(optimizer.target_mask, is_target)
        wanted = case.oracle.gains("vtl", is_target, [], outputs)
        is_open = case.oracle.is_safe(lower, upper)
        is_open[SEED_ROW] = True
        query = optimizer.ask()
        assert wanted[query.index] >= wanted[is_open].max() * (1 - 1e-9)


def test_a_lipschitz_constant_enlarges_the_safe_set_and_never_shrinks_it():
    for seed in range(6):
        options = Options(seed, constraints=("at_least",), confidence="confidence")
        plain, enlarged = Case(options), Case(replace(options, slope_norm=2))
        before, after = plain.optimizer(), enlarged.optimizer()
        for _ in range(4):
            plain.tell(before, SEED_ROW, 0.0)
            enlarged.tell(after, SEED_ROW, 0.0)
        assert (after.safe_mask >= before.safe_mask).all()
        if after.safe_mask.sum() > before.safe_mask.sum():
            return
    raise AssertionError("no problem in which the constant made a difference")
