"""Models of gpytorch and botorch as priors: what they predict, and which are refused."""

from copy import deepcopy

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import tensor
from tellmost.kernels import Gaussian, Matern, Product, Scaled, Sum
from tellmost.testing import check_kernel

pytest.importorskip("botorch")

from botorch.models import (
    KroneckerMultiTaskGP,
    MixedSingleTaskGP,
    ModelListGP,
    MultiTaskGP,
    PairwiseGP,
    SingleTaskGP,
    SingleTaskVariationalGP,
)
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.transforms import (
    ChainedInputTransform,
    Log,
    Normalize,
    Round,
    Warp,
)
from botorch.models.transforms.input import InputPerturbation, InputStandardize
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import (
    GridInterpolationKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, LinearMean, ZeroMean
from gpytorch.models import ExactGP

from tellmost.integrations.models import ModelKernel

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")

SIDES = np.array([0.5, 1.0, 2.0])
rng = np.random.default_rng(0)
X = tensor(5 + SIDES * rng.random((15, 3)))
Y = 30 + 7 * (torch.sin(3 * X[:, :1]) + X[:, 1:2] / 5 + tensor(0.1 * rng.standard_normal((15, 1))))
POOL = tensor(5 + SIDES * rng.random((40, 3)))
UNEQUAL = tensor(rng.uniform(0.1, 1.0, (15, 1)))


class OwnGP(ExactGP):
    """A model that somebody wrote, whose parts have other names and do other things."""

    def __init__(self, y=Y[:, 0], likelihood=None, kernel=None):
        super().__init__(X, y, likelihood or GaussianLikelihood())
        self.trend = LinearMean(3)
        self.kernel = kernel or ScaleKernel(RBFKernel())
        torch.nn.init.constant_(self.trend.weights, 0.1)
        torch.nn.init.constant_(self.trend.bias, 0.3)
        self.double()

    def forward(self, x):
        return MultivariateNormal(self.trend(x), self.kernel(x / tensor(SIDES).to(x)))


class OwnLikelihood(GaussianLikelihood):
    """One that may do anything."""


class MisleadingGP(ExactGP):
    """Parts with the usual names, of which ``forward`` makes something else."""

    def __init__(self):
        super().__init__(X, Y[:, 0], GaussianLikelihood())
        self.mean_module, self.covar_module = ConstantMean(), ScaleKernel(RBFKernel())
        self.double()

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x) + x[..., 0], self.covar_module(x / 2))


class DeepGP(ExactGP):
    """A kernel of what a network makes of x."""

    def __init__(self):
        super().__init__(X, Y[:, 0], GaussianLikelihood())
        torch.manual_seed(0)
        layers = torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)
        self.network = torch.nn.Sequential(*layers)
        self.mean_module, self.covar_module = ConstantMean(), ScaleKernel(RBFKernel())
        self.double()

    def forward(self, x):
        z = self.network(x)
        return MultivariateNormal(self.mean_module(z), self.covar_module(z))


def task(kernel=None, y_variance=None, **parts):
    return SingleTaskGP(X, Y, y_variance, covar_module=kernel, **parts)


def normalized(kernel=None):
    return task(kernel, input_transform=Normalize(3))


def with_constant_mean():
    mean = ConstantMean()
    mean.constant = torch.tensor(2.3)
    return task(mean_module=mean)


def with_linear_mean():
    mean = LinearMean(3).double()
    torch.nn.init.constant_(mean.weights, 0.05)
    torch.nn.init.constant_(mean.bias, 1.0)
    return task(mean_module=mean)


def with_additional_noise():
    known = torch.full((15,), 0.2, dtype=torch.float64)
    return OwnGP(likelihood=FixedNoiseGaussianLikelihood(known, learn_additional_noise=True))


def mixed():
    points = torch.cat([X[:, :2], torch.arange(15)[:, None] % 3], dim=1)
    return MixedSingleTaskGP(points.double(), Y, cat_dims=[2])


WARPED = {"scale": Normalize(3), "warp": Warp(3, indices=[0])}
OURS, THEIRS = "translated", "as it is"
MODELS = {
    "default": (OURS, task),
    "without transforms": (OURS, lambda: task(outcome_transform=None)),
    "normalize": (OURS, normalized),
    "normalize some": (OURS, lambda: task(input_transform=Normalize(3, indices=[0, 2]))),
    "standardize inputs": (OURS, lambda: task(input_transform=InputStandardize(3))),
    "round": (THEIRS, lambda: task(input_transform=Round(integer_indices=[1]))),
    "warp": (THEIRS, lambda: task(input_transform=ChainedInputTransform(**WARPED))),
    "known noise": (OURS, lambda: task(y_variance=torch.full_like(Y, 0.3))),
    "rbf": (OURS, lambda: normalized(ScaleKernel(RBFKernel()))),
    "rbf per dimension": (OURS, lambda: task(ScaleKernel(RBFKernel(ard_num_dims=3)))),
    "matern": (OURS, lambda: normalized(ScaleKernel(MaternKernel(1.5, ard_num_dims=3)))),
    "rough": (OURS, lambda: normalized(ScaleKernel(MaternKernel(0.5)))),
    "sum": (OURS, lambda: normalized(ScaleKernel(RBFKernel()) + MaternKernel(2.5))),
    "product": (OURS, lambda: normalized(ScaleKernel(RBFKernel() * MaternKernel(2.5)))),
    "linear": (OURS, lambda: task(LinearKernel(ard_num_dims=3))),
    "shifted linear": (THEIRS, lambda: normalized(RBFKernel() + LinearKernel())),
    "active dimensions": (
        THEIRS,
        lambda: normalized(RBFKernel(active_dims=[0]) + ScaleKernel(RBFKernel(active_dims=[1]))),
    ),
    "periodic": (THEIRS, lambda: normalized(ScaleKernel(PeriodicKernel()))),
    "zero mean": (OURS, lambda: task(mean_module=ZeroMean())),
    "constant mean": (OURS, with_constant_mean),
    "linear mean": (OURS, with_linear_mean),
    "additional noise": (THEIRS, with_additional_noise),
    "mixed": (THEIRS, mixed),
    "own": (THEIRS, OwnGP),
    "misleading": (THEIRS, MisleadingGP),
    "deep": (THEIRS, DeepGP),
}


def predict(model, points=POOL):
    """The model's own mean and standard deviation of f, in the unit of y."""
    model.eval()
    with torch.no_grad():
        if hasattr(model, "posterior"):
            posterior = model.posterior(points)
            return posterior.mean[:, 0].numpy(), posterior.variance[:, 0].sqrt().numpy()
        return model(points).mean.numpy(), model(points).stddev.numpy()


# ---- the same posterior


@pytest.mark.parametrize("name", MODELS)
def test_a_learner_with_a_model_predicts_as_the_model_does(name):
    model = MODELS[name][1]()
    learner = tm.ActiveLearner(model, pool=POOL, targets=POOL[:3])
    assert len(learner) == 15
    for mine, expected in zip(learner.predict(), predict(model), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-7)
    elsewhere = POOL[:5] + 0.01
    for mine, expected in zip(learner.predict(elsewhere), predict(model, elsewhere), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_a_kernel_becomes_ours_where_there_is_one(name):
    where, make = MODELS[name]
    assert isinstance(tm.GP.of(make()).kernel, ModelKernel) == (where == THEIRS)


@pytest.mark.parametrize("name", ["default", "normalize", "rough", "active dimensions"])
def test_telling_a_learner_is_conditioning_the_model(name):
    model = MODELS[name][1]()
    learner = tm.ActiveLearner(model, pool=POOL, targets=POOL[:3])
    rows, y = learner.ask(2), torch.tensor([[33.0], [41.0]], dtype=torch.float64)
    learner.tell(rows, y[:, 0])
    predict(model)  # botorch conditions models that have predicted
    conditioned = model.condition_on_observations(POOL[rows], y)
    for mine, expected in zip(learner.predict(), predict(conditioned), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-7)
    for mine, read in zip(learner.predict(), again(conditioned), strict=True):
        np.testing.assert_allclose(mine, read, rtol=1e-6, atol=1e-7)


def again(model):
    return tm.ActiveLearner(model, pool=POOL, targets=POOL[:3]).predict()


def test_noise_that_differs_between_observations_counts_in_the_posterior():
    model = task(y_variance=UNEQUAL)
    with pytest.raises(ValueError, match=r"noise_std must be given.*from 0\.\d+ to 0\.9"):
        tm.GP.of(model)
    gp = tm.GP.of(model, noise_std=0.5)
    assert gp.noise_std == 0.5
    np.testing.assert_allclose(gp.data.noise_variance, UNEQUAL[:, 0])
    learner = tm.ActiveLearner(model, pool=POOL, targets=POOL[:3], noise_std=0.5)
    for mine, expected in zip(learner.predict(), predict(model), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-6)


def test_a_learned_noise_beside_a_known_one_counts_once():
    model = with_additional_noise()
    assert tm.GP.of(model).noise_std ** 2 == pytest.approx(model.likelihood.noise[0].item())


def test_data_and_noise_are_in_the_unit_of_the_raw_outputs():
    model = normalized()
    gp = tm.GP.of(model)
    np.testing.assert_allclose(gp.data.points, X)
    np.testing.assert_allclose(gp.data.y, Y[:, 0])
    share = model.likelihood.noise.item() ** 0.5
    assert gp.noise_std == pytest.approx(share * float(Y.std()))
    assert gp.mean == pytest.approx(float(Y.mean()))


def test_hyper_parameters_are_in_the_unit_of_the_raw_inputs():
    kernel = tm.GP.of(normalized(ScaleKernel(RBFKernel()))).kernel
    expected = np.log(2) * (X.amax(0) - X.amin(0))  # gpytorch starts at softplus(0)
    np.testing.assert_allclose(kernel.kernel.lengthscale, expected, rtol=1e-6)
    assert kernel.factor == pytest.approx(np.log(2) * float(Y.var()), rel=1e-6)


TRANSLATIONS = {
    "default": Scaled(Gaussian(1.0), 1.0),
    "matern": Scaled(Matern(1.5), 1.0),
    "sum": Scaled(Sum(Scaled(Gaussian(1.0), 1.0), Matern(2.5)), 1.0),
    "product": Scaled(Product(Gaussian(1.0), Matern(2.5)), 1.0),
}


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_a_translated_kernel_has_the_same_parts(name):
    assert shape(tm.GP.of(MODELS[name][1]()).kernel) == shape(TRANSLATIONS[name])


def shape(kernel):
    parts = [getattr(kernel, part, None) for part in ("kernel", "first", "second")]
    return type(kernel), [shape(part) for part in parts if part is not None]


# ---- types, devices, and what the model keeps


def test_a_float32_model_is_read_in_float64():
    model = SingleTaskGP(X.float(), Y.float(), input_transform=Normalize(3))
    gp = tm.GP.of(model)
    assert gp.data.points.dtype == gp.data.y.dtype == torch.float64
    learner = tm.ActiveLearner(model, pool=POOL, targets=POOL[:3])
    for mine, expected in zip(learner.predict(), predict(model, POOL.float()), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", ["normalize", "linear", "periodic"])
def test_a_model_on_a_gpu_predicts_wherever_the_pool_is(name):
    model = MODELS[name][1]()
    expected = predict(model)
    for pool in (POOL, POOL.cuda()):
        learner = tm.ActiveLearner(model.cuda(), pool=pool, targets=pool[:3])
        for mine, theirs in zip(learner.predict(), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("is_training", [True, False])
def test_reading_a_model_does_not_change_it(is_training):
    model = normalized().train(is_training)
    before, inputs = deepcopy(model.state_dict()), model.train_inputs[0].clone()
    again(model)
    assert model.training == is_training and torch.equal(model.train_inputs[0], inputs)
    for key, values in model.state_dict().items():
        assert torch.equal(values, before[key])
    assert all(part.requires_grad and part.grad is None for part in model.parameters())


@pytest.mark.parametrize("name", ["default", "periodic", "linear mean"])
def test_later_changes_of_a_model_do_not_reach_the_prior(name):
    model = MODELS[name][1]()
    learner = tm.ActiveLearner(model, pool=POOL, targets=POOL[:3])
    before = learner.predict(POOL[:5])
    for values in model.parameters():
        values.data += 1.0
    np.testing.assert_array_equal(learner.predict(POOL[:5]), before)


@pytest.mark.parametrize("name", ["warp", "own", "mixed"])
def test_a_models_kernel_keeps_the_contract(name):
    kernel = tm.GP.of(MODELS[name][1]()).kernel
    points = POOL[:8].clone()
    points[:, 2] = torch.arange(8) % 3 if name == "mixed" else points[:, 2]
    assert check_kernel(kernel, points) is None


def test_gradients_of_a_models_kernel_reach_the_points_and_not_the_model():
    model = MODELS["periodic"][1]()
    x = POOL[:4].clone().requires_grad_()
    tm.GP.of(model).kernel.block(x, POOL[4:]).square().sum().backward()
    assert float(x.grad.abs().sum()) > 0
    assert all(part.grad is None for part in model.parameters())


# ---- words

PRINTED = {
    "matern": ["Matern-3/2 with lengthscales", "mean 37.32", "15 observations"],
    "linear mean": ["mean LinearMean(x)"],
    "own": ["ModelKernel(OwnGP) with", "kernel.base_kernel.lengthscale 0.6931", "mean OwnGP(x)"],
    "deep": ["network.0.weight of 24 values", "noise standard deviation 0.8326"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_prior_of_a_model_is_printed_in_a_line(name):
    text = str(tm.GP.of(MODELS[name][1]()))
    assert "\n" not in text and len(text) < 500
    assert all(part in text for part in PRINTED[name]), text
    assert "likelihood" not in text and "mean_module" not in text


# ---- errors


def tasks(**parts):
    points = torch.cat([X, torch.arange(15)[:, None] % 2], dim=1).double()
    return MultiTaskGP(points, Y, task_feature=-1, **parts)


def missing():
    return OwnGP(torch.where(Y[:, 0] > 37, torch.nan, Y[:, 0]))


def without_data():
    model = OwnGP()
    model.train_inputs = model.train_targets = None
    return model


PERTURBED = InputPerturbation(torch.zeros(2, 3, dtype=torch.float64))
REFUSED = {
    "two outputs": (lambda: SingleTaskGP(X, Y.repeat(1, 2)), "Fit a model for each output"),
    "a batch": (lambda: SingleTaskGP(X.repeat(2, 1, 1), Y.repeat(2, 1, 1)), "one output"),
    "a list": (lambda: ModelListGP(task()), "Pass one of model.models"),
    "tasks": (tasks, "MultiTaskGP is about several tasks"),
    "a task": (lambda: tasks(output_tasks=[0]), "Fit a SingleTaskGP to the task"),
    "tasks of one noise": (
        lambda: tasks(likelihood=GaussianLikelihood(), outcome_transform=None),
        "about several tasks",
    ),
    "all tasks everywhere": (lambda: KroneckerMultiTaskGP(X, Y.repeat(1, 2)), "one output"),
    "an ensemble": (lambda: EnsembleMapSaasSingleTaskGP(X, Y), "averages over many"),
    "variational": (lambda: SingleTaskVariationalGP(X, Y), "exact inference"),
    "comparisons": (lambda: PairwiseGP(X, torch.tensor([[0, 1]])), "exact inference"),
    "a network": (lambda: torch.nn.Linear(3, 1), "exact inference.*got Linear"),
    "a grid": (
        lambda: OwnGP(kernel=GridInterpolationKernel(RBFKernel(), grid_size=9, num_dims=3)),
        "interpolates its predictions from a grid",
    ),
    "logarithms": (lambda: task(outcome_transform=Log()), "under Log they may not be Gaussian"),
    "perturbed": (lambda: task(input_transform=PERTURBED), "transformed alike in training"),
    "no data": (without_data, "OwnGP has none. Its kernel alone is a prior"),
    "missing values": (missing, r"training data are finite; value \d+ is nan"),
    "another noise": (
        lambda: OwnGP(likelihood=OwnLikelihood()),
        "whose noise is known at every point; got OwnLikelihood",
    ),
    "nothing": (lambda: None, "exact inference.*got NoneType"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_is_no_prior_and_data_is_refused(name):
    make, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        tm.GP.of(make())


@pytest.mark.parametrize("name", ["default", "periodic", "own"])
def test_a_pool_of_other_features_than_the_model_is_refused(name):
    with pytest.raises(
        ValueError, match=r"got pool \(40, 2\) and the data of the prior \(15, 3\)"
    ):
        tm.ActiveLearner(MODELS[name][1](), pool=POOL[:, :2], targets=POOL[:3, :2])


def test_the_mean_of_a_model_is_its_own():
    with pytest.raises(ValueError, match="mean belongs to the model"):
        tm.ActiveLearner(task(), pool=POOL, targets=POOL[:3], mean=1.0)
