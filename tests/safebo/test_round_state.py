"""Functions that are drawn from the posteriors of a state, and targets that follow from them."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.posterior.gp import Data, first_occurrences

DRAWS = 40_000
X = np.array([[0.0], [0.7], [0.0], [1.5], [2.9]])  # one point is there twice
SOME = torch.tensor([False, True, True, True, False])


@pytest.fixture(scope="module")
def optimizer():
    """Two outputs whose kernels and means differ, told of one row."""
    made = tm.SafeOptimizer(
        X,
        objective=tm.GP(tm.kernels.Gaussian(1.0), mean=5.0, noise_std=0.3),
        constraints={
            "g": tm.Constraint(
                tm.GP(tm.kernels.Matern(0.5, 0.3), mean=2.0, noise_std=0.3), at_least=0.5
            )
        },
        safe_seed=[3],
        beta=2.0,
        on_miscalibration="log",
        suspect_z=np.inf,
    )
    made.tell(row=3, objective=6.0, constraints={"g": 2.5})
    return made


def posterior_of(kernel, mean, y):
    """By the definition, at all rows."""
    x = torch.from_numpy(X)
    K = kernel.block(x, x).numpy()
    k = K[:, [3]]
    gain = k / (K[3, 3] + 0.3**2)
    return mean + gain[:, 0] * (y - mean), K - gain @ k.T


OBJECTIVE = (tm.kernels.Gaussian(1.0), 5.0, 6.0)
CONSTRAINT = (tm.kernels.Matern(0.5, 0.3), 2.0, 2.5)


def state_of(optimizer):
    return optimizer._rounds.present().state


def agree(drawn, mean, covariance):
    """Within five standard errors of means and covariances of so many draws."""
    error = 5 / np.sqrt(DRAWS)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=error * 2)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=error * 2)


@pytest.mark.parametrize(("number", "prior"), [(0, OBJECTIVE), (1, CONSTRAINT)])
def test_functions_drawn_at_some_rows_have_their_mean_and_covariance(optimizer, number, prior):
    state = state_of(optimizer)
    assert torch.equal(state.points, torch.from_numpy(X))
    generator = torch.Generator().manual_seed(number)
    drawn = state.posteriors[number].belief.sample_rows(DRAWS, generator, SOME).numpy()
    scale = state.scale(number)
    mean, covariance = posterior_of(*prior)
    rows = SOME.numpy()
    agree(drawn * scale, mean[rows], covariance[np.ix_(rows, rows)])


def test_every_output_is_drawn_with_its_own_covariance(optimizer):
    state = state_of(optimizer)
    objectives, margins = state.draw(DRAWS, torch.Generator().manual_seed(2))
    agree(objectives.numpy(), *posterior_of(*OBJECTIVE))
    mean, covariance = posterior_of(*CONSTRAINT)
    scale = state.scale(1)
    agree(margins.numpy() * scale, mean - 0.5, covariance)


def test_a_point_that_two_rows_have_is_drawn_once(optimizer):
    first, place = first_occurrences(torch.from_numpy(X))
    assert first.tolist() == [0, 1, 3, 4] and place.tolist() == [0, 1, 0, 2, 3]
    state = state_of(optimizer)
    drawn = state.posteriors[0].belief.sample_rows(9, torch.Generator().manual_seed(0))
    assert torch.equal(drawn[:, 0], drawn[:, 2]) and not torch.equal(drawn[:, 0], drawn[:, 1])
    root = state.posteriors[0].belief.root_of_rows()
    torch.testing.assert_close(root @ root.T, torch.from_numpy(posterior_of(*OBJECTIVE)[1]))


# ---- targets that are drawn


def drawing(limit: float, **arguments) -> tm.SafeOptimizer:
    gp = tm.GP(tm.kernels.Matern(1.5, 0.3), noise_std=0.1)
    optimizer = tm.SafeOptimizer(
        np.linspace(0, 1, 12),
        objective=tm.GP(tm.kernels.Matern(1.5, 0.3), noise_std=0.1),
        constraints={"g": tm.Constraint(gp, at_least=limit)},
        targets=tm.targets.ThompsonMaximizers(6),
        safe_seed=[4],
        **arguments,
    )
    for row, y, z in ((4, 0.2, 1.0), (5, 0.4, 0.8)):
        optimizer.tell(row=row, objective=y, constraints={"g": z})
    return optimizer


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_drawn_targets_are_the_best_safe_points_of_joint_draws(direction):
    optimizer = drawing(0.5, direction=direction)
    known = optimizer._rounds.present().known()
    values, margins = known.sample_jointly(6)
    values = -values if direction == "minimize" else values
    wanted = set()
    for f, g in zip(values, margins, strict=True):
        safe = [i for i in range(12) if g[i] >= 0]
        wanted.add(max(safe, key=lambda i, f=f: f[i]) if safe else int(g.argmax()))
    assert set(np.flatnonzero(optimizer.target_mask)) == wanted


def test_a_draw_without_a_safe_point_names_the_one_nearest_to_it():
    optimizer = drawing(50.0)
    _, margins = optimizer._rounds.present().known().sample_jointly(6)
    assert (margins < 0).all()
    assert set(np.flatnonzero(optimizer.target_mask)) == set(margins.argmax(axis=1))


def test_objective_and_constraint_that_are_one_function_are_drawn_as_one():
    gp = tm.GP(tm.kernels.Matern(1.5, 0.3), noise_std=0.1)
    constraint = tm.Constraint(gp, at_least=0.1)
    optimizer = tm.SafeOptimizer(np.linspace(0, 1, 9), objective=gp, constraints={"g": constraint})
    values, margins = optimizer._rounds.present().known().sample_jointly(5)
    np.testing.assert_allclose(margins, values - 0.1, atol=1e-12)


def test_drawn_targets_are_points_of_the_domain_although_the_prior_has_data_elsewhere():
    elsewhere = torch.tensor([[0.9]], dtype=torch.float64)
    data = Data(elsewhere, torch.tensor([9.0]).double(), torch.tensor([1e-4]).double())
    optimizer = tm.SafeOptimizer(
        np.linspace(0, 0.5, 6),
        objective=tm.GP(tm.kernels.Gaussian(0.1), data=data),
        on_miscalibration="log",
        targets=tm.targets.ThompsonMaximizers(3),
    )
    assert optimizer.target_mask.shape == (6,) and optimizer.target_mask.any()
    assert 0 <= optimizer.ask().index < 6


def test_the_chance_to_keep_other_limits_leaves_out_those_of_the_objective():
    scaled = tm.kernels.Scaled(tm.kernels.Gaussian(1.0), 4.0)
    objective = tm.GP(scaled, mean=5.0, noise_std=0.3)
    other = tm.GP(tm.kernels.Matern(0.5, 0.3), mean=2.0, noise_std=0.3)
    limits = {"f": tm.Constraint(objective, at_least=4.0), "g": tm.Constraint(other, at_least=0.5)}
    optimizer = tm.SafeOptimizer(
        X, objective=objective, constraints=limits, safe_seed=[3], beta=2.0
    )
    optimizer.tell(row=3, objective=6.0, constraints={"g": 2.5})
    mean, covariance = posterior_of(*CONSTRAINT)
    expected = torch.special.ndtr(torch.from_numpy((mean - 0.5) / np.sqrt(np.diag(covariance))))
    torch.testing.assert_close(state_of(optimizer).chance_of_others(), expected)
    assert state_of(optimizer).model.limits_of_objective == (4.0, np.inf)
