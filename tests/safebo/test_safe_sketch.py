"""Gains from a sketch against those from the kernel itself, and targets that are drawn."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.posterior.sketch import Features, Moments
from tellmost.safebo.outputs import Output, OutputPosterior, OutputValue
from tellmost.safebo.round_state import SEEING_TOLERANCE, SKETCH_TOLERANCE

AXIS = torch.linspace(0, 1, 12, dtype=torch.float64)
POINTS = torch.cartesian_prod(AXIS, AXIS)
NOISE = torch.full((len(POINTS),), 0.04, dtype=torch.float64)
RULES = {
    "vtl": (tm.rules.VTL(), SKETCH_TOLERANCE),
    "itl": (tm.rules.ITL(), SEEING_TOLERANCE),
    "itl-y": (tm.rules.ITL(about="y"), SKETCH_TOLERANCE),
    "mm-itl": (tm.rules.MMITL(), SKETCH_TOLERANCE),
    "ctl": (tm.rules.CTL(), SKETCH_TOLERANCE),
}


def make_pair(rule, tolerance: float) -> tuple[OutputPosterior, OutputPosterior]:
    """A view with a sketch and one without, of the same observations."""
    gp = tm.GP(tm.kernels.Gaussian(0.6), noise_std=0.2)
    output = Output.of(("objective",), gp, POINTS)
    seen = [OutputValue(row, 0.5, 0.04) for row in (0, 17, 17, 80)]
    features = Features.of(output.kernel, POINTS, tolerance, len(POINTS))
    assert features is not None and features.rank < len(POINTS)
    views = [
        OutputPosterior(output, POINTS, NOISE, seen, one, rule)
        for one in (Moments(features), None)
    ]
    return views[0], views[1]


def changing_targets() -> list[torch.Tensor]:
    """Sets of targets that gain and lose some points, and then change altogether."""
    generator = torch.Generator().manual_seed(0)
    first = torch.rand(len(POINTS), generator=generator) < 0.5
    second, third = first.clone(), first.clone()
    second[first.nonzero()[:5, 0]] = False
    third[(~first).nonzero()[:7, 0]] = True
    return [first, second, third, first, ~first]


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_sketch_gives_the_gains_of_the_kernel_while_targets_and_data_change(name):
    rule, tolerance = RULES[name]
    sketched, dense = make_pair(rule, tolerance)
    rows = torch.arange(0, len(POINTS), 3)
    for step, is_target in enumerate(changing_targets()):
        pending = [5, 60] if step % 2 else []
        wanted = dense.gains(rows, is_target, pending)
        found = sketched.gains(rows, is_target, pending)
        # covariances err by some tolerances; logarithms divide that by the noise, 0.04
        torch.testing.assert_close(found, wanted, rtol=0, atol=max(30 * tolerance, 1e-7))
        assert wanted.abs().max() > 0.05
        for view in (sketched, dense):
            view.observe(OutputValue(10 * step + 3, 0.1, 0.09))


def test_gains_with_pending_points_are_those_had_they_been_observed():
    for view in make_pair(*RULES["vtl"]):
        is_target, rows = changing_targets()[0], torch.arange(20)
        expected = view.gains(rows, is_target, [50, 51])
        assert not torch.allclose(expected, view.gains(rows, is_target))
        for row in (50, 51):
            view.observe(OutputValue(row, 3.0, 0.04))
        torch.testing.assert_close(view.gains(rows, is_target), expected, rtol=1e-9, atol=1e-12)


def test_few_features_are_made_where_the_kernel_is_smooth_and_none_where_it_is_rough():
    smooth, rough = tm.kernels.Gaussian(1.0), tm.kernels.Laplace(0.05)
    features = Features.of(smooth, POINTS, 1e-6, 40)
    assert features is not None and features.rank < 40
    left = smooth.block(POINTS, POINTS) - features.rows @ features.rows.T
    assert left.diagonal().min() + 1e-12 >= 0 and left.diagonal().max() <= 1e-6
    assert Features.of(rough, POINTS, 1e-6, 40) is None


def test_two_kernels_that_print_alike_do_not_share_their_features():
    """Gains add over outputs, so it does not matter which of two priors is the objective's."""
    first, second = (tm.kernels.Linear(torch.diag(torch.tensor(c))) for c in ([4.0, 1], [0.1, 2]))
    assert repr(first) == repr(second)
    made = []
    for objective, constraint in ((first, second), (second, first)):
        optimizer = tm.SafeOptimizer(
            POINTS.numpy(),
            objective=tm.GP(objective),
            constraints={"g": tm.Constraint(tm.GP(constraint), at_least=-9.0)},
            targets=lambda known: known.points[:, 0] > 0.5,
        )
        is_open = torch.ones(len(POINTS), dtype=torch.bool)
        made.append(optimizer._rounds.present().targets().gains(is_open, []))
    torch.testing.assert_close(made[0], made[1], rtol=1e-9, atol=1e-12)


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
        optimizer.tell(row, y, {"g": z})
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
    from tellmost.posterior.gp import Data

    elsewhere = torch.tensor([[0.9]], dtype=torch.float64)
    data = Data(elsewhere, torch.tensor([9.0]).double(), torch.tensor([1e-4]).double())
    optimizer = tm.SafeOptimizer(
        np.linspace(0, 0.5, 6),
        objective=tm.GP(tm.kernels.Gaussian(0.1), data=data),
        targets=tm.targets.ThompsonMaximizers(3),
    )
    assert optimizer.target_mask.shape == (6,) and optimizer.target_mask.any()
    assert 0 <= optimizer.ask().index < 6
