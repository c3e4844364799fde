"""A Lipschitz constant and a noise bound alone, beside the set that they define."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from tellmost.safebo import Lipschitz, MiscalibratedModel, baselines

AXIS = np.linspace(0.0, 2.0, 9)
GRID = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
GP = tm.GP(tm.kernels.Matern(2.5, 0.7), noise_std=0.1)
L, E = 1.5, 0.1


def truth(x):
    """A function that is nowhere steeper than 1.5, and safe, above 0, in a disc."""
    return 1.2 - 1.5 * np.linalg.norm(np.asarray(x) - [0.9, 1.1], axis=-1)


def make(domain=GRID, objective=GP, **more):
    limits = {"at_least": 0.0, "lipschitz": L, "noise_bound": E, **more}
    constraints = {"g": tm.Constraint(**limits)}
    return tm.SafeOptimizer(
        domain, objective=objective, constraints=constraints, safe_seed=[[1.0, 1.0]]
    )


def proven_margins(points, told, low, high, constant, bound, norm):
    """How far some told value proves each limit, point by point."""
    found = []
    for x in points:
        apart = [np.linalg.norm(x - np.array(z), ord=norm) for z, _ in told]
        worst = [y - bound - constant * r for (_, y), r in zip(told, apart, strict=True)]
        best = [y + bound + constant * r for (_, y), r in zip(told, apart, strict=True)]
        margins = [np.inf if low is None else max(worst, default=-np.inf) - low]
        margins.append(np.inf if high is None else high - min(best, default=np.inf))
        found.append(min(margins))
    return np.array(found)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 80), st.floats(0.3, 0.7)), min_size=1, max_size=5),
    st.sampled_from([(0.0, None), (None, 1.0), (-0.2, 1.2)]),
    st.floats(0.2, 3.0),
    st.sampled_from([1, 2]),
)
def test_the_safe_set_is_what_some_told_value_proves(told, limits, constant, norm):
    low, high = limits
    opt = make(at_least=low, at_most=high, lipschitz=Lipschitz(constant, norm), noise_bound=0.4)
    for row, y in told:
        opt.tell(row=row, constraints={"g": y})
    places = [(GRID[row], y) for row, y in told]
    margins = proven_margins(GRID, places, low, high, constant, 0.4, norm)
    clear = np.abs(margins) > 1e-9  # elsewhere rounding decides
    np.testing.assert_array_equal(opt.safe_mask[clear], margins[clear] >= 0)
    assert not opt.suspects  # no prior says what is implausible


@pytest.mark.parametrize("objective", [GP, tm.GP.unknown(scale=1.0, lengthscale=0.3)])
@pytest.mark.parametrize("domain", [GRID, tm.Box([0.0, 0.0], 2.0)], ids=["grid", "box"])
def test_every_query_is_safe_while_the_constant_and_the_bound_hold(domain, objective):
    opt, rng, told = make(domain, objective), np.random.default_rng(0), []
    for step in range(8):
        query = opt.ask()
        if step:
            assert proven_margins([query.x], told, 0.0, None, L, E, 2).min() >= -1e-9
            assert query.lower["g"] >= 0 and query.purpose != "risk"
        assert truth(query.x) >= 0
        y = float(truth(query.x) + E * rng.uniform(-1, 1))
        told.append((query.x, y))
        opt.tell(query, -float(np.square(query.x - 1.2).sum()), {"g": y})
    assert len({tuple(x) for x, _ in told}) > 3
    assert "g" not in opt.calibration().outputs  # there is no prior to judge


def test_another_output_keeps_its_own_promise_beside_it():
    opt = tm.SafeOptimizer(
        GRID,
        objective=GP,
        constraints={
            "g": tm.Constraint(at_least=0.0, lipschitz=L, noise_bound=E),
            "h": tm.Constraint(tm.GP(tm.kernels.Matern(2.5, 0.7), noise_std=0.1), at_least=-1.0),
        },
        safe_seed=[[1.0, 1.0]],
    )
    opt.tell([1.0, 1.0], 0.0, {"g": 1.0, "h": 0.5})
    alone = proven_margins(GRID, [([1.0, 1.0], 1.0)], 0.0, None, L, E, 2)
    assert opt.safe_mask.any() and alone[opt.safe_mask].min() >= -1e-9
    assert opt.ask().probability_safe >= 0.99


def test_values_that_the_constant_excludes_are_said_to_exclude_each_other():
    opt = make()
    opt.tell([1.0, 1.0], 0.0, {"g": 0.1})
    opt.tell([1.0, 1.25], 0.0, {"g": 5.0})
    with pytest.raises(MiscalibratedModel, match="A Lipschitz constant is too small"):
        opt.ask()


def test_a_value_beyond_the_limit_by_more_than_the_bound_is_a_violation():
    opt = make()
    assert opt.tell([1.0, 1.0], 0.0, {"g": -0.09}).status == "marginal"
    assert opt.tell([1.0, 1.0], 0.0, {"g": -0.11}).status == "violated"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"at_least": 0.0}, "be left out where lipschitz= and noise_bound= are known"),
        ({"at_least": 0.0, "lipschitz": 1.0}, "be left out where lipschitz= and noise_bound="),
        ({"gp": GP, "at_least": 0.0, "noise_bound": 0.1}, "give lipschitz= too"),
        ({"at_least": 0.0, "lipschitz": 1.0, "noise_bound": 0.0}, "noise_bound"),
    ],
)
def test_what_is_missing_is_said(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tm.Constraint(**given)


def test_a_value_has_no_noise_of_its_own_and_the_objective_has_no_bound():
    with pytest.raises(ValueError, match="its noise_bound always holds"):
        make().tell([1.0, 1.0], constraints={"g": 1.0}, noise_std={"g": 0.3})
    with pytest.raises(ValueError, match="give a constraint a GP of its own"):
        make(gp=GP)


def test_in_a_box_safeopt_grows_from_what_was_measured_and_not_from_what_the_prior_proves():
    gp = tm.GP(tm.kernels.Gaussian(0.2), mean=5.0, noise_std=0.1)
    constraints = {"g": tm.Constraint(gp, at_least=0.0, lipschitz=100.0)}
    opt = tm.SafeOptimizer(
        tm.Box(0.0, 1.0), objective=GP, constraints=constraints, safe_seed=[[0.5]]
    )
    opt.tell([0.5], 0.0, {"g": 5.0})
    state = opt._rounds.present().state
    grown = baselines.grow(state, None).sets.is_safe
    assert 0 < int(grown.sum()) < int(state.sets.is_safe.sum())
    assert float((state.points[grown] - 0.5).abs().max()) < 0.05
