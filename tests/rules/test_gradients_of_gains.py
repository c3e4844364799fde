"""Gradients of gains with respect to the candidates, through a posterior in function space."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import tellmost as tm
from tellmost.kernels import Gaussian, Laplace, Linear, Matern, Scaled, Sum
from tellmost.posterior.function_space import CovarianceAmongRows, FunctionPosterior
from tellmost.posterior.problem import (
    AMONG_CANDIDATES,
    Problem,
    State,
    TargetState,
    covariance_fields,
    prior_correlation,
)
from tellmost.rows.pool import Pool

SMOOTH = [
    "vtl",
    "itl",
    "itl-y",
    "mm-itl",
    "ctl",
    "ctl-y",
    "uncertainty",
    "undirected-itl",
    "undirected-vtl",
    "cosine",
]
KERNELS = {
    "gaussian": Gaussian(0.5),
    "matern": Matern(2.5, 0.5),
    "laplace": Laplace(0.5),
    "sum": Sum(Scaled(Gaussian(0.5), 2.0), Linear()),
}
CPU = torch.device("cpu")


def points(n: int, seed: int) -> Tensor:
    return torch.rand(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


SEEN, TARGETS, WEIGHTS = points(3, 0), points(4, 1), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()


def gain_of(rule, kernel, observations: int = 3):
    """The rule's gain as a function of the candidates, from posteriors that are fixed."""
    posterior, given_targets = FunctionPosterior(kernel, CPU), FunctionPosterior(kernel, CPU)
    given_targets.see_targets(TARGETS, rule.target_noise_variance(0.04) if is_itl(rule) else 0.0)
    for point in SEEN.split(1)[:observations]:
        posterior.observe(point, 0.04)
        given_targets.observe(point, 0.04)
    among = CovarianceAmongRows(problem_of(kernel), posterior)
    of_targets = kernel.diagonal(TARGETS)
    targets = TargetState(posterior.variance(TARGETS), of_targets, WEIGHTS)

    def gain(x: Tensor) -> Tensor:
        prior = kernel.diagonal(x)
        fields = {
            "variance": posterior.variance(x),
            "variance_given_targets": given_targets.variance(x),
            "prior_variance": prior,
            AMONG_CANDIDATES: among.fresh_mean_square(x),
            "correlation": prior_correlation(kernel.block(x, TARGETS), prior, of_targets),
            **covariance_fields(posterior.covariance(x, TARGETS), targets, rule.needs),
        }
        noise = torch.full((len(x),), 0.04, dtype=torch.float64)
        return rule.gain(State(torch.arange(len(x)), observations, noise, fields, targets))

    return gain


def problem_of(kernel) -> Problem:
    """Ten candidates, for a rule that learns about all of them."""
    rows = points(10, 3)
    noise = torch.full((10,), 0.04, dtype=torch.float64)
    return Problem(kernel, Pool.of(rows), noise, kernel.diagonal(rows))


def is_itl(rule) -> bool:
    return isinstance(rule, tm.rules.ITL)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("observations", [0, 3])
def test_gradients_of_a_gain_are_those_of_its_values(name, kernel, observations):
    gain = gain_of(tm.rules.get(name), kernel, observations)
    assert gradcheck(gain, (points(5, 2).requires_grad_(),))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("name", SMOOTH)
def test_a_gradient_changes_no_gain(name, kernel):
    gain, x = gain_of(tm.rules.get(name), kernel), points(50, 2)
    assert torch.equal(gain(x.clone().requires_grad_()), gain(x))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_finite_at_the_targets_and_at_what_was_observed(name, kernel):
    gain = gain_of(tm.rules.get(name), kernel)
    x = torch.cat([SEEN, TARGETS]).requires_grad_()
    gain(x).sum().backward()
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize("name", ["ctl", "cosine"])
def test_a_candidate_of_no_variance_has_gain_and_gradient_zero(name):
    """The origin, for a linear kernel: both are 0 by convention, not 0 divided by 0."""
    gain = gain_of(tm.rules.get(name), Linear())
    x = torch.cat([torch.zeros(1, 2).double(), points(2, 2)]).requires_grad_()
    gains = gain(x)
    gains.sum().backward()
    assert gains.tolist()[0] == 0.0
    assert torch.equal(x.grad[0], torch.zeros(2).double())
    assert bool(torch.isfinite(x.grad).all()) and bool((x.grad[1:] != 0).any())


def test_the_distance_of_a_chosen_candidate_to_itself_has_gradient_zero():
    squared = torch.tensor([0.0, 4.0, torch.inf], dtype=torch.float64, requires_grad=True)
    prior = torch.full((3,), 9.0, dtype=torch.float64)
    fields = {"squared_distance_to_chosen": squared, "prior_variance": prior}
    state = State(torch.arange(3), 1, torch.ones(3, dtype=torch.float64), fields)
    gains = tm.rules.KCenter().gain(state)
    gains.sum().backward()
    assert gains.tolist() == [0.0, 2.0, 3.0]
    assert squared.grad.tolist() == [0.0, 0.25, 0.0]
