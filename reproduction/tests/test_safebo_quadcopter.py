"""The quadcopter: its golden numbers, what they depend on, and short runs."""

import numpy as np
import pytest
import torch

from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.quadcopter.flight import (
    HOVER,
    INERTIA,
    START,
    STEP_SECONDS,
    UNITS,
    advance,
    fly,
    plan_controls,
    total_cost,
)
from tellmost_reproduction.safebo.quadcopter.task import SAFE_SEED, Quadcopter
from tellmost_reproduction.safebo.quadcopter.tuning import (
    CODE_BETA,
    ORACLE,
    TEXT_BETA,
    Tuning,
    estimate_slopes,
)


@pytest.fixture(scope="module")
def plan():
    return plan_controls()


@pytest.fixture(scope="module")
def task(plan):
    return Quadcopter(plan.controls)


def rotation(axis, angle):
    """Around an axis, by its definition: the exponential of a skew-symmetric matrix."""
    x, y, z = (float(i == axis) for i in range(3))
    skew = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    return torch.linalg.matrix_exp(angle * skew)


def test_a_step_follows_the_equations_of_motion():
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(12, generator=generator, dtype=torch.float64)
    control = torch.randn(4, generator=generator, dtype=torch.float64)
    velocity, (phi, theta, psi), rates = state[3:6], state[6:9], state[9:]
    thrust, moments = control[0], control[1:] * UNITS[1:]
    R = rotation(2, psi) @ rotation(0, phi) @ rotation(1, theta)
    force = R @ torch.tensor([0.0, 0.0, thrust], dtype=torch.float64)
    force[2] -= 0.18 * 9.81
    c, s = torch.cos, torch.sin
    E = torch.tensor(
        [[c(theta), 0, -c(phi) * s(theta)], [0, 1, s(phi)], [s(theta), 0, c(phi) * c(theta)]],
        dtype=torch.float64,
    )
    spin = torch.linalg.solve(INERTIA, moments - torch.linalg.cross(rates, INERTIA @ rates))
    change = torch.cat([velocity, force / 0.18, torch.linalg.solve(E, rates), spin])
    torch.testing.assert_close(advance(state, control), state + STEP_SECONDS * change)


def test_the_hover_action_nearly_hovers():
    states, _ = fly(lambda step, state: HOVER, 1)
    assert float((states[0, -1] - START).abs().max()) < 0.01


def test_the_nominal_flight_has_its_golden_numbers(plan):
    assert plan.cost == pytest.approx(4.219739, abs=5e-7)
    golden = [4.415659, 9.247689, -10.29849, 2.277762]
    np.testing.assert_allclose(plan.controls[0], golden, rtol=0, atol=1e-6)


def test_no_small_change_of_the_nominal_controls_is_cheaper(plan):
    controls = plan.controls.clone().requires_grad_()
    states, _ = fly(lambda step, state: controls[step], 1)
    total_cost(states[0], controls).backward()
    assert float(controls.grad.norm()) < 1e-4
    generator = torch.Generator().manual_seed(1)
    noise = 1e-2 * torch.randn(50, 100, 4, generator=generator, dtype=torch.float64)
    near = plan.controls + noise
    states, _ = fly(lambda step, state: near[:, step], len(near))
    assert float(total_cost(states, near).min()) > plan.cost


def test_the_task_has_its_golden_numbers(task):
    x = np.array([task.disturbance, SAFE_SEED, 4 * [10.0], 4 * [0.0]])
    f, g = task.evaluate(x)
    np.testing.assert_allclose(f, [0.743295, -0.999785, 0.664330, -1.0], rtol=0, atol=6e-7)
    np.testing.assert_array_equal(g, [0.5, 0.5, 0.5, -0.5])
    cost = total_cost(task.fly(torch.tensor([SAFE_SEED], dtype=torch.float64)), task.controls)
    assert float(cost) == pytest.approx(556.78, abs=5e-3)


def test_nine_tenths_are_safe_and_the_constraint_is_nearly_binary(task):
    f, g = task.evaluate(20 * np.random.default_rng(0).random((2_000, 4)))
    assert np.mean(g >= 0) == pytest.approx(0.9, abs=0.02)
    assert np.mean((g == 0.5) | (g == -0.5)) > 0.99
    assert f.max() < task.evaluate(np.array([task.disturbance]))[0][0]


def test_flights_at_once_are_those_one_by_one(task):
    x = 20 * np.random.default_rng(2).random((5, 4))
    together = np.stack(task.evaluate(x), axis=1)
    alone = [np.concatenate(task.evaluate(row[None])) for row in x]
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_the_oracle_constants_of_the_paper_are_no_lipschitz_constants(task):
    steepest = []
    for through, axis in [(task.disturbance, 0), (SAFE_SEED, 3)]:
        line = np.tile(through, (2_000, 1))
        line[:, axis] = np.linspace(0.0, 20.0, 2_000)
        values = np.stack(task.evaluate(line))
        steepest.append(np.abs(np.diff(values)).max(axis=1) / (20 / 1_999))
    f, g = np.max(steepest, axis=0)
    assert f > 100 > ORACLE[0]
    assert g == pytest.approx(1_999 / 20) and g > ORACLE[1]


def test_estimated_slopes_are_those_of_the_kernel():
    slopes = np.array([estimate_slopes(np.random.default_rng(seed)) for seed in range(2)])
    assert len(np.unique(slopes)) == 4
    typical = np.sqrt(5 / 3) / 0.1  # standard deviation of a Matern-5/2 function's slope
    assert (slopes > 2 * typical).all() and (slopes < 5 * typical).all()


def test_one_observation_of_the_seed_leaves_nothing_known_to_be_safe_under_the_text(task):
    for beta, observations, is_known in [(10.0, 1, False), (10.0, 10, True), (1.0, 10, True)]:
        tuning = Tuning("", beta, task, observations)
        optimizer = tuning.optimizer(np.random.default_rng(0))
        assert optimizer.safe_mask.any() == is_known


@pytest.mark.parametrize("rule", ["vtl", "itl"])
@pytest.mark.parametrize("beta", [TEXT_BETA, CODE_BETA])
def test_short_runs_stay_safe(task, beta, rule):
    rng, tuning = np.random.default_rng(1), Tuning("", beta, task)
    optimizer = tuning.optimizer(rng, BY_KEY[rule])
    asked = []
    for _ in range(5):
        query = optimizer.ask()
        asked.append(query.x)
        optimizer.tell(query, **tuning.measure(query.x, rng))
    assert (task.evaluate(np.array(asked))[1] >= 0).all()
    # beta 10 never leaves the seed, beta 1 does
    assert (len(np.unique(asked, axis=0)) > 1) == (beta == CODE_BETA)
    assert tuning.regret(optimizer.best.x) <= tuning.regret(np.array(SAFE_SEED))
    assert tuning.regret(np.array(task.disturbance)) == 0


def test_under_the_text_the_safe_set_cannot_grow_even_if_the_seed_is_known_exactly(task):
    optimizer = Tuning("", TEXT_BETA, task).optimizer(np.random.default_rng(0))
    seed = np.array(SAFE_SEED)
    optimizer.tell(seed, constraints={"g": 0.5}, noise_std=1e-3)
    for axis in range(4):
        near = seed.copy()
        near[axis] += 0.005  # the next point of a line is at least that far away
        mean, std = (float(one[0]) for one in optimizer.predict(near[None], "g"))
        assert mean - CODE_BETA * std > 0 > mean - TEXT_BETA * std
    assert (optimizer.points[optimizer.safe_mask] == seed).all()
