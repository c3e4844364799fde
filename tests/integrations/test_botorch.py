"""ITL and VTL as acquisition functions of BoTorch, against the learner and against BoTorch."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import oracle
import tellmost as tm
from problems import tensor

pytest.importorskip("botorch")

from botorch.acquisition import qNegIntegratedPosteriorVariance
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from gpytorch.kernels import MaternKernel, PeriodicKernel, ScaleKernel

from tellmost.integrations.botorch import qITL, qVTL

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")

ANNOTATIONS_FIRST = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)

SIDES = np.array([1.0, 10.0])
rng = np.random.default_rng(0)
X = tensor(SIDES * rng.random((12, 2)))
Y = 20 + 3 * torch.sin(5 * X[:, :1]) + X[:, 1:]
TARGETS = tensor(SIDES * rng.uniform(0.2, 0.6, (8, 2)))
POOL = tensor(SIDES * rng.random((40, 2)))
BOUNDS = torch.stack([torch.zeros(2), tensor(SIDES)]).double()


def make_model(name: str = "default"):
    kernels = {
        "matern": lambda: ScaleKernel(MaternKernel(1.5, ard_num_dims=2)),
        "periodic": lambda: ScaleKernel(PeriodicKernel()),  # none of ours
    }
    return SingleTaskGP(
        X, Y, covar_module=kernels.get(name, lambda: None)(), input_transform=Normalize(2)
    )


MODEL = make_model()
RULES = {
    "vtl": lambda model, targets, **more: qVTL(model, targets, **more),
    "itl": lambda model, targets, **more: qITL(model, targets, **more),
    "itl-y": lambda model, targets, **more: qITL(model, targets, about="y", **more),
}


def learner(rule, model=MODEL, targets=TARGETS, **more):
    return tm.ActiveLearner(model, pool=POOL, targets=targets, rule=rule, **more)


# ---- values


@pytest.mark.parametrize("name", ["default", "matern", "periodic"])
@pytest.mark.parametrize("rule", RULES)
def test_the_value_of_a_point_is_its_gain_for_a_learner(rule, name):
    model = make_model(name)
    gains = learner(rule, model).gains()
    np.testing.assert_allclose(RULES[rule](model, TARGETS)(POOL[:, None]), gains, rtol=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_many_targets_count_up_to_the_rank_of_their_prior_covariance(rule):
    """A dense grid has a covariance that float64 cannot invert."""
    side = torch.linspace(0.2, 0.3, 7, dtype=torch.float64)
    grid = torch.cartesian_prod(side, 10 * side)
    gains = learner(rule, targets=grid).gains()
    np.testing.assert_allclose(RULES[rule](MODEL, grid)(POOL[:, None]), gains, rtol=1e-6)


@pytest.mark.parametrize("name", ["default", "periodic"])
@pytest.mark.parametrize("pending", [0, 2])
@pytest.mark.parametrize("q", [1, 3])
def test_vtl_is_the_fall_of_botorchs_integrated_variance(q, pending, name):
    model = make_model(name)
    waiting = POOL[36 : 36 + pending] if pending else None
    ours = qVTL(model, TARGETS, X_pending=waiting)
    theirs = qNegIntegratedPosteriorVariance(model, TARGETS, X_pending=waiting)
    batches = POOL[:36].reshape(-1, q, 2)
    with torch.no_grad():
        before = model.posterior(TARGETS).variance.mean()
        if waiting is not None:
            before = -qNegIntegratedPosteriorVariance(model, TARGETS)(waiting[None])
        expected = theirs(batches) + before
    np.testing.assert_allclose(ours(batches), expected, rtol=1e-6, atol=1e-9)
    assert int(ours(batches).argmax()) == int(expected.argmax())


@pytest.mark.parametrize("about", ["f", "y"])
def test_itl_is_the_joint_information_by_log_determinants(about):
    """Three points, from the model's prior: D observed, A seen, in both orders."""
    gp = tm.GP.of(MODEL)
    points = torch.cat([POOL[:3], X, TARGETS])
    K = gp.kernel.block(points, points).numpy()
    noise, A, observed = gp.noise_std**2, np.arange(15, 23), list(range(3, 15))
    given_targets = oracle.condition_exactly(K, A, 0.0 if about == "f" else noise)
    logdets = []
    for prior in (K, given_targets):
        left = oracle.condition(prior, observed, np.full(12, noise))[:3, :3]
        logdets.append(np.linalg.slogdet(left + noise * np.eye(3))[1])
    value = qITL(MODEL, TARGETS, about=about)(POOL[None, :3])
    assert value.item() == pytest.approx(0.5 * (logdets[0] - logdets[1]), rel=1e-8)


def test_weights_of_targets_count():
    weights = torch.tensor([1.0, *[0.0] * 7])
    weighted = qVTL(MODEL, TARGETS, target_weights=weights)(POOL[:, None])
    torch.testing.assert_close(weighted, qVTL(MODEL, TARGETS[0])(POOL[:, None]))


def test_noise_may_be_given():
    gains = learner("vtl", noise_std=2.0).gains()
    value = qVTL(MODEL, TARGETS, noise_std=2.0)(POOL[:, None])
    np.testing.assert_allclose(value, gains, rtol=1e-8)
    louder = qITL(MODEL, TARGETS, about="y", target_noise_std=2.0)(POOL[:, None])
    assert bool((louder < qITL(MODEL, TARGETS, about="y")(POOL[:, None])).all())


# ---- batches


@pytest.mark.parametrize("name", ["default", "periodic"])
@pytest.mark.parametrize("rule", RULES)
def test_a_batch_is_worth_its_points_one_after_the_other(rule, name):
    model = make_model(name)
    acquisition = RULES[rule](model, TARGETS)
    together = acquisition(POOL[None, :4]).item()
    alone = []
    for i in range(4):
        acquisition.set_X_pending(POOL[:i] if i else None)
        alone.append(acquisition(POOL[None, i : i + 1]).item())
    assert together == pytest.approx(sum(alone), rel=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_has_no_order_and_more_points_are_never_worth_less(rule):
    acquisition = RULES[rule](MODEL, TARGETS)
    batches = POOL.reshape(8, 5, 2)
    torch.testing.assert_close(acquisition(batches), acquisition(batches.flip(1)))
    sizes = torch.stack([acquisition(batches[:, : i + 1]) for i in range(5)])
    assert bool((sizes[0] >= 0).all()) and bool((sizes.diff(dim=0) > -1e-12).all())


@pytest.mark.parametrize("rule", RULES)
def test_the_same_point_several_times_is_worth_less_each_time(rule):
    acquisition = RULES[rule](MODEL, TARGETS)
    values = torch.stack([acquisition(POOL[:6, None].expand(6, q, 2)) for q in (1, 2, 3)])
    first, second, third = values[0], values[1] - values[0], values[2] - values[1]
    assert bool((second > 0).all()) and bool((first > second).all())
    assert bool((second > third).all())


@pytest.mark.parametrize("rule", RULES)
def test_values_take_the_shape_of_the_batches(rule):
    acquisition = RULES[rule](MODEL, TARGETS)
    values = acquisition(POOL.reshape(2, 5, 4, 2))
    assert values.shape == (2, 5)
    torch.testing.assert_close(values.flatten(), acquisition(POOL.reshape(10, 4, 2)))
    torch.testing.assert_close(acquisition(POOL[:4]), values[0, :1])  # without a batch


@pytest.mark.parametrize("name", ["default", "matern", "periodic"])
@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_those_of_differences(rule, name):
    acquisition = RULES[rule](make_model(name), TARGETS, X_pending=POOL[6:8])
    batches = POOL[:6].reshape(2, 3, 2).clone().requires_grad_()
    assert gradcheck(acquisition, (batches,))
    assert gradcheck(acquisition, (batches[:, :1].detach().requires_grad_(),))


@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_finite_where_points_coincide(rule):
    acquisition = RULES[rule](make_model("matern"), TARGETS)
    batches = torch.cat([TARGETS[:2], TARGETS[:1], X[:1]])[None].requires_grad_()
    acquisition(batches).sum().backward()
    assert bool(torch.isfinite(batches.grad).all())


def test_gradients_do_not_reach_the_model():
    model = make_model()
    qITL(model, TARGETS)(POOL[:3].clone().requires_grad_()).sum().backward()
    assert all(part.grad is None for part in model.parameters())


# ---- BoTorch's optimisers

SEARCH = {"num_restarts": 4, "raw_samples": 32}


def best_on_a_grid(acquisition):
    side = torch.linspace(0, 1, 41, dtype=torch.float64)
    with torch.no_grad():
        return acquisition(torch.cartesian_prod(side, 10 * side)[:, None]).max().item()


@pytest.mark.parametrize("rule", RULES)
def test_optimize_acqf_finds_a_point_better_than_a_dense_grid(rule):
    torch.manual_seed(0)
    acquisition = RULES[rule](MODEL, TARGETS)
    point, value = optimize_acqf(acquisition, BOUNDS, q=1, **SEARCH)
    assert point.shape == (1, 2)
    assert value.item() >= best_on_a_grid(acquisition) - 1e-9


@pytest.mark.parametrize("rule", RULES)
def test_optimize_acqf_finds_batches_one_by_one_and_together(rule):
    torch.manual_seed(0)
    acquisition = RULES[rule](MODEL, TARGETS)
    one_by_one, values = optimize_acqf(acquisition, BOUNDS, q=3, sequential=True, **SEARCH)
    assert one_by_one.shape == (3, 2) and acquisition.X_pending is None
    assert acquisition(one_by_one).item() == pytest.approx(values.sum().item(), rel=1e-6)
    together, value = optimize_acqf(acquisition, BOUNDS, q=3, **SEARCH)
    assert acquisition(together).item() == pytest.approx(value.item())
    assert value.item() > 0.9 * values.sum().item()  # it may end on another hill
    start = {"num_restarts": 1, "batch_initial_conditions": one_by_one[None]}
    _, better = optimize_acqf(acquisition, BOUNDS, q=3, **start)
    assert better.item() >= values.sum().item() - 1e-9


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_optimize_acqf_discrete_picks_as_a_learner_asks(rule, unique):
    acquisition = RULES[rule](MODEL, TARGETS)
    points, values = optimize_acqf_discrete(acquisition, q=4, choices=POOL, unique=unique)
    rows = learner(rule, replace=not unique).ask(4)
    torch.testing.assert_close(points, POOL[rows])
    assert values.shape == (4,)
    assert acquisition(points).item() == pytest.approx(values.sum().item(), rel=1e-8)
    best, value = optimize_acqf_discrete(acquisition, q=1, choices=POOL)
    assert torch.equal(best, points[:1]) and value.item() == pytest.approx(values[0].item())


def test_optimize_acqf_discrete_picks_as_botorchs_integrated_variance():
    expected = qNegIntegratedPosteriorVariance(MODEL, TARGETS)
    theirs, _ = optimize_acqf_discrete(expected, q=3, choices=POOL)
    ours, _ = optimize_acqf_discrete(qVTL(MODEL, TARGETS), q=3, choices=POOL)
    assert torch.equal(ours, theirs)


def test_points_that_were_pending_before_are_pending_afterwards():
    acquisition = qVTL(MODEL, TARGETS, X_pending=POOL[:2])
    before = acquisition(POOL[5:9, None])
    points, _ = optimize_acqf_discrete(acquisition, q=2, choices=POOL[2:])
    assert torch.equal(acquisition.X_pending, POOL[:2]) and len(points) == 2
    torch.testing.assert_close(acquisition(POOL[5:9, None]), before)


# ---- types, devices, errors


def test_a_float32_model_gives_float32_values_from_float64_arithmetic():
    model = SingleTaskGP(X.float(), Y.float(), input_transform=Normalize(2))
    values = qITL(model, TARGETS.float())(POOL.float()[:, None])
    assert values.dtype == torch.float32
    np.testing.assert_allclose(values, qITL(MODEL, TARGETS)(POOL[:, None]), rtol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", ["default", "periodic"])
@pytest.mark.parametrize("rule", RULES)
def test_values_on_a_gpu_are_those_on_the_cpu(rule, name):
    expected = RULES[rule](make_model(name), TARGETS)(POOL.reshape(10, 4, 2))
    model = make_model(name).cuda()
    values = RULES[rule](model, TARGETS.cuda())(POOL.cuda().reshape(10, 4, 2))
    assert values.is_cuda
    np.testing.assert_allclose(values.cpu(), expected, rtol=1e-8)


def test_later_changes_of_the_model_do_not_reach_an_acquisition():
    model = make_model()
    acquisition = qVTL(model, TARGETS)
    before = acquisition(POOL[:, None])
    model.covar_module.lengthscale = 3.0
    assert torch.equal(acquisition(POOL[:, None]), before)


@ANNOTATIONS_FIRST
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: qVTL(MODEL, TARGETS[:, :1]), r"model's inputs, 2; got targets of shape \(8, 1\)"),
        (lambda: qVTL(MODEL, TARGETS, X_pending=POOL[:, :1]), "2; got X_pending of shape"),
        (lambda: qITL(MODEL, TARGETS)(POOL[:, None, :1]), r"2; got X of shape \(40, 1, 1\)"),
        (lambda: qVTL(MODEL, TARGETS[:0]), "targets must not be empty"),
        (lambda: qITL(MODEL, TARGETS / 0), "targets must be finite"),
        (lambda: qITL(MODEL, TARGETS, about="x"), "must be 'f' or 'y'"),
        (lambda: qITL(MODEL, TARGETS, target_noise_std=0.1), 'only with about="y"'),
        (lambda: qVTL(MODEL, TARGETS, target_weights=[1.0]), "one entry per target"),
        (lambda: qVTL(MODEL, TARGETS, noise_std=0.0), "noise_std must be a positive"),
        (lambda: qVTL(SingleTaskGP(X, Y.repeat(1, 2)), TARGETS), "a model for each output"),
        (lambda: qITL(SingleTaskGP(X, Y, 0.1 * Y), TARGETS), "noise_std must be given"),
        (
            lambda: qVTL(MODEL, TARGETS, noise_std=1e-9, X_pending=POOL[[0, 0]]),
            "lost in the rounding of float64",
        ),
    ],
)
def test_what_cannot_be_acquired_says_why(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
