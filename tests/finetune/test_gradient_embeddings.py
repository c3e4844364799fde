"""Gradients of losses and outputs are those of a plain backward loop."""

import pytest
import torch
from torch import nn

import oracle_finetune_embeddings as oracle
import tellmost as tm
from networks import cnn, mlp
from tellmost.finetune import LossGradients, OutputGradients, embed
from tellmost.kernels import Outer

PICTURES = torch.randn(5, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
ROWS = torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
EXACT = {"dtype": torch.float64, "batch_size": 4}


@pytest.mark.parametrize("bias", [True, False])
def test_loss_gradients_are_those_of_a_backward_loop(bias):
    model = mlp(bias=bias)
    made = embed(model, ROWS, LossGradients(materialize=True), **EXACT)
    torch.testing.assert_close(made.points, oracle.loss_gradients(model, model[2], ROWS))
    assert made.kernel is None


def test_the_product_kernel_is_the_inner_product_of_materialised_gradients():
    model = cnn()
    whole = embed(model, PICTURES, LossGradients(materialize=True), **EXACT).points
    factors = embed(model, PICTURES, LossGradients("head"), **EXACT)
    assert factors.points.shape == (5, 4 + 6 + 1) and isinstance(factors.kernel, Outer)
    K = factors.kernel.block(factors.points, factors.points)
    torch.testing.assert_close(K, whole @ whole.T, rtol=1e-12, atol=0)


def test_selections_by_factors_and_by_materialised_gradients_are_the_same():
    model, pool = mlp(), torch.randn(40, 5, dtype=torch.float64)
    factors = embed(model, pool, LossGradients(), **EXACT)
    whole = embed(model, pool, LossGradients(materialize=True), **EXACT)
    picked = [
        tm.select(
            made.points[5:], made.points[:5], 6, kernel=made.kernel or "linear", noise_ratio=0.1
        )
        for made in (factors, whole)
    ]
    assert picked[0].indices.tolist() == picked[1].indices.tolist()
    assert picked[0].gains == pytest.approx(picked[1].gains, rel=1e-9)


def test_residuals_of_a_sure_network_keep_their_digits():
    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[40.0, 0.0], [0.0, 0.0]]))
    made = embed(model, torch.tensor([[1.0, 0.0]]), LossGradients()).points
    torch.testing.assert_close(made[0, 1], torch.tensor(-40.0).exp())
    assert made[0, 0] == -made[0, 1]


@pytest.mark.parametrize("names", ["all", ("conv.weight", "norm.bias"), ("head.bias",)], ids=str)
def test_output_gradients_are_those_of_a_backward_loop(names):
    model = cnn()
    chosen = [name for name, _ in model.named_parameters()] if names == "all" else list(names)
    expected = oracle.backward_loop(model, PICTURES, chosen)
    made = embed(model, PICTURES, OutputGradients(names), **EXACT).points
    torch.testing.assert_close(made, expected)
    assert model.norm.num_batches_tracked == 1


def test_gradients_made_a_few_at_a_time_are_the_same(monkeypatch):
    model = cnn()
    whole = embed(model, PICTURES, OutputGradients("all"), **EXACT).points
    monkeypatch.setattr("tellmost.finetune.gradients.GRADIENT_BYTES", whole.shape[1] * 8 // 2)
    torch.testing.assert_close(
        embed(model, PICTURES, OutputGradients("all"), **EXACT).points, whole
    )


def test_the_final_layers_tangent_kernel_needs_no_gradients():
    model = cnn()
    names = ["head.weight", "head.bias"]
    expected = oracle.backward_loop(model, PICTURES, names)
    made = embed(model, PICTURES, OutputGradients(), **EXACT).points
    assert made.shape == (5, 7)
    torch.testing.assert_close(made @ made.T, expected @ expected.T)


def test_inputs_by_name_have_gradients_too():
    model = mlp()
    named = [{"input": row} for row in ROWS]
    whole = embed(model, ROWS, OutputGradients("all"), **EXACT).points
    torch.testing.assert_close(embed(model, named, OutputGradients("all"), **EXACT).points, whole)


def test_the_model_keeps_its_gradients():
    model = mlp()
    model(ROWS).sum().backward()
    before = model[0].weight.grad.clone()
    embed(model, ROWS, OutputGradients("all"))
    assert torch.equal(model[0].weight.grad, before)


def test_networks_in_half_precision_have_residuals_in_single():
    model, rows = mlp().half(), ROWS.half()
    made = embed(model, rows, LossGradients()).points
    f = model(rows).float()
    r = f.softmax(dim=1) - nn.functional.one_hot(f.argmax(dim=1), 3)
    torch.testing.assert_close(made[:, :3], r.detach())


def test_weights_that_are_not_finite_are_not_taken_for_other_layers():
    model = mlp()
    nn.init.constant_(model[2].bias, torch.nan)
    with pytest.raises(ValueError, match="not finite in batch 0"):
        embed(model, ROWS, LossGradients())


def test_what_torch_cannot_differentiate_is_explained_with_a_way_out():
    class Branching(nn.Module):
        """Looks at its values, as no network under vmap may."""

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(ROWS.shape[1], 2).double()

        def forward(self, inputs):
            return self.head(inputs if inputs.sum() > 0 else -inputs)

    with pytest.raises(ValueError, match=r"(?s)respect to its 2 parameters .*\('last'\)"):
        embed(Branching(), ROWS, OutputGradients("all"))
    assert len(embed(Branching(), ROWS, OutputGradients("last"))) == len(ROWS)


def test_a_change_in_place_is_seen_in_inference_mode_too():
    model = nn.Sequential(mlp(), nn.ReLU(inplace=True))
    with torch.inference_mode(), pytest.raises(ValueError, match="changes them afterwards"):
        embed(model, ROWS, LossGradients())


FROZEN = mlp().requires_grad_(False)


@pytest.mark.parametrize(
    ("model", "embedding", "message"),
    [
        (nn.Sequential(mlp(), nn.Softmax(dim=1)), LossGradients(), "changes them afterwards"),
        (nn.Sequential(mlp(), nn.ReLU()), LossGradients(), "changes them afterwards"),
        (nn.Sequential(mlp(), nn.ReLU(inplace=True)), LossGradients(), "changes them afterwards"),
        (mlp(), LossGradients("0"), "the model's outputs must be those of its final layer '0'"),
        (mlp(), LossGradients("1"), "'1' is a Tanh"),
        (mlp(classes=1), LossGradients(), "two classes or more"),
        (mlp(), OutputGradients(("0.wight",)), "no parameter '0.wight'; it has 0.weight, 0.bias"),
        (FROZEN, OutputGradients("all"), "let some require a gradient"),
    ],
)
def test_gradients_that_cannot_be_made_are_explained(model, embedding, message):
    with pytest.raises(ValueError, match=message):
        embed(model, ROWS, embedding)


def test_a_single_name_is_to_be_a_tuple():
    with pytest.raises(ValueError, match="'last', 'all' or a tuple of names"):
        OutputGradients("head.weight")


def test_names_in_a_list_are_a_value_like_those_in_a_tuple():
    listed = OutputGradients(["0.weight", "2.bias"])
    assert listed == OutputGradients(("0.weight", "2.bias"))
    assert hash(listed) == hash(OutputGradients(("0.weight", "2.bias")))
    assert embed(mlp(), ROWS, listed).points.shape == (9, 3 * (35 + 3))
