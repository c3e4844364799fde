"""Climbs within a box: against dense grids, known summits, and what must never happen."""

from functools import partial
from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tellmost.learner.climbing import find_starts, refine
from tellmost.targets.box import Box

BOXES = {1: Box(-1, 1), 2: Box([-1, 0], [1, 50])}
NOISE = 0.1**2  # a variance


def tensor(values) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# ---- the gains, from the definitions: dense, and nothing of Tellmost in them


def gaussian(x: Tensor, z: Tensor, lengthscale: Tensor) -> Tensor:
    return torch.exp(-((x[:, None] - z) / lengthscale).square().sum(dim=2) / 2)


def matern(x: Tensor, z: Tensor, lengthscale: Tensor) -> Tensor:
    squared = ((x[:, None] - z) / lengthscale).square().sum(dim=2)
    is_apart = squared > 0
    s = sqrt(5) * torch.where(is_apart, squared.where(is_apart, 1.0).sqrt(), 0.0)
    return (1 + s + s.square() / 3) * torch.exp(-s)


class Posterior:
    """A function of prior variance 1 given noisy observations, by a Cholesky factor."""

    def __init__(self, kernel, points: Tensor, noise: Tensor) -> None:
        self.kernel, self.points = kernel, points
        self.factor = torch.linalg.cholesky(kernel(points, points) + torch.diag(noise))

    def whiten(self, x: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, self.kernel(self.points, x), upper=False)

    def variance(self, x: Tensor) -> Tensor:
        return 1 - self.whiten(x).square().sum(dim=0)

    def covariance(self, x: Tensor, z: Tensor) -> Tensor:
        return self.kernel(x, z) - self.whiten(x).T @ self.whiten(z)


def make_gain(rule: str, kernel, observed: Tensor, targets: Tensor):
    posterior = Posterior(kernel, observed, torch.full((len(observed),), NOISE).double())
    noise = torch.cat([torch.full((len(observed),), NOISE), torch.full((len(targets),), 1e-9)])
    given_targets = Posterior(kernel, torch.cat([observed, targets]), noise.double())

    def gain(x: Tensor) -> Tensor:
        v, covariance = posterior.variance(x), posterior.covariance(x, targets)
        if rule == "vtl":
            return covariance.square().mean(dim=1) / (v + NOISE)
        if rule == "itl":
            return ((v + NOISE) / (given_targets.variance(x) + NOISE)).log() / 2
        if rule == "mm-itl":
            explained = covariance.square() / posterior.variance(targets) / (v + NOISE)[:, None]
            return -torch.log1p(-explained).mean(dim=1) / 2
        return v

    return gain


def grid(box: Box) -> Tensor:
    per_side = 2_001 if box.dimension == 1 else 201
    axes = [
        torch.linspace(a, b, per_side).double() for a, b in zip(box.low, box.high, strict=True)
    ]
    return torch.cartesian_prod(*axes).reshape(-1, box.dimension)


@pytest.mark.parametrize("placement", ["inside", "outside"])
@pytest.mark.parametrize("observations", [0, 3, 10])
@pytest.mark.parametrize("kernel", [gaussian, matern])
@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl", "uncertainty"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_the_refined_gain_is_at_least_the_best_of_a_dense_grid(
    dimension, rule, kernel, observations, placement
):
    box = BOXES[dimension]
    drawn = box.sobol(16, 7)
    targets = drawn[10:] if placement == "inside" else drawn[10:] - 0.7 * box.width()
    assert bool(box.contains(targets).all()) == (placement == "inside")
    gain = make_gain(
        rule, partial(kernel, lengthscale=0.3 * box.width()), drawn[:observations], targets
    )
    points = box.sobol(512, 0)
    starts = points[find_starts(points, gain(points), 8, box)]
    refined, gains = refine(gain, starts, box)
    on_the_grid = max(float(gain(some).max()) for some in grid(box).split(5_000))
    assert bool(box.contains(refined).all())
    assert float(gains.max()) >= on_the_grid * (1 - 1e-9)


# ---- known summits


def hill(x: Tensor, top: Tensor, bends: Tensor) -> Tensor:
    """A quadratic hill of height 3; its second derivatives are -bends."""
    away = (x - top) @ torch.linalg.cholesky(bends)
    return 3.0 - away.square().sum(dim=1) / 2


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_climb_ends_on_the_summit(dimension):
    box = Box([-1.0] * dimension, [2.0] * dimension)
    root = torch.randn(dimension, dimension, generator=torch.Generator().manual_seed(0)).double()
    bends, top = root @ root.T + 0.1 * torch.eye(dimension), torch.linspace(-0.5, 1, dimension)
    points, gains = refine(lambda x: hill(x, top.double(), bends), box.sobol(6, 0), box)
    torch.testing.assert_close(points, top.double().expand(6, -1), rtol=0.0, atol=1e-4)
    torch.testing.assert_close(gains, torch.full((6,), 3.0).double(), rtol=1e-11, atol=0.0)


@pytest.mark.parametrize(
    ("top", "end"),
    [
        ([5.0, 0.3], [1.0, 0.3]),
        ([0.2, -7.0], [0.2, 0.0]),
        ([5.0, -7.0], [1.0, 0.0]),
        ([-9.0, 40.0], [-1.0, 2.0]),
    ],
    ids=["face", "other-face", "corner", "far-corner"],
)
def test_a_climb_ends_on_the_face_or_in_the_corner_nearest_to_a_summit_outside(top, end):
    box = Box([-1, 0], [1, 2])
    points, _ = refine(lambda x: -(x - tensor(top)).square().sum(dim=1), box.sobol(8, 1), box)
    torch.testing.assert_close(points, tensor(end).expand(8, -1), rtol=0.0, atol=1e-5)


def test_a_correlated_hill_cut_by_a_face_is_climbed_along_the_face():
    """The best point of the face is not the projection of the summit."""
    box, bends = Box(0, [1, 1]), tensor([[1.0, 0.9], [0.9, 1.0]])
    points, _ = refine(lambda x: hill(x, tensor([1.4, 0.3]), bends), box.sobol(8, 2), box)
    expected = tensor([1.0, 0.3 + 0.9 * 0.4])  # where the slope along the face is 0
    torch.testing.assert_close(points, expected.expand(8, -1), rtol=0.0, atol=1e-5)


def test_sides_of_very_different_length_are_no_obstacle():
    box = Box([0, 0], [1e-6, 1e6])
    top = tensor([3e-7, 7e5])
    points, _ = refine(
        lambda x: torch.exp(-((x - top) / box.width()).square().sum(dim=1)), box.sobol(8, 0), box
    )
    torch.testing.assert_close(
        points / box.width(), (top / box.width()).expand(8, -1), atol=1e-5, rtol=0.0
    )


def test_the_unit_of_the_gain_changes_no_climb():
    box = Box([-1, 0], [1, 2])
    ends = [
        refine(lambda x, unit=unit: unit * x.sin().prod(dim=1), box.sobol(8, 0), box)[0]
        for unit in (1.0, 2.0**-300, 2.0**300)
    ]
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


def test_a_foot_of_a_hill_that_is_a_billionth_as_high_is_left_upwards():
    """A gain far from all targets: exponentially flat, and bent upwards."""
    box = Box(0, 10)
    points, gains = refine(lambda x: torch.exp(-(x - 9.0).square()[:, 0]), tensor([[3.0]]), box)
    assert points.item() == pytest.approx(9.0, abs=1e-5)
    assert gains.item() == pytest.approx(1.0, rel=1e-11)


def test_each_start_climbs_its_own_hill():
    box = Box(0, 1)
    points, _ = refine(
        lambda x: torch.cos(6 * torch.pi * x)[:, 0], tensor([[0.3], [0.7], [0.97]]), box
    )
    torch.testing.assert_close(points, tensor([[1 / 3], [2 / 3], [1.0]]), rtol=0.0, atol=1e-5)


def test_a_kink_at_the_summit_is_found_in_one_dimension():
    """As a Laplace kernel has at its targets."""
    points, gains = refine(
        lambda x: torch.exp(-(x - 0.3).abs())[:, 0], tensor([[0.1], [0.6]]), Box(0, 1)
    )
    torch.testing.assert_close(gains, torch.ones(2).double(), rtol=1e-9, atol=0.0)
    torch.testing.assert_close(points, tensor([[0.3], [0.3]]), rtol=0.0, atol=1e-9)


# ---- what must hold whatever the gain is


@given(
    seed=st.integers(0, 2**31),
    dimension=st.integers(1, 4),
    kind=st.sampled_from(["waves", "bumps", "kinks", "steps"]),
    steps=st.sampled_from([1, 3, 100]),
)
@settings(max_examples=60, deadline=None)
def test_no_climb_ends_lower_than_it_began_or_outside_the_box(seed, dimension, kind, steps):
    g = torch.Generator().manual_seed(seed)
    low = torch.randn(dimension, generator=g).double() * 10
    box = Box(low, low + 10 ** (4 * torch.rand(dimension, generator=g).double() - 2))
    centres, pace = box.sobol(5, seed), 1 + 9 * torch.rand(5, dimension, generator=g).double()

    def gain(x: Tensor) -> Tensor:
        away = (x[:, None] - centres) / box.width() * pace
        shapes = {
            "waves": lambda: away.sum(dim=2).sin(),
            "bumps": lambda: torch.exp(-away.square().sum(dim=2)),
            "kinks": lambda: -away.abs().sum(dim=2),
            "steps": lambda: away.sum(dim=2).ceil() + 0.01 * away.sum(dim=2),
        }
        return shapes[kind]().sum(dim=1)

    starts = box.sobol(6, seed)
    starts[0], starts[1, 0] = tensor(box.low), box.high[0]  # a corner, a face
    points, gains = refine(gain, starts, box, steps=steps)
    assert bool((gains >= gain(starts)).all())
    assert torch.equal(gains, gain(points))
    assert bool(box.contains(points).all())


@pytest.mark.parametrize("level", [0.0, 2.5])
@pytest.mark.parametrize(
    "flat", [lambda x: 0.0 * x.sum(dim=1), lambda x: torch.zeros(len(x)).double()]
)
def test_a_flat_gain_leaves_every_start_where_it_is(flat, level):
    """With or without a graph: the prior variance of a stationary kernel is a constant."""
    box = Box([0, 1], [1, 3])
    starts = box.sobol(5, 0)
    points, gains = refine(lambda x: flat(x) + level, starts, box)
    assert torch.equal(points, starts)
    assert gains.tolist() == [level] * 5


def test_starts_and_gradients_are_left_alone():
    box, starts = Box(0, [1, 1]), Box(0, [1, 1]).sobol(5, 0)
    before, weight = starts.clone(), torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    points, gains = refine(lambda x: weight * x.sin().sum(dim=1), starts, box)
    assert torch.equal(starts, before) and weight.grad is None
    assert not points.requires_grad and not gains.requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_climb_needs_no_gradients_around_it(mode):
    box = Box(0, [1, 1])
    gain = partial(hill, top=tensor([0.3, 0.6]), bends=torch.eye(2).double())
    expected = refine(gain, box.sobol(5, 0), box)
    with mode():
        points, gains = refine(gain, box.sobol(5, 0), box)
    assert torch.equal(points, expected[0]) and torch.equal(gains, expected[1])


# ---- what is refused


@pytest.mark.parametrize(
    ("gain", "message"),
    [
        (lambda x: (x - x).sqrt().sum(dim=1), "its gradient must be finite"),
        (
            lambda x: torch.log(x[:, 0] - 5),
            "gain and its gradient must be finite everywhere in Box",
        ),
        (lambda x: x.detach().sum(dim=1), "gain must be differentiable"),
        (lambda x: x, r"gain must return one number per point; got \(4, 2\) for \(4, 2\)"),
    ],
    ids=["gradient", "value", "detached", "shape"],
)
def test_a_gain_that_cannot_be_climbed_is_refused(gain, message):
    box = Box(0, [1, 1])
    with pytest.raises(ValueError, match=message):
        refine(gain, box.sobol(4, 0), box)


# ---- where climbs begin


def test_starts_are_the_candidates_with_no_better_one_nearby():
    box, points = Box(0, 1), torch.linspace(0, 1, 11).double()[:, None]
    gains = tensor([0.0, 1.0, 0.5, 0.2, 3.0, 2.0, 1.9, 1.8, 1.7, 1.6, 1.9])
    assert find_starts(points, gains, 5, box).tolist() == [4, 10, 1]
    assert find_starts(points, gains, 2, box).tolist() == [4, 10]


def test_the_lower_row_is_the_better_of_two_equals():
    box, points = Box(0, 1), tensor([[0.1], [0.5], [0.6], [0.9]])
    assert find_starts(points, tensor([1.0, 2.0, 2.0, 1.0]), 4, box).tolist() == [1]


def test_nearness_is_measured_in_sides_of_the_box():
    """By the bare numbers row 1, the best, is the nearest of row 0, and the others are far."""
    points = tensor([[0.0, 0.0], [0.9, 10.0], [0.05, 300.0], [0.1, 350.0], [0.2, 400.0]])
    gains = tensor([2.0, 3.0, 1.0, 1.0, 1.0])
    assert find_starts(points, gains, 5, Box(0, [1, 1000])).tolist() == [1, 0]
    assert find_starts(points, gains, 5, Box(0, [1000, 1000])).tolist() == [1]


@given(seed=st.integers(0, 2**31), dimension=st.integers(1, 4), count=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_the_best_candidate_is_the_first_start_and_better_ones_come_first(seed, dimension, count):
    box = Box([0.0] * dimension, [2.0] * dimension)
    points = box.sobol(150, seed)
    gains = (points * 5).sin().sum(dim=1).round(decimals=1)  # with ties
    starts = find_starts(points, gains, count, box)
    assert 1 <= len(starts) <= count
    assert starts[0] == gains.argmax() and bool((gains[starts].diff() <= 0).all())
    assert len(starts.unique()) == len(starts)
    for row in starts.tolist():
        nearest = (points - points[row]).norm(dim=1).argsort(stable=True)[: dimension + 2]
        assert bool((gains[nearest] <= gains[row]).all())


def test_copies_of_the_best_candidate_are_one_start():
    points = torch.cat([tensor([[0.5]] * 9), tensor([[0.1], [0.9]])])
    gains = torch.cat([torch.ones(9).double(), torch.zeros(2).double()])
    assert find_starts(points, gains, 5, Box(0, 1)).tolist() == [0]


def test_gains_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="gains must be numbers; got NaN for row 1"):
        find_starts(tensor([[0.1], [0.2]]), tensor([1.0, torch.nan]), 1, Box(0, 1))
