"""Problems at the edge: one sample, samples as targets, ties, singular priors; and bad input."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost import theory
from tiny_problems import RULES

x = np.array([[0.0], [1.0], [2.0]])
a = np.array([[0.5], [3.0]])
ASK = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.5}

QUESTIONS = {
    "capacity": lambda pool, targets, **k: theory.information_capacity(pool, targets, 3, **k),
    "gains": lambda pool, targets, **k: theory.marginal_gains(pool, targets, 3, **k),
    "along": lambda pool, targets, **k: theory.marginal_gains_along(pool, targets, [0], **k),
    "reduction": lambda pool, targets, **k: theory.uncertainty_reduction(pool, targets, [0], **k),
    "interaction": lambda pool, targets, **k: theory.multivariate_information(
        pool, targets, [0, 0], **k
    ),
    "information ratio": lambda pool, targets, **k: theory.information_ratio(
        pool, targets, [0, 0], **k
    ),
    "submodularity ratio": lambda pool, targets, **k: theory.submodularity_ratio(
        pool, targets, 2, **k
    ),
    "boundary": lambda pool, targets, **k: theory.markov_boundary(
        pool, targets, 0.3, method="undirected", **k
    ),
    "size": lambda pool, targets, **k: theory.markov_boundary_size(pool, targets, 0.3, **k),
}


@pytest.fixture(params=QUESTIONS, ids=list(QUESTIONS))
def question(request):
    return QUESTIONS[request.param]


@pytest.mark.parametrize("zero", [0.0, 0, np.array([0.5, 0.0, 0.5])])
def test_exact_observations_are_refused(question, zero):
    with pytest.raises(ValueError, match="noise_std must be"):
        question(x, a, kernel=ASK["kernel"], noise_std=zero)


def test_points_of_other_dimensions_are_refused(question):
    with pytest.raises(ValueError, match="pool and targets must share their feature dimension"):
        question(x, np.ones((2, 2)), **ASK)


def test_points_that_are_not_finite_are_refused(question):
    with pytest.raises(ValueError, match="pool"):
        question(np.array([[0.0], [np.nan]]), a, **ASK)


def test_tensors_and_float32_are_taken(question):
    expected = question(x, a, **ASK)
    found = question(torch.from_numpy(x).float(), torch.from_numpy(a).float(), **ASK)
    np.testing.assert_equal(as_dictionary(found), as_dictionary(expected))


def as_dictionary(value):
    return vars(value) if hasattr(value, "__dataclass_fields__") else value


@pytest.mark.parametrize("targets", [None, x[:1], a[:1], x], ids=["own", "{x}", "{a}", "A=S"])
@pytest.mark.parametrize("pool", [x[:1], x, x[[0, 0, 1]]], ids=["one", "three", "repeated"])
def test_small_and_repeated_sample_spaces_have_answers(question, pool, targets):
    answer = as_dictionary(question(pool, targets, **ASK))
    numbers = answer.values() if isinstance(answer, dict) else [answer]
    for value in numbers:
        if not isinstance(value, str | bool):
            assert not np.isnan(value).any() and np.all(np.asarray(value) >= 0)


@pytest.mark.parametrize("rule", RULES)
def test_targets_that_no_sample_tells_about_have_no_gains_and_ratio_one(rule):
    far = np.array([[1e3]])
    ask = ASK | {"rule": rule}
    assert theory.marginal_gains(x, far, 3, **ask).tolist() == [0, 0, 0]
    assert theory.information_ratio(x, far, [0, 1], **ask) == 1
    assert theory.submodularity_ratio(x, far, 2, **ask).value == 1


def test_a_prior_without_variance_has_capacity_zero():
    nothing = np.zeros((3, 2))
    for method in ("exact", "greedy"):
        found = theory.information_capacity(nothing, None, 2, noise_std=1.0, method=method)
        assert found.value == found.upper == 0


def test_targets_that_are_no_function_of_each_other_may_be_dependent():
    """Two equal targets tell no more than one, and ITL says so where sums over targets do not."""
    ask = {**ASK, "picks": [0, 2]}
    once = theory.uncertainty_reduction(x, a[[0]], **ask)
    twice = theory.uncertainty_reduction(x, a[[0, 0]], **ask)
    assert once == pytest.approx(twice, rel=1e-9)
    by_sum = theory.uncertainty_reduction(x, a[[0, 0]], **ask, rule="mm-itl")
    assert by_sum == pytest.approx(2 * once, rel=1e-9)


def test_a_matrix_may_stand_for_the_kernel(question):
    both = np.concatenate([x, a])
    K = tm.kernels.Precomputed(np.exp(-0.5 * (both - both.T) ** 2))
    found = question(np.arange(3), np.arange(3, 5), kernel=K, noise_std=0.5)
    expected = question(x, a, **ASK)
    for name, value in as_dictionary_of(found).items():
        if not isinstance(value, str):
            np.testing.assert_allclose(value, as_dictionary_of(expected)[name], rtol=1e-8)


def as_dictionary_of(value):
    answer = as_dictionary(value)
    return answer if isinstance(answer, dict) else {"value": answer}


def test_tiny_noise_has_no_nan():
    ask = {"kernel": tm.kernels.Gaussian(3.0), "noise_std": 1e-7}
    for rule in RULES:
        assert np.isfinite(theory.marginal_gains(x, a, 6, rule=rule, **ask)).all()
        assert np.isfinite(theory.marginal_gains_along(x, a, [0, 0, 1], rule=rule, **ask)).all()
        assert 0 < theory.submodularity_ratio(x, a, 3, rule=rule, **ask).value <= 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: theory.marginal_gains(x, a, 2, rule="ctl", **ASK),
            ValueError,
            "rule must be",
        ),
        (lambda: theory.marginal_gains(x, a, 0, **ASK), ValueError, "n must be a whole number"),
        (lambda: theory.marginal_gains(x, a, 2, noise_std="much"), TypeError, "noise_std"),
        (lambda: theory.marginal_gains(x, a, 2, noise_std=[1.0]), ValueError, "per pool row"),
        (lambda: theory.marginal_gains_along(x, a, [3], **ASK), ValueError, "picks.*0 to 2"),
        (lambda: theory.marginal_gains_along(x, a, [0.5], **ASK), TypeError, "integers"),
        (lambda: theory.task_complexity([]), ValueError, "gains must not be empty"),
        (lambda: theory.task_complexity([1.0, -1.0]), ValueError, "negative; got -1"),
        (
            lambda: theory.information_capacity(x, a, 2, method="lazy", **ASK),
            ValueError,
            "method must be",
        ),
        (
            lambda: theory.submodularity_ratio(x, a, 2, method="lazy", **ASK),
            ValueError,
            "method must be",
        ),
        (lambda: theory.markov_boundary(x, a, 0.0, **ASK), ValueError, "epsilon must be"),
        (lambda: theory.markov_boundary(x, a, 1.0, method="both", **ASK), ValueError, "method"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
