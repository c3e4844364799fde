"""Laplace approximations of the final layer, against dense matrices and closed forms."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import oracle_finetune_embeddings as oracle
import tellmost as tm
from networks import cnn, mlp, with_two_heads
from tellmost.finetune import (
    Embedded,
    Inputs,
    LaplaceCovariance,
    LastLayer,
    LossGradients,
    OutputGradients,
    Outputs,
    Weighted,
    embed,
    fit_laplace,
)
from tellmost.kernels import Kronecker, Linear

ROWS = torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
LABELS = np.arange(12) % 3
EXACT = {"dtype": torch.float64, "batch_size": 5}
STRUCTURES = ["kronecker", "diagonal", "full"]


def dense_parts(model: nn.Module) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """[h, 1] and the curvature of the loss in the outputs, of every row."""
    h = model[1](model[0](ROWS)).detach()
    curvatures = [oracle.curvature_of_softmax(f) for f in model(ROWS).detach()]
    return torch.cat([h, torch.ones(len(h), 1, dtype=h.dtype)], dim=1), curvatures


def dense_curvature(model: nn.Module, structure: str) -> torch.Tensor:
    h, curvatures = dense_parts(model)
    H = oracle.gauss_newton(h, curvatures)
    if structure == "kronecker":
        return torch.kron(sum(curvatures) / len(h), h.T @ h)
    return torch.diag(H.diagonal()) if structure == "diagonal" else H


@pytest.mark.parametrize("structure", STRUCTURES)
def test_covariances_and_evidence_are_those_of_the_dense_curvature(structure):
    model, tau = mlp(), 0.3
    H = dense_curvature(model, structure)
    fit = fit_laplace(model, ROWS, LABELS, structure=structure, prior_precision=tau, batch_size=5)
    expected = torch.linalg.inv(H + tau * torch.eye(len(H), dtype=H.dtype))
    torch.testing.assert_close(fit.covariance(), expected, rtol=1e-9, atol=1e-10)
    likelihood = -float(
        nn.functional.cross_entropy(
            model(ROWS).detach(), torch.from_numpy(LABELS), reduction="sum"
        )
    )
    evidence = oracle.log_evidence(H, fit.weights, likelihood, tau)
    assert fit.log_marginal_likelihood == pytest.approx(evidence, rel=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_prior_precision_is_that_of_largest_evidence(structure):
    model = mlp()
    fits = {
        factor: fit_laplace(model, ROWS, LABELS, structure=structure, prior_precision=tau * factor)
        for tau in [fit_laplace(model, ROWS, LABELS, structure=structure).prior_precision]
        for factor in (0.5, 0.99, 1.0, 1.01, 2.0)
    }
    evidence = {factor: fit.log_marginal_likelihood for factor, fit in fits.items()}
    assert max(evidence, key=evidence.get) == 1.0


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_kernel_is_the_covariance_of_the_materialised_gradients(structure):
    model = mlp()
    fit = fit_laplace(model, ROWS, LABELS, structure=structure, prior_precision=0.1)
    whole = embed(model, ROWS, LossGradients(materialize=True), **EXACT)
    expected = whole.points @ fit.covariance() @ whole.points.T
    whole = fit.weigh(whole, LossGradients(materialize=True))
    torch.testing.assert_close(whole.kernel.block(whole.points, whole.points), expected)
    if structure != "full":
        factors = embed(model, ROWS, LossGradients(), **EXACT)
        weighed = fit.weigh(factors, LossGradients())
        made, k = weighed.points, weighed.kernel
        torch.testing.assert_close(k.block(made, made), expected, rtol=1e-10, atol=1e-14)
        torch.testing.assert_close(k.column(made, made[:1]), expected[:, 0])
        torch.testing.assert_close(k.diagonal(made), expected.diagonal())


def test_a_kernel_of_many_classes_adds_to_the_eigenvalues_exactly():
    """Against the double sum over pairs of entries; the curvatures span 12 powers of 10."""
    generator = torch.Generator().manual_seed(0)
    c, d = 30, 50
    x, z = (torch.randn(n, c + d, dtype=torch.float64, generator=generator) for n in (60, 3))
    values = torch.logspace(0, -6, c)[:, None] * torch.logspace(3, -3, d)
    w = 1 / (values.double() + 1e-3)
    expected = torch.einsum("ij,ni,mi,nj,mj->nm", w, x[:, :c], z[:, :c], x[:, c:], z[:, c:])
    kernel, largest = Kronecker(w), float(expected.abs().max())
    assert float((kernel.block(x, z) - expected).abs().max()) < 1e-12 * largest
    assert float((kernel.column(x, z[1:2]) - expected[:, 1]).abs().max()) < 1e-12 * largest


@pytest.mark.parametrize("structure", STRUCTURES)
def test_variances_of_outputs_are_those_of_the_weights(structure):
    model = cnn()
    pictures, labels = torch.randn(9, 1, 8, 8, dtype=torch.float64), np.arange(9) % 4
    fit = fit_laplace(model, pictures, labels, structure=structure)
    h = torch.cat([model.eval().penultimate(pictures), torch.ones(9, 1)], dim=1).detach()
    C = fit.covariance().reshape(4, 7, 4, 7)
    expected = torch.einsum("nd,cdce,ne->nc", h, C, h)
    torch.testing.assert_close(fit.predictive_variance(model, pictures), expected)
    last = embed(model, pictures, OutputGradients(), **EXACT)
    total = fit.weigh(last, OutputGradients())
    torch.testing.assert_close(total.kernel.diagonal(total.points), expected.sum(dim=1))


def linear_model(weights: torch.Tensor, *, bias: bool) -> nn.Linear:
    """The layer with these (d, c) weights. With a bias, their last row is the bias."""
    made = nn.Linear(5, weights.shape[1], bias=bias).double()
    with torch.no_grad():
        made.weight.copy_(weights[:5].T)
        if bias:
            made.bias.copy_(weights[5])
    return made


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_linear_model_with_gaussian_noise_is_exact(structure, bias):
    """Weights that are the posterior's mean: covariance, variances and evidence in closed form.

    Of the diagonal structure the covariance is that of H without what is off its diagonal.
    """
    generator = torch.Generator().manual_seed(1)
    noise, tau = 0.4, 1.7
    values = torch.randn(12, 2, dtype=torch.float64, generator=generator)
    h = torch.cat([ROWS, torch.ones(12, int(bias), dtype=torch.float64)], dim=1)
    H, eye = h.T @ h / noise**2, torch.eye(h.shape[1], dtype=torch.float64)
    model = linear_model(torch.linalg.solve(H + tau * eye, h.T @ values / noise**2), bias=bias)
    C = torch.linalg.inv((H * eye if structure == "diagonal" else H) + tau * eye)
    close = {"rtol": 1e-8, "atol": 1e-12}
    fit = fit_laplace(
        model, ROWS, values, structure=structure, noise_std=noise, prior_precision=tau
    )
    torch.testing.assert_close(fit.covariance(), torch.block_diag(C, C), **close)
    variance = ((h @ C) * h).sum(dim=1)[:, None].expand(-1, 2)
    torch.testing.assert_close(fit.predictive_variance(model, ROWS), variance, **close)
    kernel = fit.weigh(Embedded(ROWS, None), LastLayer()).kernel
    torch.testing.assert_close(kernel.block(ROWS, ROWS), ROWS @ C[:5, :5] @ ROWS.T, **close)
    gradients = fit.weigh(embed(model, ROWS, OutputGradients(), **EXACT), OutputGradients())
    of_both = gradients.kernel.block(gradients.points, gradients.points)
    torch.testing.assert_close(of_both, 2 * h @ C @ h.T, **close)
    if structure != "diagonal":
        evidence = oracle.gaussian_evidence(h, values, noise, tau)
        assert fit.log_marginal_likelihood == pytest.approx(evidence, rel=1e-8)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("layer", ["1", "2"])
def test_a_covariance_is_of_the_structure_and_the_layer_asked_for(structure, layer):
    model, embedding = with_two_heads(), LastLayer(layer)
    data = Inputs.of(ROWS, "pool")
    weigh = LaplaceCovariance(structure, prior_precision=0.5).fit(model, data, LABELS, embedding)
    fit = fit_laplace(model, ROWS, LABELS, structure=structure, prior_precision=0.5, layer=layer)
    points = embed(model, ROWS, embedding, **EXACT)
    made = weigh(points).kernel.covariance
    assert torch.equal(made, fit.weigh(points, embedding).kernel.covariance)
    assert made.shape == ((6, 6) if layer == "1" else (3, 3))


def test_structures_differ():
    made = [fit_laplace(mlp(), ROWS, LABELS, structure=one).covariance() for one in STRUCTURES]
    assert not torch.allclose(made[0], made[1]) and not torch.allclose(made[0], made[2])


def test_a_fitted_covariance_follows_what_was_observed():
    model = mlp()
    data = Inputs.of(TensorDataset(ROWS, torch.from_numpy(LABELS)), "pool")
    made = embed(model, ROWS, LastLayer(), **EXACT)
    weigh = LaplaceCovariance(prior_precision=2.0).fit(model, data, data.labels(), LastLayer())
    fit = fit_laplace(model, data, prior_precision=2.0)
    C = fit.weigh(made, LastLayer()).kernel.covariance
    weighed = weigh(made)
    assert torch.equal(weighed.kernel.covariance, C) and C.shape == (7, 7)
    nothing = data.subset(np.arange(0))
    before = LaplaceCovariance(prior_precision=2.0).fit(model, nothing, LABELS[:0], LastLayer())(
        made
    )
    torch.testing.assert_close(
        before.kernel.block(made.points, made.points), made.points @ made.points.T / 2
    )
    untouched = LaplaceCovariance().fit(model, nothing, LABELS[:0], LastLayer())(made)
    assert isinstance(untouched, Embedded) and untouched.kernel is None


def test_a_covariance_of_the_callers_weighs_points():
    model, C = mlp(), torch.diag(torch.arange(1.0, 4.0)).double()
    made = embed(model, ROWS, Weighted(Outputs(), C), **EXACT)
    plain = embed(model, ROWS, Outputs(), **EXACT).points
    assert torch.equal(made.points, plain) and isinstance(made.kernel, Linear)
    torch.testing.assert_close(made.kernel.block(plain, plain), plain @ C @ plain.T)
    assert hash(Weighted(Outputs(), C)) is not None


def test_selection_takes_a_laplace_covariance():
    model = mlp()
    fit = fit_laplace(model, ROWS, LABELS)
    picked = []
    for embedding in (LossGradients(), LossGradients(materialize=True)):
        made = fit.weigh(embed(model, ROWS, embedding, **EXACT), embedding)
        chosen = tm.select(
            made.points[3:], made.points[:3], 4, kernel=made.kernel, noise_ratio=0.1
        )
        picked.append(chosen)
    assert picked[0].indices.tolist() == picked[1].indices.tolist()
    assert picked[0].gains == pytest.approx(picked[1].gains, rel=1e-8)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"structure": "block"}, "structure must be 'kronecker', 'diagonal' or 'full'"),
        ({"prior_precision": 0.0}, "prior_precision must be a positive finite number"),
        ({"labels": LABELS + 1}, "class numbers from 0 to 2"),
        ({"labels": LABELS[:5]}, r"a whole number per row, \(12,\)"),
        ({"labels": LABELS / 2}, r"without noise_std.*class numbers.*got float64"),
        ({"labels": None}, "yields no labels"),
        ({"labels": np.zeros((12, 2)), "noise_std": 1.0}, r"\(n, 3\) values"),
        ({"noise_std": -1.0}, "noise_std must be a positive finite number"),
    ],
)
def test_what_cannot_be_fitted_is_explained(changed, message):
    arguments = {"labels": LABELS, **changed}
    with pytest.raises(ValueError, match=message):
        fit_laplace(mlp(), ROWS, arguments.pop("labels"), **arguments)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_inputs_that_are_not_finite_are_named(structure, bad):
    damaged = ROWS.clone()
    damaged[[7, 10]] = bad
    with pytest.raises(ValueError, match=r"are not in batch 1, rows 7 of data. \(a\)"):
        fit_laplace(mlp(), damaged, LABELS, structure=structure, batch_size=5)
    fit = fit_laplace(mlp(), ROWS, LABELS, structure=structure)
    with pytest.raises(ValueError, match="are not in batch 0, rows 7, 10 of data"):
        fit.predictive_variance(mlp(), damaged)


def test_weights_that_are_not_finite_are_not_fitted():
    model = mlp()
    nn.init.constant_(model[2].bias, torch.nan)
    with pytest.raises(ValueError, match="rows 0, 1, 2, 3, 4 and 7 more of data"):
        fit_laplace(model, ROWS, LABELS, structure="diagonal")


def test_values_that_are_not_finite_are_named():
    values = np.zeros((12, 3))
    values[[2, 9], 1] = np.nan
    with pytest.raises(ValueError, match=r"labels must be finite .* not for rows 2, 9 of data"):
        fit_laplace(mlp(), ROWS, values, noise_std=0.5)


def test_what_a_covariance_does_not_fit_is_explained():
    fit = fit_laplace(mlp(), ROWS, LABELS, structure="full")
    with pytest.raises(ValueError, match=r"full covariance needs LossGradients\(materialize=True"):
        fit.weigh(Embedded(ROWS, None), LossGradients())
    with pytest.raises(TypeError, match=r"got Outputs\(\)"):
        fit.weigh(Embedded(ROWS, None), Outputs())
    with pytest.raises(ValueError, match=r"must be \(d, d\)"):
        embed(mlp(), ROWS, Weighted(Outputs(), torch.eye(2)))
    with pytest.raises(ValueError, match="full covariance of 10,010 weights is too large"):
        fit_laplace(mlp(hidden=1_000, classes=10), ROWS, LABELS, structure="full")


def test_weights_that_are_zero_have_no_best_prior():
    model = mlp()
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    with pytest.raises(ValueError, match="all 0"):
        fit_laplace(model, ROWS, LABELS)
