"""Wrong arguments and tells: what the errors say, and that nothing is changed by them."""

import json

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.posterior.gp import Data
from tellmost.safebo import CoordinateLines, Lipschitz, SobolSet

pytestmark = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)

DOMAIN = np.random.default_rng(0).uniform(0, 1, (12, 2))
BOX = tm.Box([0, 0], [1, 2], names=["kp", "kd"])
GP = tm.GP(tm.kernels.Matern(2.5, 0.5), noise_std=0.1)
OTHER = tm.GP(tm.kernels.Matern(2.5, 0.7), noise_std=0.2)


def limit(gp=OTHER, **limits) -> tm.Constraint:
    return tm.Constraint(gp, **(limits or {"at_least": 0.0}))


def make(domain=DOMAIN, **changed) -> tm.SafeOptimizer:
    arguments = {"objective": GP, "constraints": {"g": limit()}, "safe_seed": [3]}
    arguments["safe_seed"] = [[0.5, 0.5]] if isinstance(domain, tm.Box) else [3]
    return tm.SafeOptimizer(domain, **{**arguments, **changed})


def data_of(width: int) -> Data:
    one = torch.ones(1, dtype=torch.float64)
    return Data(torch.zeros(1, width, dtype=torch.float64), one, one)


ARGUMENTS = [
    ({"objective": tm.kernels.Gaussian()}, TypeError, "objective must be a tm.GP"),
    ({"constraints": [limit()]}, TypeError, "constraints must be given by name"),
    ({"constraints": {"g": OTHER}}, TypeError, r"constraints\['g'\] must be a tm.Constraint"),
    ({"constraints": {"objective": limit()}}, ValueError, "a name of its own"),
    ({"constraints": {"status": limit()}}, ValueError, "a name of its own"),
    ({"constraints": {"x0": limit()}}, ValueError, "a name of its own"),
    ({"constraints": {1: limit()}}, ValueError, "a name of its own"),
    ({"confidence": 0.9, "beta": 2.0}, ValueError, "give confidence or beta, not both"),
    ({"confidence": 1.0}, ValueError, "above 0.5 and below 1; got 1.0"),
    ({"confidence": 99}, ValueError, "above 0.5 and below 1; got 99"),
    ({"confidence": True}, TypeError, "must be a number; got True"),
    ({"objective": tm.GP(GP.kernel, noise_std=1e-8)}, ValueError, "rounding hides smaller noise"),
    ({"noise_std": {"g": 1e-8}}, ValueError, r"noise_std\['g'\] must be at least 1e-06 times"),
    ({"noise_std": {"g": np.full(12, 1e-8)}}, ValueError, "rounding hides smaller noise"),
    ({"confidence": 0.9, "horizon": 10**15}, ValueError, "leaves a query less risk than 1e-12"),
    ({"beta": 0.0}, ValueError, "beta must be a positive finite number; got 0.0"),
    ({"beta": float("nan")}, ValueError, "beta must be a positive finite number; got nan"),
    ({"beta": "2"}, TypeError, "beta must be a number"),
    ({"beta": lambda n: -1.0}, ValueError, r"beta\(0\) must be a positive"),
    ({"beta": tm.safebo.RKHSBound}, TypeError, "beta must be an instance"),
    (
        {"beta": tm.safebo.RKHSBound({"objective": 1.0})},
        ValueError,
        "must have an entry for each output",
    ),
    (
        {"beta": tm.safebo.RKHSBound({"objective": 1.0, "g": 1.0, "h": 1.0})},
        ValueError,
        "must have an entry for each output, objective, g; it has",
    ),
    ({"safe_seed": []}, ValueError, "safe_seed must name at least one point"),
    ({"safe_seed": [12]}, ValueError, "must be a row of the domain, 0 to 11; got 12"),
    ({"safe_seed": [-1]}, ValueError, "must be a row of the domain"),
    ({"safe_seed": [[0.5, 0.5]]}, ValueError, "must be a point of the domain.*the nearest is row"),
    ({"safe_seed": [[0.5]]}, ValueError, r"must have 2 numbers \(x0, x1\)"),
    ({"safe_seed": ([3], {"objective": [1.0, 2.0]})}, ValueError, "a value per seed, 1; got 2"),
    ({"safe_seed": ([3], {"hight": [1.0]})}, ValueError, "no constraint 'hight'"),
    ({"safe_seed": ([3], {"g": [float("nan")]})}, ValueError, "g must be finite"),
    ({"direction": "up"}, ValueError, "direction must be 'maximize' or 'minimize'; got 'up'"),
    ({"on_violation": "stop"}, ValueError, "on_violation must be 'halt' or 'continue'"),
    ({"rule": "vlt"}, ValueError, "unknown rule 'vlt'"),
    ({"rule": "k-center"}, ValueError, "which is not kept where targets and safe set change"),
    ({"targets": tm.targets.PotentialMaximizers}, TypeError, "targets must be an instance"),
    ({"search": SobolSet()}, ValueError, "search is for a Box"),
    ({"noise_std": 0.1}, TypeError, "noise_std must be given by name"),
    (
        {"noise_std": {"h": 0.1}},
        ValueError,
        "noise_std names 'h'; the outputs are objective, g",
    ),
    ({"noise_std": {"g": np.ones(5)}}, ValueError, "domain row"),
    ({"noise_std": {"g": np.zeros(12)}}, ValueError, "must be positive"),
    ({"max_step": 0.0}, ValueError, "max_step must be a positive"),
    ({"max_step": [0.1]}, ValueError, "max_step"),
    ({"max_step": {"kp": 1.0}}, ValueError, "max_step names 'kp'; the parameters are x0, x1"),
    ({"names": ["a"]}, ValueError, "one name per dimension"),
    ({"contexts": "weather"}, TypeError, "contexts must be a list of names"),
    ({"contexts": ["x0"]}, ValueError, "names of their own"),
    ({"domain": np.empty((0, 2))}, ValueError, "domain must not be empty"),
    ({"domain": np.full((3, 2), np.nan)}, ValueError, "domain must be finite"),
    ({"seed": -1}, ValueError, "seed"),
    ({"objective": tm.GP(tm.kernels.Gaussian([1.0, 1.0, 1.0]))}, ValueError, "of 2 numbers"),
    ({"objective": tm.GP(GP.kernel, data=data_of(3))}, ValueError, "points of 2 numbers.*got 3"),
    ({"domain": BOX, "search": CoordinateLines}, TypeError, "search must be SobolSet"),
    ({"domain": BOX, "names": ["a", "b"]}, ValueError, "names belong to the Box"),
    ({"domain": BOX, "safe_seed": [[0.5, 3.0]]}, ValueError, "safe_seed must lie in Box"),
    ({"domain": BOX, "safe_seed": [{"kp": 1.0, "ki": 1.0}]}, ValueError, "the names 'kp', 'kd'"),
    ({"domain": BOX, "safe_seed": 3}, ValueError, r"must have 2 numbers \(kp, kd\)"),
    ({"domain": BOX, "noise_std": {"g": np.ones(5)}}, ValueError, "a number or a function"),
]


@pytest.mark.parametrize(("changed", "kind", "message"), ARGUMENTS)
def test_wrong_arguments_are_refused_with_what_came_and_the_way_out(changed, kind, message):
    with pytest.raises(kind, match=message):
        make(**changed)


CONSTRAINTS = [
    ({}, ValueError, "must have a limit"),
    ({"at_least": 1.0, "at_most": 1.0}, ValueError, "which nothing satisfies"),
    ({"at_least": 2.0, "at_most": 1.0}, ValueError, "at_least=2 and at_most=1"),
    ({"at_least": float("nan")}, ValueError, "at_least.* must be a finite number"),
    ({"at_most": "5"}, TypeError, "at_most.* must be a number"),
    ({"at_least": 0.0, "lipschitz": -1.0}, ValueError, "Lipschitz"),
    ({"at_least": 0.0, "violation_z": -1.0}, ValueError, "violation_z"),
]


@pytest.mark.parametrize(("given", "kind", "message"), CONSTRAINTS)
def test_a_constraint_must_have_limits_that_leave_room(given, kind, message):
    with pytest.raises(kind, match=message):
        tm.Constraint(GP, **given)


def test_a_value_at_its_limit_violates_nothing_even_where_no_noise_is_excused():
    critical = tm.Constraint(GP, at_least=0.5, critical=True)
    assert not critical.is_violated(0.5, 0.1) and critical.is_violated(0.49, 0.1)


def test_constraints_of_one_function_must_not_contradict_each_other():
    both = {"a": limit(GP, at_least=1.0), "b": limit(GP, at_most=0.5)}
    with pytest.raises(ValueError, match=r"at least 1 and at most 0.5"):
        make(constraints=both)


def test_other_values_are_refused():
    with pytest.raises(TypeError, match=r"Constraint\(gp\) must be a tm.GP"):
        tm.Constraint(tm.kernels.Gaussian(), at_least=0.0)
    with pytest.raises(ValueError, match="must be 1 or 2"):
        Lipschitz(1.0, 3)
    with pytest.raises(ValueError, match=r"norm.*must be a positive"):
        tm.safebo.RKHSBound(-1.0)
    with pytest.raises(ValueError, match=r"delta.*above 0 and below 1"):
        tm.safebo.RKHSBound(1.0, 0.0)
    with pytest.raises(ValueError, match=r"count.*whole number of at least 2"):
        SobolSet(1)


NAN = float("nan")
TELLS = [
    ({"row": 3, "objective": NAN}, ValueError, "objective must be finite; got nan.*failed=True"),
    ({"row": 3, "objective": 1.0, "constraints": {"g": NAN}}, ValueError, "g must be finite"),
    ({"row": 3, "objective": float("inf")}, ValueError, "objective must be finite"),
    ({"row": 3, "objective": "1.0"}, TypeError, "objective must be a number"),
    ({"row": 3, "objective": True}, TypeError, "objective must be a number"),
    ({"row": 3, "objective": [1.0, 2.0]}, TypeError, "objective must be a number"),
    ({"row": 3}, ValueError, "got nothing"),
    ({"row": 3, "constraints": {}}, ValueError, "got nothing"),
    ({"row": 3, "constraints": {"g": None}}, ValueError, "got nothing"),
    ({"row": 3, "objective": 1.0, "failed": True}, ValueError, "a failed trial has no values"),
    ({"row": 3, "constraints": {"h": 1.0}}, ValueError, "no constraint 'h'; those.*'g'"),
    ({"row": 3, "objective": 1.0, "constraints": 1.0}, TypeError, "must be told by name"),
    ({"row": 99, "objective": 1.0}, ValueError, "row must be a row of the domain"),
    ({"x": [2.0, 2.0], "objective": 1.0}, ValueError, "x must be a point of the domain"),
    ({"x": [0.1], "objective": 1.0}, ValueError, "must have 2 numbers"),
    ({"x": [NAN, 0.1], "objective": 1.0}, ValueError, "x must be finite"),
    ({"x": {"x0": 1.0}, "objective": 1.0}, ValueError, "the names 'x0', 'x1'; got 'x0'"),
    (
        {"row": 3, "objective": 1.0, "noise_std": 0.0},
        ValueError,
        r"noise_std\['objective'\] must be a positive",
    ),
    (
        {"row": 3, "objective": 1.0, "noise_std": {"g": 0.1}},
        ValueError,
        "names 'g'; values were told of",
    ),
    ({"x": 3, "objective": 1.0}, TypeError, r"tell\(3\) may mean row 3 or the point \[3.0\]"),
    ({"objective": 1.0}, ValueError, "a query, x=.* or row=..., one of them"),
    ({"x": [0.1, 0.1], "row": 3, "objective": 1.0}, ValueError, "one of them"),
    ({"row": 3, "objective": 1.0, "context": [1.0]}, ValueError, "without contexts"),
]


def everything(optimizer: tm.SafeOptimizer) -> str:
    """All that can be seen of an optimizer."""
    parts = [optimizer.state_dict(), str(optimizer), str(optimizer.ask())]
    parts += [part.tolist() for name in ("objective", "g") for part in optimizer.bounds(name)]
    parts += [
        part.tolist() for name in ("objective", "g") for part in optimizer.predict(None, name)
    ]
    return json.dumps(parts)


@pytest.mark.parametrize(("told", "kind", "message"), TELLS)
def test_a_wrong_tell_is_refused_and_nothing_at_all_changes(told, kind, message):
    optimizer = make(confidence=0.8)
    optimizer.tell(row=3, objective=0.5, constraints={"g": 1.0})
    before = everything(optimizer)
    with pytest.raises(kind, match=message):
        optimizer.tell(**told)
    assert everything(optimizer) == before


def test_one_function_is_told_one_value_and_one_noise():
    optimizer = make(constraints={"g": limit(GP)})
    with pytest.raises(ValueError, match=r"serves as objective 1\.0, g 2\.0: tell"):
        optimizer.tell(row=3, objective=1.0, constraints={"g": 2.0})
    with pytest.raises(ValueError, match="one function serves as objective"):
        optimizer.tell(
            row=3, objective=1.0, constraints={"g": 1.0}, noise_std={"objective": 0.1, "g": 0.2}
        )
    with pytest.raises(ValueError, match="one function serves as objective"):
        make(constraints={"g": limit(GP)}, noise_std={"objective": 0.1, "g": 0.2})
    assert len(optimizer.history) == 0


def test_a_schedule_that_fails_later_fails_before_the_tell_is_taken_in():
    optimizer = make(beta=lambda n: 2.0 if n < 2 else NAN, safe_seed=None)
    optimizer.tell(row=0, objective=1.0, constraints={"g": 1.0})
    before = optimizer.bounds("g")[0].tolist()
    with pytest.raises(ValueError, match=r"beta\(2\) must be a positive"):
        optimizer.tell(row=0, objective=1.0, constraints={"g": 1.0})
    assert len(optimizer.history) == 1 and optimizer.bounds("g")[0].tolist() == before


def test_no_seed_and_nothing_safe_is_refused_when_asked():
    with pytest.raises(tm.safebo.NoSafePoint, match="no point is known to be safe"):
        make(safe_seed=None).ask()


def test_questions_with_wrong_names_or_shapes_are_refused():
    optimizer = make()
    with pytest.raises(ValueError, match="there is no output 'h'; there are 'objective', 'g'"):
        optimizer.bounds("h")
    with pytest.raises(ValueError, match=r"X must be \(b, 2\) points"):
        optimizer.predict(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="pending must be a row"):
        optimizer.ask(pending=[50])
    with pytest.raises(ValueError, match="context was given"):
        optimizer.ask(context=[1.0])
    with pytest.raises(ValueError, match="context must be given: the values of weather"):
        make(contexts=["weather"]).ask()


def test_targets_of_the_callers_own_must_be_a_mask_over_the_points():
    optimizer = make(targets=lambda known: np.arange(3), safe_seed=None, constraints=None)
    with pytest.raises(ValueError, match=r"a mask over the points of the round, \(12,\) of bool"):
        optimizer.ask()
    nothing = make(targets=lambda known: known.mean > 99, safe_seed=None, constraints=None)
    with pytest.raises(tm.targets.NoTargetsLeft):
        nothing.ask()


def test_arrays_of_the_caller_may_change_afterwards():
    domain, point = DOMAIN.copy(), np.array([0.5, 0.5])
    optimizer, box = make(domain), make(BOX)
    box.tell(point, 1.0)
    domain += 1.0
    point += 0.1
    np.testing.assert_array_equal(optimizer.points, DOMAIN)
    np.testing.assert_array_equal(box.history[0].x, [0.5, 0.5])
    optimizer.tell(row=3, objective=1.0)
    optimizer.history[0].x[:] = 7.0
    np.testing.assert_array_equal(optimizer.points, DOMAIN)


def test_a_row_number_means_nothing_in_a_box():
    with pytest.raises(TypeError, match="a box has no rows"):
        make(BOX).tell(row=3, objective=1.0)
