"""Random projections keep inner products, and depend on nothing but their seed."""

import pytest
import torch

from networks import cnn, mlp
from tellmost.finetune import LossGradients, OutputGradients, Outputs, Projected, embed
from tellmost.finetune.projections import seeded_bits, signs

ROWS = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
PICTURES = torch.randn(6, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
KINDS = ["dense", "countsketch"]


@pytest.mark.parametrize("kind", KINDS)
def test_inner_products_are_kept_on_average(kind):
    """200 seeds: the mean is within 5 standard errors, and the variance is that of the docs."""
    model, q = mlp(), 16
    whole = embed(model, ROWS, OutputGradients("all"), dtype=torch.float64).points
    K = whole @ whole.T
    draws = []
    for seed in range(200):
        projected = Projected(OutputGradients("all"), q, kind, seed=seed)
        x = embed(model, ROWS, projected, dtype=torch.float64).points
        draws.append(x @ x.T)
    found = torch.stack(draws)
    squares = whole.square() @ whole.square().T
    norms = K.diagonal()
    variance = (norms[:, None] * norms + K.square() - 2 * squares) / q
    error = (found.mean(dim=0) - K).abs() / (variance / 200).sqrt()
    assert error[~torch.eye(6, dtype=torch.bool)].max() < 5
    assert (found.var(dim=0) / variance).mean() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_batches_nor_parts_change_a_projection(kind, monkeypatch):
    model, projected = cnn(), Projected(OutputGradients("all"), 8, kind, seed=3)
    whole = embed(model, PICTURES, projected, dtype=torch.float64).points
    monkeypatch.setattr("tellmost.finetune.gradients.GRADIENT_BYTES", 20_000)
    monkeypatch.setattr("tellmost.finetune.projections.PROJECTION_BYTES", 700)
    parts = embed(model, PICTURES, projected, dtype=torch.float64, batch_size=4).points
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_chooses_the_projection(kind):
    model = mlp()
    one, again, other = (
        embed(model, ROWS, Projected(Outputs(), 4, kind, seed=seed)).points for seed in (0, 0, 1)
    )
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_materialised_gradients_can_be_projected_and_factors_cannot():
    made = embed(mlp(), ROWS, Projected(LossGradients(materialize=True), 7))
    assert made.points.shape == (6, 7) and made.kernel is None
    with pytest.raises(ValueError, match=r"compared by Outer\(3\).*materialize=True"):
        embed(mlp(), ROWS, Projected(LossGradients(), 7))


def test_bits_are_splitmix64():
    """The first outputs of the published generator for seed 0."""
    state = torch.arange(3)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [value % 2**64 for value in seeded_bits(state, -1).tolist()] == expected


def test_signs_are_the_bits_of_their_words():
    rows = torch.tensor([3, 70_000_000_000])
    drawn = signs(rows, 130, 5, torch.float32)
    for row, made in zip(rows.tolist(), drawn, strict=True):
        words = seeded_bits(row * 3 + torch.arange(3), 5).tolist()
        bits = [word >> k & 1 for word in words for k in range(64)]
        assert made.tolist() == [1.0 - 2 * bit for bit in bits[:130]]


def test_signs_are_even_and_independent_of_their_neighbours():
    drawn = signs(torch.arange(5_000), 70, 0, torch.float64)
    assert drawn.shape == (5_000, 70) and set(drawn.unique().tolist()) == {-1.0, 1.0}
    correlations = drawn.T @ drawn / 5_000 - torch.eye(70, dtype=torch.float64)
    assert correlations.abs().max() < 5.5 / 5_000**0.5
    assert drawn.mean().abs() < 5 / drawn.numel() ** 0.5


@pytest.mark.parametrize(
    ("arguments", "message"), [((0,), "dimension"), ((4, "sparse"), "kind must be 'dense'")]
)
def test_what_is_no_projection_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Projected(Outputs(), *arguments)
