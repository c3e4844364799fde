"""Boxes of parameters: what a machine lets you set, as kernels see it and as people write it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm

steps = st.builds(
    lambda low, step, count: tm.Parameter(low, float(f"{low + count * step:.9g}"), step=step),
    st.integers(-20, 20).map(lambda one: one / 4),
    st.sampled_from([0.25, 0.5, 0.1, 3.0]),
    st.integers(1, 40),
)
numbers = st.builds(
    lambda low, width, log: tm.Parameter(low, low + width, log=log),
    st.floats(0.01, 10),
    st.floats(0.1, 100),
    st.booleans(),
)
wholes = st.builds(
    lambda low, width, log: tm.Parameter(low, low + width, whole=True, log=log),
    st.integers(1, 9),
    st.integers(1, 90),
    st.booleans(),
)
choices = st.lists(
    st.sampled_from(["argon", "helium", "air", 1, 2.5, True]), min_size=2, max_size=4, unique=True
).map(lambda them: tm.Parameter(choices=them))
fixed = st.sampled_from([0.8, 3, "on"]).map(lambda value: tm.Parameter(fixed=value, unit="mm"))
boxes = (
    st.lists(st.one_of(steps, numbers, wholes, choices, fixed), min_size=1, max_size=4)
    .filter(lambda them: any(one.fixed is None for one in them))
    .map(lambda them: tm.Box({f"p{i}": one for i, one in enumerate(them)}))
)


def can_be_set(one, value):
    """The slow obvious version."""
    if one.fixed is not None:
        return value == one.fixed
    if one.choices:
        return any(value is choice or value == choice for choice in one.choices)
    steps = 0.0 if one.step is None else (value - one.low) / one.step
    return one.low <= value <= one.high and abs(steps - round(steps)) < 1e-6


@given(box=boxes, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_point_is_a_setting_and_every_setting_a_point(box, seed):
    X = box.sobol(16, seed)
    assert bool(box.contains(X).all()) and torch.equal(box.clip(X), X)
    for x in X:
        setting = box.decode(x)
        assert setting.keys() == box.parameters.keys()
        assert all(can_be_set(box.parameters[name], value) for name, value in setting.items())
        assert torch.allclose(box.encode(setting), x, atol=1e-9)
    assert eval(repr(box), {"Box": tm.Box, "Parameter": tm.Parameter}) == box


@given(box=boxes, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_clipping_ends_at_the_nearest_value_of_each_parameter(box, seed):
    rng = np.random.default_rng(seed)
    low, high = box.corners()
    anywhere = low + torch.from_numpy(rng.uniform(-0.2, 1.2, (8, box.dimension))) * (high - low)
    near = box.clip(anywhere)
    assert bool(box.contains(near).all())
    first = 0
    for one in box.parameters.values():
        if one.fixed is None and one.count is not None and not one.log:
            all_codes = one.spread_all()
            part = anywhere[:, first : first + one.width].clamp(*box.corners()[:, first, None])
            apart = torch.cdist(part, all_codes).amin(dim=1)
            found = (part - near[:, first : first + one.width]).norm(dim=1)
            assert torch.allclose(found, apart, atol=1e-7)
        first += 0 if one.fixed is not None else one.width


def test_a_small_box_of_steps_is_searched_whole_and_a_larger_one_is_not():
    grid = tm.Box({"a": tm.Parameter(0, 1, step=0.25), "b": tm.Parameter(choices=["x", "y"])})
    points = grid.grid(10)
    assert points.shape == (10, 3) and len(torch.unique(points, dim=0)) == 10
    assert grid.grid(9) is None and tm.Box({"a": tm.Parameter(0, 1)}).grid(9) is None


def test_spread_values_come_equally_often():
    box = tm.Box({"gas": tm.Parameter(choices=["a", "b", "c", "d"]), "n": tm.Parameter(0, 1)})
    drawn = [box.decode(x)["gas"] for x in box.sobol(256, 0)]
    assert {drawn.count(one) for one in "abcd"} == {64}


def make(box, limit=1.0):
    kernel = tm.kernels.Matern(2.5, lengthscale=box.lengthscales({"p": 0.5, "gas": 1.0, "n": 3.0}))
    limits = {"heat": tm.Constraint(tm.GP(kernel, noise_std=0.05), at_most=limit)}
    seed = [{"p": 5, "gas": "argon", "n": 2}]
    return tm.SafeOptimizer(
        box, objective=tm.GP(kernel), constraints=limits, safe_seed=seed, confidence=0.95
    )


LASER = tm.Box(
    {
        "p": tm.Parameter(1, 50, log=True, unit="W"),
        "gas": tm.Parameter(choices=["argon", "helium"]),
        "n": tm.Parameter(1, 8, whole=True),
        "nozzle": tm.Parameter(fixed=0.8, unit="mm"),
    }
)


def test_an_optimizer_asks_for_nothing_between_the_values():
    opt = make(LASER)
    asked = []
    for _ in range(8):
        query = opt.ask()
        asked.append(query.parameters)
        value = np.log10(query.parameters["p"]) + 0.1 * query.parameters["n"]
        opt.tell(query, value, {"heat": 0.3 * value - 0.2})
    assert all(bool(LASER.contains(one.x[None])) for one in opt.history)
    assert all(can_be_set(LASER.parameters[n], v) for one in asked for n, v in one.items())
    assert len({one["p"] for one in asked}) > 3  # it climbs in what is continuous
    assert "p=5 W, gas=argon, n=2, nozzle=0.8 mm" in str(make(LASER).ask())
    assert opt.history.columns["gas"].tolist() == [one["gas"] for one in asked]
    assert opt.best.parameters["nozzle"] == 0.8


def test_a_query_with_a_setting_survives_a_database():
    query = make(LASER).ask()
    again = tm.Query.from_json(query.to_json())
    assert again.parameters == query.parameters and str(again) == str(query)


def test_a_point_of_ones_own_is_judged_and_not_recorded():
    opt = make(LASER)
    seed = {"p": 5, "gas": "argon", "n": 2}
    assert opt.judge(seed).purpose == "seed"
    opt.tell(seed, 0.1, {"heat": -0.5})
    assert opt.judge(seed).purpose == "explore"
    far = opt.judge({"p": 50, "gas": "helium", "n": 8})
    assert far.purpose == "risk" and far.lower["heat"] < 0 and len(opt.journal) == 1
    X = LASER.encode({"p": 50, "gas": "helium", "n": 8})[None].numpy()
    assert 1.0 - opt.bounds("heat", X)[1][0] == pytest.approx(far.lower["heat"])


def test_bounds_at_rows_are_those_of_the_points_there():
    opt = make(LASER)
    opt.tell({"p": 5, "gas": "argon", "n": 2}, 0.1, {"heat": -0.5})
    for name in ("objective", "heat"):
        np.testing.assert_allclose(opt.bounds(name), opt.bounds(name, opt.points), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "must have low and high, or choices"),
        ({"low": 0.0}, r"Parameter\(high\) must be a finite number; got None"),
        ({"low": 2.0, "high": 1.0}, "must have low < high"),
        ({"low": 0.0, "high": 1.0, "log": True}, "positive low if log=True"),
        ({"low": 0.0, "high": 1.0, "step": 0.3}, "whole steps; .* Its last value is 0.9"),
        ({"low": 0.5, "high": 2.0, "whole": True}, "whole bounds"),
        ({"low": 0.1, "high": 1.0, "step": 0.1, "log": True}, "but not both"),
        ({"choices": ("a",)}, "two different values"),
        ({"choices": ("a", "a")}, "two different values"),
        ({"choices": ("a", float("nan"))}, "a finite number"),
        ({"choices": ("a", "b"), "fixed": 1}, "must have low and high, or choices"),
        ({"choices": ("a", "b"), "log": True}, "belong to low and high"),
        ({"fixed": "x" * 501}, "at most 500 letters"),
    ],
)
def test_a_parameter_that_is_none_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tm.Parameter(**arguments)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"p": 5, "gas": "argon"}, "must have the names 'p', 'gas', 'n'; got 'p', 'gas'"),
        ({"p": 5, "gas": "argon", "n": 2, "x": 1}, "must have the names"),
        ({"p": 51, "gas": "argon", "n": 2}, "'p' must be a number from 1 to 50 W; got 51"),
        ({"p": float("nan"), "gas": "argon", "n": 2}, "'p' must be a number .* got nan"),
        ({"p": 5, "gas": "xenon", "n": 2}, r"'gas' must be one of \['argon', 'helium'\]"),
        ({"p": 5, "gas": "argon", "n": 2.5}, "'n' must be 1 and whole steps of 1; got 2.5"),
        ({"p": 5, "gas": "argon", "n": 2, "nozzle": 1.0}, "'nozzle' is fixed at 0.8; got 1.0"),
    ],
)
def test_what_cannot_be_set_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        LASER.encode(setting)


def test_a_box_of_parameters_that_is_none_is_refused():
    with pytest.raises(ValueError, match="must have a parameter that is not fixed"):
        tm.Box({"a": tm.Parameter(fixed=1)})
    with pytest.raises(ValueError, match="a name of 1 to 200 letters"):
        tm.Box({"x" * 300: tm.Parameter(0, 1)})
    with pytest.raises(ValueError, match="lengthscales must have the names 'p', 'gas', 'n'"):
        LASER.lengthscales({"p": 1.0})
