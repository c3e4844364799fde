"""Other methods of safe optimization against the slow, obvious version, step by step."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safe_problems import SEED_ROW, Case, Options

import oracle_baselines as slow
import tellmost as tm
from tellmost.safebo import CoordinateLines, baselines
from tellmost.safebo.baselines import (
    expected_improvement,
    find_expanders,
    find_expanders_by_slope,
    find_incumbent,
    find_maximizers,
    max_value_information,
    safety_information,
)
from tellmost.safebo.bounds import probability_safe
from tellmost.safebo.strategies import Choice, RoundView

EXAMPLES = 15
ROUNDS = 5
DRAWS = 4
BY_SLOPES = [baselines.SafeOpt(), baselines.GoOSE(), baselines.GoOSE(epsilon=0.5)]
BY_BOUNDS = [
    baselines.HeuristicSafeOpt(),
    baselines.ISE(),
    baselines.ISEBO(draws=DRAWS),
    baselines.ISEBO(draws=DRAWS, fstar="safe draws"),
    baselines.SafeUCB(),
    baselines.SafeUncertainty(),
    baselines.SafeRandom(),
]
SAFE = [*BY_SLOPES, *BY_BOUNDS]

problems = st.builds(
    Options,
    seed=st.integers(0, 2**32 - 1),
    dimension=st.sampled_from([1, 2]),
    constraints=st.lists(
        st.sampled_from(["at_least", "at_most", "both"]), min_size=1, max_size=2
    ).map(tuple),
    is_shared=st.booleans(),
    is_minimized=st.booleans(),
    confidence=st.sampled_from(["confidence", "beta", "schedule"]),
    noise=st.sampled_from(["even", "rows", "told"]),
    has_data=st.booleans(),
    max_step=st.sampled_from([None, None, 0.4]),
    steepness=st.sampled_from([0.5, 1.5, 4.0]),
)


def score(case: Case, optimizer, strategy, slopes, is_open) -> np.ndarray:
    """What the slow version says of every row; all alike: any will do."""
    safe, seeds = case.oracle, [SEED_ROW]
    lower, upper = slow.bounds_at(safe, len(safe.told))
    match strategy:
        case baselines.SafeOpt():
            return slow.safeopt(safe, slopes, seeds, is_open)
        case baselines.GoOSE():
            return slow.goose(safe, slopes, seeds, is_open, strategy.epsilon)
        case baselines.HeuristicSafeOpt():
            return slow.heuristic_safeopt(safe, is_open)
        case baselines.ISE():
            return slow.only(is_open, slow.sign_information(safe))
        case baselines.ISEBO():
            best = drawn_best(safe, optimizer, strategy.fstar)
            exploring = slow.max_value_information(safe, best)
            return slow.only(is_open, np.maximum(slow.sign_information(safe), exploring))
        case baselines.SafeUCB():
            return slow.only(is_open, slow.rising(safe, lower, upper)[1])
        case baselines.SafeUncertainty():
            return slow.only(is_open, slow.widths(safe, lower, upper))
        case baselines.EIC():
            return slow.eic(safe, is_open)
    return slow.only(is_open, np.zeros(len(is_open)))


def view_of(optimizer: tm.SafeOptimizer) -> RoundView:
    now = optimizer._rounds.present()
    return RoundView(now.state, now.state.is_candidate, now.seed)


def drawn_best(safe, optimizer, fstar: str = "safe set") -> np.ndarray:
    """The same draws: how they are made is tested with the posterior."""
    view, n = view_of(optimizer), len(safe.X)
    if fstar == "safe draws":
        drawn, margins = (one[:, :n].numpy() for one in view.state.draw(DRAWS, view.generator))
        rising = np.where(margins >= 0, drawn * (-1 if safe.is_minimized else 1), -np.inf)
        return rising.max(axis=1)[(margins >= 0).any(axis=1)]
    is_safe = torch.zeros(len(view.is_open), dtype=torch.bool)
    is_safe[: len(safe.X)] = torch.from_numpy(safe.is_safe(*slow.bounds_at(safe, len(safe.told))))
    drawn = view.state.posteriors[0].belief.sample_rows(DRAWS, view.generator, is_safe).numpy()
    return (drawn * safe.scale(0) * (-1 if safe.is_minimized else 1)).max(axis=1)


def find_open(case: Case, optimizer, is_safe: np.ndarray, last: int) -> np.ndarray:
    """The seed alone, where nothing is known to be safe."""
    step = case.options.max_step or np.inf
    is_near = (np.abs(case.X - case.X[last]) <= step * (1 + 1e-9)).all(axis=1)
    if not (is_near & is_safe).any():
        return np.arange(len(case.X)) == SEED_ROW
    is_open = is_near & is_safe
    is_open[SEED_ROW] |= is_near[SEED_ROW] and case.seed_stands(optimizer)
    return is_open


def walk(options: Options, strategy) -> None:
    """Some rounds, each checked; told values may prove the model wrong, which ends the walk."""
    case = Case(options)
    slopes = [limit.slope for limit in case.oracle.limits]
    case.oracle.limits = [replace(limit, slope=None) for limit in case.oracle.limits]
    optimizer = case.optimizer(strategy=strategy)
    if not case.seed_stands(optimizer):
        return  # the prior's data speak against the seed
    assert optimizer.ask().index == SEED_ROW
    row = SEED_ROW
    for _ in range(ROUNDS):
        case.tell(optimizer, row, 0.0)
        lower, upper = slow.bounds_at(case.oracle, len(case.oracle.told))
        is_safe = case.oracle.is_safe(lower, upper)
        if strategy in BY_SLOPES:
            is_safe = slow.grow(case.oracle, slopes, [SEED_ROW])[-1].is_safe
        np.testing.assert_array_equal(optimizer.safe_mask, is_safe)
        try:
            query = optimizer.ask()
        except (tm.safebo.MiscalibratedModel, tm.safebo.NoSafePoint):
            return
        check_expanders(case, optimizer, strategy, slopes)
        is_open = find_open(case, optimizer, is_safe, row)
        if not (is_open & is_safe).any():
            assert (query.index, query.purpose) == (SEED_ROW, "seed")
        else:
            scores = score(case, optimizer, strategy, slopes, is_open)
            check_choice(query, scores)
            if query.purpose != "seed":
                check_purpose(case, optimizer, strategy, query, is_safe, scores)
        assert (query.purpose != "seed") == bool(is_safe[query.index])
        assert query.purpose == "seed" or min(query.lower.values()) >= 0
        row = query.index


def check_expanders(case: Case, optimizer, strategy, slopes) -> None:
    """All of them, also where a maximizer is chosen."""
    view, n = view_of(optimizer), len(case.X)
    if isinstance(strategy, baselines.SafeOpt):
        now = slow.grow(case.oracle, slopes, [SEED_ROW])[-1]
        wanted = slow.slope_expanders(case.oracle, slopes, now)
        np.testing.assert_array_equal(find_expanders_by_slope(view)[:n].numpy(), wanted)
    if isinstance(strategy, baselines.HeuristicSafeOpt):
        rows = view.is_safe.nonzero()[:, 0]
        wanted = slow.imagined_expanders(case.oracle)[rows]
        np.testing.assert_array_equal(find_expanders(view.state, rows).numpy(), wanted)


def check_purpose(case: Case, optimizer, strategy, query, is_safe, scores) -> None:
    """What the row is for; ISE-BO alone compares two numbers, which rounding may make equal."""
    safe, row = case.oracle, query.index
    lower, upper = slow.bounds_at(safe, len(safe.told))
    match strategy:
        case baselines.SafeOpt() | baselines.HeuristicSafeOpt():
            explores = slow.maximizers(safe, lower, upper, is_safe)[row]
        case baselines.GoOSE():
            explores = scores[row] == 0.0  # the goal itself; a point on the way has its width
        case baselines.ISEBO():
            best = drawn_best(safe, optimizer, strategy.fstar)
            exploring = slow.max_value_information(safe, best)[row]
            expanding = slow.sign_information(safe)[row]
            if abs(exploring - expanding) < 1e-5:
                return
            explores = exploring > expanding
        case _:
            explores = not isinstance(strategy, baselines.ISE)
    assert query.purpose == ("explore" if explores else "expand")


def check_choice(query, scores: np.ndarray) -> None:
    best = scores.max()
    assert scores[query.index] >= best - 1e-6 * abs(best) - 1e-12


@pytest.mark.parametrize("strategy", BY_SLOPES, ids=lambda one: type(one).__name__)
@settings(max_examples=EXAMPLES, deadline=None)
@given(options=problems, norm=st.sampled_from([1, 2]))
def test_a_method_by_slopes_chooses_what_the_oracle_does(strategy, options, norm):
    walk(replace(options, slope_norm=norm), strategy)


@pytest.mark.parametrize("strategy", BY_BOUNDS, ids=lambda one: type(one).__name__)
@settings(max_examples=EXAMPLES, deadline=None)
@given(options=problems)
def test_a_method_by_bounds_chooses_what_the_oracle_does(strategy, options):
    walk(options, strategy)


@pytest.mark.parametrize(
    ("strategy", "seed", "steepness"),
    [
        (baselines.SafeOpt(), 4, 1.5),
        (baselines.GoOSE(epsilon=0.5), 4, 1.5),
        (baselines.ISEBO(draws=DRAWS), 1, None),
        (baselines.ISEBO(draws=DRAWS), 32, None),
    ],
)
def test_chosen_problems_have_queries_of_either_purpose_near_the_border(strategy, seed, steepness):
    """Random problems seldom lie there: a threshold twice as high or low would be missed."""
    slope = {} if steepness is None else {"slope_norm": 2, "steepness": steepness}
    confidence = ("confidence", "beta")[seed // 2 % 2]
    walk(Options(seed, dimension=1 + seed % 2, confidence=confidence, **slope), strategy)


def start(strategy, seed: int = 0, **options) -> tuple[Case, tm.SafeOptimizer]:
    """A problem of which the seed and two more points were told."""
    case = Case(Options(seed=seed, **options))
    optimizer = case.optimizer(strategy=strategy)
    for row in (SEED_ROW, 5, 9):
        case.tell(optimizer, row, 0.0)
    return case, optimizer


@settings(max_examples=EXAMPLES, deadline=None)
@given(options=problems)
def test_information_and_improvement_are_those_of_the_oracle(options):
    case = Case(replace(options, max_step=None))
    optimizer, safe = case.optimizer(strategy=baselines.EIC()), case.oracle
    for row in (SEED_ROW, 5, 9):
        case.tell(optimizer, row, 0.0)
    view = view_of(optimizer)
    n = len(safe.X)
    found = safety_information(view)[:n].numpy()
    np.testing.assert_allclose(found, slow.sign_information(safe), rtol=1e-6, atol=1e-9)
    if bool(view.is_safe.any()):
        for fstar in ("safe set", "safe draws"):
            best = baselines.ISEBO(draws=DRAWS, fstar=fstar).draw_best(view)
            found = max_value_information(view, best)[:n].numpy()
            wanted = slow.max_value_information(safe, drawn_best(safe, optimizer, fstar))
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    state = view.state
    found, best = probability_safe(state.mean, state.std, state.model.sides), find_incumbent(state)
    if best is not None:
        found = found * expected_improvement(state, best) * safe.scale(0)
    wanted = slow.eic(safe, np.ones(n, dtype=bool))
    np.testing.assert_allclose(found[:n].numpy(), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_eic_asks_for_the_most_promising_point_and_says_that_it_may_be_unsafe(seed):
    options = {"is_minimized": seed % 2 == 1, "is_shared": seed < 3, "confidence": "confidence"}
    case, optimizer = start(baselines.EIC(), seed, **options)
    purposes = set()
    for _ in range(ROUNDS):
        query = optimizer.ask()
        check_choice(query, slow.eic(case.oracle, np.ones(len(case.X), dtype=bool)))
        is_proven = bool(optimizer.safe_mask[query.index])
        assert is_proven == (min(query.lower.values()) >= 0)
        unproven = "seed" if query.index == SEED_ROW else "risk"
        assert query.purpose == ("explore" if is_proven else unproven)
        purposes.add(query.purpose)
        case.tell(optimizer, query.index, 0.0)
    assert "risk" in purposes or seed != 0


def test_a_random_safe_point_is_any_of_them_and_the_same_when_asked_again():
    _, optimizer = start(baselines.SafeRandom())
    assert optimizer.ask().index == optimizer.ask().index
    view = view_of(optimizer)
    is_open = view.is_open & view.is_safe
    drawn = [
        baselines.SafeRandom().choose(RoundView(view.state, is_open, seed)).row
        for seed in range(50 * int(is_open.sum()))
    ]
    counts = np.bincount(drawn, minlength=len(is_open))[is_open.numpy()]
    assert counts.sum() == len(drawn) and len(counts) > 3
    assert np.abs(counts - 50).max() < 5 * np.sqrt(50)


@pytest.mark.parametrize("strategy", SAFE, ids=lambda one: type(one).__name__)
def test_saved_and_loaded_it_asks_the_same(strategy):
    case, optimizer = start(strategy, 3, slope_norm=2, steepness=1.5)
    for _ in range(2):
        case.tell(optimizer, optimizer.ask().index, 0.0)
    again = case.optimizer(strategy=strategy)
    again.load_state_dict(optimizer.state_dict())
    assert again.ask().index == optimizer.ask().index
    np.testing.assert_array_equal(again.safe_mask, optimizer.safe_mask)
    other = case.optimizer()
    with pytest.raises(ValueError, match=r"strategy|targets"):
        other.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("strategy", SAFE, ids=lambda one: type(one).__name__)
def test_pending_points_are_passed_over(strategy):
    _, optimizer = start(strategy, 3, slope_norm=2, steepness=0.5)
    first = optimizer.ask()
    assert optimizer.ask(pending=[first]).index != first.index


def climb(x: np.ndarray) -> tuple[float, float]:
    return float(np.sin(3 * x[0]) + x[1]), float(1.2 - x @ x)


@pytest.mark.parametrize("strategy", SAFE, ids=lambda one: type(one).__name__)
def test_in_a_box_it_chooses_among_the_points_of_the_round(strategy):
    optimizer = tm.SafeOptimizer(
        tm.Box([-2.0, -2.0], [2.0, 2.0]),
        objective=tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.01),
        constraints={
            "g": tm.Constraint(
                tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.01), at_least=0.0, lipschitz=4.0
            )
        },
        safe_seed=[[0.0, 0.0]],
        search=CoordinateLines(60),
        strategy=strategy,
        confidence=0.95,
    )
    for _ in range(6):
        query = optimizer.ask()
        assert query.purpose == "seed" or query.lower["g"] >= 0
        f, g = climb(query.x)
        assert g >= 0
        optimizer.tell(query, f, {"g": g})
    assert len({tuple(trial.x) for trial in optimizer.history}) > 1


def test_safeopt_stays_within_what_slopes_prove_where_bounds_prove_more():
    X = np.linspace(0, 1, 41)
    gp = tm.GP(tm.kernels.Gaussian(0.5), noise_std=0.01)

    def make(strategy, constant):
        optimizer = tm.SafeOptimizer(
            X,
            objective=gp,
            constraints={"g": tm.Constraint(gp, at_least=0.0, lipschitz=constant)},
            safe_seed=[20],
            strategy=strategy,
            beta=2.0,
        )
        optimizer.tell(row=20, objective=1.0)
        return optimizer.safe_mask

    bounds = make(baselines.SafeUCB(), None)
    steep, flat = make(baselines.SafeOpt(), 50.0), make(baselines.SafeOpt(), 2.0)
    assert bounds[20] and steep[20] and flat[20]
    assert steep.sum() < bounds.sum() < flat.sum()


@pytest.mark.parametrize("chunk_bytes", [1, 2**22])
def test_heuristic_safeopt_finds_the_widest_expander_however_rows_are_cut(
    chunk_bytes, monkeypatch
):
    monkeypatch.setattr(baselines, "CHUNK_BYTES", chunk_bytes)
    X = np.linspace(0, 1, 61)
    f, g = -4 * (X - 0.5) ** 2, np.cos(4 * (X - 0.5))
    optimizer = tm.SafeOptimizer(
        X,
        objective=tm.GP(tm.kernels.Gaussian(0.4), noise_std=0.01),
        constraints={
            "g": tm.Constraint(tm.GP(tm.kernels.Gaussian(0.2), noise_std=0.01), at_least=0.0)
        },
        safe_seed=[30],
        strategy=baselines.HeuristicSafeOpt(),
        confidence=0.95,
    )
    for row in range(0, 61, 10):
        optimizer.tell(row=row, objective=f[row])
    purposes = []
    for _ in range(6):
        query = optimizer.ask()
        view = view_of(optimizer)
        if query.purpose != "seed":
            rows = view.is_safe.nonzero()[:, 0]
            is_wanted = find_maximizers(view)
            is_wanted[rows[find_expanders(view.state, rows)]] = True
            check_choice(query, slow.only(is_wanted.numpy(), view.widths.numpy()))
        purposes.append(query.purpose)
        optimizer.tell(query, f[query.index], {"g": g[query.index]})
    assert purposes.count("expand") > 1


def test_goose_keeps_its_goal_until_it_is_safe_or_out_of_reach():
    X = np.linspace(0, 1, 31)
    f, g = X * 2, np.full(31, 0.6)
    optimizer = tm.SafeOptimizer(
        X,
        objective=tm.GP(tm.kernels.Gaussian(0.4), noise_std=0.01),
        constraints={
            "g": tm.Constraint(
                tm.GP(tm.kernels.Gaussian(0.1), noise_std=0.01), at_least=0.0, lipschitz=4.0
            )
        },
        safe_seed=[5],
        strategy=baselines.GoOSE(),
        beta=2.0,
    )
    goal, kept, measured = None, 0, []
    for _ in range(12):
        query = optimizer.ask()
        optimizer.tell(query, f[query.index], {"g": g[query.index]})
        state = optimizer._rounds.present().state
        reachable = baselines.GoOSE()._optimistic(state, state.track) | state.sets.is_safe
        kept += state.track.goal == goal
        if goal is not None and query.index != goal and reachable[goal]:
            assert state.track.goal == goal
        goal = state.track.goal
        measured.append(query.index)
    assert kept and max(measured) > 20


class Reckless:
    """A strategy of a user's own that does not keep to the open rows."""

    keeps_safe = True

    def choose(self, view: RoundView) -> Choice:
        return Choice(int((~view.is_open).nonzero()[0]), "explore")


def test_a_strategy_that_chooses_a_closed_row_is_refused():
    _, optimizer = start(Reckless())
    with pytest.raises(ValueError, match=r"row of view\.is_open"):
        optimizer.ask()


def test_arguments_that_do_not_fit_are_refused():
    case = Case(Options(seed=0))
    with pytest.raises(ValueError, match="needs a Lipschitz constant of every constraint; 'g0'"):
        case.optimizer(strategy=baselines.SafeOpt())
    with pytest.raises(TypeError, match="strategy must be an object"):
        case.optimizer(strategy=baselines.ISE)
    with pytest.raises(ValueError, match="in place of rule and targets"):
        case.optimizer(targets=tm.targets.PotentialExpanders(), strategy=baselines.ISE())
    with pytest.raises(ValueError, match="epsilon"):
        baselines.GoOSE(epsilon=0.0)
    with pytest.raises(ValueError, match="draws"):
        baselines.ISEBO(draws=0)
    with pytest.raises(ValueError, match="safe draws"):
        baselines.ISEBO(fstar="all")


@dataclass(frozen=True)
class Opener:
    """Says that it keeps safe, opens every row, and takes the last one."""

    row: Any = None
    purpose: Any = "explore"
    keeps_safe: ClassVar[bool] = True

    def choose(self, view):
        view.is_open[:] = True
        choice = Choice(len(view.is_open) - 1, "explore")
        if self.row is not None:
            object.__setattr__(choice, "row", self.row)
        object.__setattr__(choice, "purpose", self.purpose)
        return choice


@pytest.mark.parametrize(
    "answer", [Opener(), Opener(0.0), Opener(True), Opener("a"), Opener(0, "anything")]
)
def test_a_strategy_cannot_open_rows_by_itself(answer):
    gp = tm.GP(tm.kernels.Gaussian(0.1), noise_std=0.1)
    optimizer = tm.SafeOptimizer(
        np.linspace(0, 1, 11),
        objective=gp,
        constraints={"g": tm.Constraint(gp, at_least=0.0)},
        safe_seed=[0.0],
        strategy=answer,
    )
    optimizer.tell(row=0, objective=3.0)
    with pytest.raises(ValueError, match=r"must choose a row|the purpose of"):
        optimizer.ask()


@pytest.mark.parametrize("strategy", [baselines.SafeRandom(), baselines.SafeUncertainty()])
def test_pending_points_are_passed_over_in_a_box_too(strategy):
    gp = tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1)
    optimizer = tm.SafeOptimizer(tm.Box(0.0, 6.0), objective=gp, strategy=strategy)
    first = optimizer.ask()
    assert optimizer.ask(pending=[first]).x[0] != first.x[0]
