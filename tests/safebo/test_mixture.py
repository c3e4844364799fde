"""Priors that nobody knows: the mixture against a dense one, and what it refuses."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle_mixture as oracle
import tellmost as tm
from tellmost.safebo import NoSafePoint
from tellmost.safebo.snapshots import take_snapshot
from tellmost.safebo.trials import RiskSpent
from tellmost.targets import NoTargetsLeft

GRID = np.linspace(0, 2, 30)[:, None]
SEEDS = [10, 12, 13, 15, 18]


def height(x):
    """A function that is safe, above 1, in the middle of its domain, and varies there."""
    x = np.atleast_2d(x)
    return 2.2 + 0.6 * np.sin(5 * x.sum(axis=1)) - 2.0 * np.abs(x[:, 0] - 1) ** 3


def pressure(x):
    x = np.atleast_2d(x)
    return 0.4 + 0.3 * x[:, 0] + 0.1 * np.cos(3 * x[:, -1])


def make(gp=None, *, domain=GRID, seeds=SEEDS, **more):
    """The objective is the constraint."""
    gp = tm.GP.unknown(noise_std=0.05) if gp is None else gp
    constraints = {"height": tm.Constraint(gp, at_least=1.0)}
    given = {"on_violation": "continue", "confidence": 0.95, **more}
    return tm.SafeOptimizer(
        domain, objective=gp, constraints=constraints, safe_seed=domain[seeds], **given
    )


def follow(opt, rounds, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        query = opt.ask()
        opt.tell(query, float(height(query.x)[0] + 0.05 * rng.standard_normal()))
    return opt


statement = st.fixed_dictionaries(
    {
        "lengthscale": st.sampled_from([None, 0.2]),
        "scale": st.sampled_from([None, 1.5]),
        "noise_std": st.sampled_from([None, 0.1]),
        "ard": st.booleans(),
    }
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    known=statement,
    d=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**32 - 1),
    sets=st.sampled_from(["mixture", "hpd"]),
    has_two=st.booleans(),
)
def test_what_is_safe_is_what_a_dense_mixture_says(known, d, seed, sets, has_two):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, [2, 30][:d], (25, d))
    width, scaled = np.ptp(X, axis=0), X / [1, 15][:d]
    truths = {"height": height(scaled), "pressure": pressure(scaled)}
    inside = np.flatnonzero((truths["height"] > 1.3) & (truths["pressure"] < 0.9))[:5]
    gps = {name: tm.GP.unknown(**known) for name in truths}
    constraints = {"height": tm.Constraint(gps["height"], at_least=1.0)}
    limits = {"height": (1.0, True), "pressure": (1.1, False)}
    if has_two:
        constraints["pressure"] = tm.Constraint(gps["pressure"], at_most=1.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt = tm.SafeOptimizer(
            X, objective=gps["height"], constraints=constraints, safe_seed=X[inside], sets=sets,
            confidence=0.9, on_violation="continue", suspect_z=np.inf,
        )  # fmt: skip
    rows = [*inside, *rng.choice(inside, 2), *rng.integers(25, size=2)]
    for row in rows:
        told = {"pressure": truths["pressure"][row]} if has_two else {}
        opt.tell(row=int(row), objective=truths["height"][row], constraints=told)

    risk, outputs = np.zeros(len(X)), {}
    for name in constraints:
        limit, is_lower = limits[name]
        unit = abs(truths[name][inside].mean() - limit)
        one = oracle.Output(
            oracle.thetas(width, unit, **known), limit, X[rows], truths[name][rows]
        )
        risk += one.risk(X, limit, is_lower, 0.9 if sets == "hpd" else None)
        outputs[name] = one
    is_close = np.abs(risk - 0.1) < 1e-6
    assert (opt.safe_mask == (risk <= 0.1))[~is_close].all()
    lower, _ = opt.bounds("height")
    assert has_two or ((lower >= 1.0) == opt.safe_mask).all()
    means, stds, weights = outputs["height"].posteriors(X)
    best = np.sort(weights)[::-1]
    if best[0] > best[1] * (1 + 1e-6):
        np.testing.assert_allclose(opt.predict()[0], means[weights.argmax()], atol=1e-6)
        np.testing.assert_allclose(opt.predict()[1], stds[weights.argmax()], atol=1e-5)
    try:
        query = opt.ask()
    except (NoSafePoint, NoTargetsLeft):
        return
    assert query.probability_safe == pytest.approx(max(1 - risk[query.index], 0), abs=1e-7)


def test_values_told_one_by_one_and_a_new_start_agree():
    one = follow(make(), 15)
    other = make()
    other.load_state_dict(one.state_dict())
    assert (one.safe_mask == other.safe_mask).all()
    assert one.ask().index == other.ask().index
    assert one.ask().probability_safe == pytest.approx(other.ask().probability_safe, abs=1e-12)


def test_a_state_of_other_knowledge_or_another_set_is_refused():
    state = follow(make(), 6).state_dict()
    for other in (make(tm.GP.unknown(noise_std=0.06)), make(sets="hpd")):
        with pytest.raises(ValueError, match="optimizer"):
            other.load_state_dict(state)


@pytest.mark.parametrize("knows", [True, False])
def test_it_leaves_the_seeds_and_stays_safe_on_points_and_in_a_box(knows):
    for domain in (GRID, tm.Box([0.0], [2.0])):
        gp = tm.GP.unknown(noise_std=0.05 if knows else None)
        opt = tm.SafeOptimizer(
            domain,
            objective=gp,
            constraints={"height": tm.Constraint(gp, at_least=1.0)},
            safe_seed=GRID[SEEDS] if domain is GRID else [x.tolist() for x in GRID[SEEDS]],
            search=None if domain is GRID else tm.safebo.SobolSet(64),
        )
        rng, asked = np.random.default_rng(1), []
        for _ in range(20):
            query = opt.ask()
            asked.append(query)
            opt.tell(query, float(height(query.x)[0] + 0.05 * rng.standard_normal()))
        later = [query for query in asked if query.purpose != "seed"]
        assert len(later) >= 12
        assert all(query.probability_safe >= 0.99 for query in later)
        assert all(query.lower["height"] >= 0 for query in later)
        assert all(height(query.x)[0] >= 1.0 for query in asked)
        best = float(height(opt.best.x)[0])
        assert best >= height(GRID).max() - 0.1


def test_a_box_knows_the_probabilities_of_a_dense_mixture_between_its_points():
    gp = tm.GP.unknown(noise_std=0.05)
    opt = tm.SafeOptimizer(
        tm.Box([0.0], [2.0]),
        objective=gp,
        constraints={"height": tm.Constraint(gp, at_least=1.0)},
        safe_seed=[x.tolist() for x in GRID[SEEDS]],
        search=tm.safebo.SobolSet(32),
    )
    for _ in range(9):
        query = opt.ask()
        told = opt.history.columns
        if len(told["x0"]) >= 5:
            X, y = told["x0"][:, None], told["objective"]
            unit = y[:5].mean() - 1.0
            output = oracle.Output(oracle.thetas(np.array([2.0]), unit, noise_std=0.05), 1.0, X, y)
            expected = 1 - output.risk(query.x[None], 1.0, True)[0]
            assert query.probability_safe == pytest.approx(expected, abs=1e-7)
        opt.tell(query, float(height(query.x)[0]))


def test_nothing_is_safe_before_a_value_is_told_and_no_noise_excuses_the_first_one():
    opt = make(tm.GP.unknown(), on_violation="halt")
    assert not opt.safe_mask.any()
    opt.tell(opt.ask(), 0.999)
    assert opt.is_halted


def test_values_at_the_limit_tell_no_scale():
    opt = make()
    with pytest.raises(ValueError, match="how large its margins are"):
        opt.tell(opt.ask(), 1.0)
    assert not len(opt.history)
    opt.tell(opt.ask(), 2.0)
    assert len(opt.history) == 1


def test_few_seeds_call_for_a_scale_and_a_lengthscale():
    with pytest.warns(UserWarning, match="2 seeds say little"):
        make(seeds=SEEDS[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()
        make(tm.GP.unknown(lengthscale=0.3, scale=2.0), seeds=SEEDS[:2])


def test_what_does_not_go_with_an_unknown_prior_is_refused_by_name():
    with pytest.raises(ValueError, match="beta"):
        make(beta=2.0, confidence=None)
    with pytest.raises(ValueError, match="contexts"):
        make(contexts=["weather"])
    with pytest.raises(ValueError, match="one per parameter"):
        make(tm.GP.unknown(lengthscale=[0.1, 0.2]))
    with pytest.raises(ValueError, match="sets='hpd' is about"):
        make(tm.GP(tm.kernels.Matern(2.5)), sets="hpd")
    with pytest.raises(ValueError, match="no noise of their own"):
        make(tm.GP.unknown(), noise_std={"height": 0.1})
    with pytest.raises(ValueError, match="no noise of their own"):
        make(tm.GP.unknown()).tell(row=SEEDS[0], objective=2.0, noise_std=0.1)
    with pytest.raises(ValueError, match=r"tm\.SafeOptimizer"):
        tm.ActiveLearner(tm.GP.unknown(noise_std=0.1), pool=GRID, targets=GRID)
    with pytest.raises(ValueError, match="refit"):
        make().refit()
    for wrong in ({"lengthscale": -1.0}, {"scale": 0.0}, {"noise_std": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tm.GP.unknown(**wrong)


def test_it_prints_what_is_known_and_what_is_likely():
    gp = tm.GP.unknown(lengthscale=0.2)
    assert repr(gp) == "GP.unknown(lengthscale=0.2, scale=None, noise_std=None, ard=False)"
    assert "weighed anew at every tell" in str(gp)
    printed = str(follow(make(), 8))
    assert "of 40 thetas" in printed
    assert "Matern-5/2" in printed


def test_what_is_drawn_ends_at_the_limit_where_the_safe_set_ends():
    opt = follow(make(), 6)
    shown = take_snapshot(opt._rounds.present(), opt.history, None)
    assert ((shown.curves[0].lower >= 1.0) == opt.safe_mask).all()
    assert (shown.curves[0].lower <= shown.curves[0].upper).all()


def test_an_upper_limit_is_drawn_as_a_lower_one_turned_over():
    drawn = []
    for sign, limit in ((1.0, {"at_least": 1.0}), (-1.0, {"at_most": -1.0})):
        gp = tm.GP.unknown(noise_std=0.05)
        known = tm.GP(tm.kernels.Matern(2.5, 0.3), mean=1.0, noise_std=0.05)
        constraints = {"height": tm.Constraint(gp, **limit)}
        opt = tm.SafeOptimizer(
            GRID, objective=known, constraints=constraints, safe_seed=GRID[SEEDS]
        )
        for row in SEEDS:
            opt.tell(GRID[row], 1.0, {"height": sign * float(height(GRID[row])[0])})
        curve = take_snapshot(opt._rounds.present(), opt.history, None).curves[1]
        drawn.append([curve.lower, curve.upper])
    np.testing.assert_allclose(drawn[1], [-drawn[0][1], -drawn[0][0]], rtol=1e-6)


def test_an_objective_may_be_unknown_beside_a_lipschitz_constant():
    known = tm.GP(tm.kernels.Matern(2.5, 0.3), mean=1.0, noise_std=0.05)
    gp, sizes = tm.GP.unknown(noise_std=0.05), {}
    for steep in (2.0, None):
        opt = tm.SafeOptimizer(
            GRID,
            objective=gp,
            constraints={"height": tm.Constraint(known, at_least=1.0, lipschitz=steep)},
            safe_seed=(GRID[SEEDS], {"objective": SEEDS, "height": [2.0] * len(SEEDS)}),
        )
        assert opt.ask().lower["height"] >= 0
        sizes[steep] = int(opt.safe_mask.sum())
    assert sizes[2.0] > sizes[None]
    constraints = {"height": tm.Constraint(gp, at_least=1.0, lipschitz=2.0)}
    with pytest.raises(ValueError, match="Lipschitz"):
        tm.SafeOptimizer(GRID, objective=gp, constraints=constraints, safe_seed=GRID[SEEDS])


def test_a_refusal_says_what_is_likeliest_to_be_safe():
    opt = make()
    for row in SEEDS:
        opt.tell(row=row, objective=0.2)
    with pytest.raises(NoSafePoint, match="safe with probability"):
        opt.ask()


def test_the_calibration_does_not_call_a_mixture_wrong_whose_function_it_contains():
    rng = np.random.default_rng(0)
    K = tm.kernels.Matern(2.5, 0.5).block(*2 * [torch.from_numpy(GRID)]).numpy()
    wrong = 0
    for _ in range(10):
        f = 3 + np.linalg.cholesky(K + 1e-9 * np.eye(30)) @ rng.standard_normal(30)
        opt = make()
        for row in [*SEEDS, *rng.integers(30, size=15)]:
            opt.tell(row=int(row), objective=f[row] + 0.05 * rng.standard_normal())
        wrong += opt.calibration().is_wrong
    assert wrong == 0


def test_a_prior_that_is_known_keeps_its_own_bounds_beside_one_that_is_not():
    known = tm.GP(tm.kernels.Matern(2.5, 0.5), mean=1.0, noise_std=0.05)
    opt = tm.SafeOptimizer(
        GRID,
        objective=tm.GP(tm.kernels.Matern(2.5, 0.7), noise_std=0.05),
        constraints={
            "height": tm.Constraint(tm.GP.unknown(noise_std=0.05), at_least=1.0),
            "pressure": tm.Constraint(known, at_most=1.1),
        },
        safe_seed=GRID[SEEDS],
    )
    for _ in range(8):
        query = opt.ask()
        y = float(height(query.x)[0])
        opt.tell(query, -y, {"height": y, "pressure": float(pressure(query.x)[0])})
    assert query.probability_safe >= 0.99
    lower, _ = opt.bounds("objective")
    mean, std = opt.predict()
    beta = (mean - lower) / std
    np.testing.assert_allclose(beta, beta[0], rtol=1e-6)


def test_a_prior_fitted_to_clustered_data_is_warned_of_twice():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.9, 1.1, (10, 1))
    with pytest.warns(UserWarning, match="half the lengthscale explains y nearly as well"):
        gp = tm.GP.fit(X, height(X) + 0.05 * rng.standard_normal(10))
    with pytest.warns(UserWarning, match="cover 10% of a parameter's range|cover 9%"):
        make(gp)


def test_a_prior_fitted_to_data_everywhere_is_not_warned_of():
    X = np.linspace(0, 2, 40)[:, None]
    y = np.sin(6 * X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        make(tm.GP.fit(X, y))


def test_a_lengthscale_beyond_the_data_is_warned_of():
    X = np.linspace(0, 1, 30)[:, None]
    with pytest.warns(UserWarning, match="times the range of X"):
        tm.GP.fit(X, 3 * X[:, 0], noise_std=0.1)


def start_at_seeds(**more):
    """An optimizer that was told its seeds, with noise of two sizes."""
    opt, rng = make(**more), np.random.default_rng(4)
    for row in SEEDS:
        opt.tell(row=row, objective=float(height(GRID[row])[0]) + 0.03 * rng.standard_normal())
    return opt


@pytest.mark.parametrize("glitch", [9.0, -9.0], ids=["high", "low"])
def test_a_suspect_value_never_enlarges_the_safe_set_of_a_mixture(glitch):
    opt, without = start_at_seeds(), start_at_seeds()
    before = opt.safe_mask
    opt.tell(row=14, objective=glitch)
    (suspect,) = opt.suspects
    assert suspect.id == len(SEEDS) and suspect.z > 4
    assert not (opt.safe_mask & ~before).any()  # also under the thetas that the value favours
    opt.discard(suspect.id)
    np.testing.assert_array_equal(opt.safe_mask, without.safe_mask)
    assert opt.ask().x.tolist() == without.ask().x.tolist()


def test_a_confirmed_value_is_learned_from_by_a_mixture_and_a_repeat_confirms_it():
    opt, other = start_at_seeds(), start_at_seeds(suspect_z=np.inf)
    for one in (opt, other):
        one.tell(row=14, objective=9.0)
    query = opt.ask()
    assert query.purpose != "repeat" or opt.safe_mask[query.index]
    opt.tell(row=14, objective=9.02)
    assert not opt.suspects  # both readings agree, within the noise and not to the digit
    assert [event.kind for event in opt.log][-1] == "confirmed"
    other.tell(row=14, objective=9.02)
    np.testing.assert_allclose(opt.predict()[0], other.predict()[0], atol=1e-9)


def test_queries_of_a_mixture_risk_what_is_left_of_a_run_and_then_asking_ends():
    opt, spent = start_at_seeds(confidence=0.9, horizon=5), 0.0
    for asked in range(5):
        query = opt.ask()
        assert query.risk <= (0.1 - spent) / (5 - asked) + 1e-9
        assert query.purpose == "seed" or query.probability_safe >= 0.9
        spent += query.risk
        opt.tell(query, float(height(query.x)[0]))
    assert opt.risk_spent == pytest.approx(spent) and spent <= 0.1
    with pytest.raises(RiskSpent, match="5 asked for so far"):
        opt.ask()
