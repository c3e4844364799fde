"""Members of an ensemble, and networks drawn by dropout."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from networks import cnn, mlp
from tellmost.finetune import Predictive, embed

ROWS = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
PICTURES = torch.randn(7, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def ensemble() -> tuple[nn.Module, ...]:
    made = []
    for seed in range(4):
        torch.manual_seed(seed)
        made.append(nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 2)).double())
    return tuple(made)


def test_an_ensembles_kernel_is_the_covariance_of_its_predictions():
    members = ensemble()
    x = embed(mlp(), ROWS, Predictive(list(members)), dtype=torch.float64).points
    outputs = np.stack([member.eval()(ROWS).detach().numpy() for member in members])
    expected = sum(np.cov(outputs[:, :, c].T) for c in range(2))
    np.testing.assert_allclose((x @ x.T).numpy(), expected, rtol=1e-12, atol=1e-15)


def test_members_keep_their_modes():
    members = ensemble()
    embed(mlp(), ROWS, Predictive(members))
    assert all(member.training and member[1].training for member in members)


def test_a_draw_leaves_out_the_same_units_for_every_input():
    """Dropout on a linear network: the members are linear, so their deviations are too."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6, bias=False), nn.Dropout(0.5), nn.Linear(6, 2)).double()
    inputs = torch.stack([ROWS[0], ROWS[1], ROWS[0] + 2 * ROWS[1]])
    x = embed(model, inputs, Predictive(8), dtype=torch.float64, batch_size=2).points
    torch.testing.assert_close(x[2], x[0] + 2 * x[1])
    assert x.abs().max() > 0


def test_units_are_kept_with_their_probability_and_scaled():
    """Outputs averaged over many draws are those of the network without dropout."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(5, 1, bias=False)).double()
    weights = model[1].weight.detach()[0]
    x = embed(model, ROWS[:1], Predictive(1_000), dtype=torch.float64).points
    variance = float((weights * ROWS[0]).square().sum()) * 0.3 / 0.7
    assert float((x @ x.T)[0, 0]) == pytest.approx(variance, rel=0.15)


def test_draws_depend_on_the_seed_and_not_on_batches():
    model = cnn()
    one = embed(model, PICTURES, Predictive(3), dtype=torch.float64).points
    cut = embed(model, PICTURES, Predictive(3), dtype=torch.float64, batch_size=3).points
    other = embed(model, PICTURES, Predictive(3, seed=1), dtype=torch.float64).points
    torch.testing.assert_close(one, cut)
    assert not torch.allclose(one, other)
    assert not model.drop._forward_hooks


def test_channels_are_left_out_whole():
    model = nn.Sequential(nn.Dropout2d(0.5), nn.Flatten()).double()
    ones = torch.ones(1, 6, 2, 2, dtype=torch.float64)
    x = embed(model, ones, Predictive(5), dtype=torch.float64).points.reshape(5, 6, 4)
    assert torch.equal(x, x[:, :, :1].expand_as(x)) and x.abs().max() > 0


@pytest.mark.parametrize(
    ("members", "message"),
    [(1, "at least 2"), ([mlp()], "at least 2")],
)
def test_members_that_cannot_differ_are_refused(members, message):
    with pytest.raises(ValueError, match=message):
        Predictive(members)


def test_a_network_without_dropout_has_no_draws():
    with pytest.raises(ValueError, match=r"no nn.Dropout .* Give several networks"):
        embed(mlp(), ROWS, Predictive(3))


class Dead(nn.Module):
    """Has dropout that it never calls, or calls with p = 0 alone."""

    def __init__(self, *, calls: bool) -> None:
        super().__init__()
        self.inner, self.drop, self.none = mlp(), nn.Dropout(0.5), nn.Dropout(0.0)
        self.calls = calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.none(x) if self.calls else x)


@pytest.mark.parametrize("calls", [True, False])
def test_dropout_that_is_not_used_makes_no_draws(calls):
    with pytest.raises(ValueError, match=r"forward pass calls none of its nn.Dropout layers"):
        embed(Dead(calls=calls), ROWS, Predictive(3))


def test_networks_that_are_the_same_are_no_ensemble():
    first, second = ensemble()[:2]
    with pytest.raises(ValueError, match="networks that differ; these 3 have the same weights"):
        embed(mlp(), ROWS, Predictive((first, first, deepcopy(first))))
    embed(mlp(), ROWS, Predictive((first, first, second)))


def test_networks_that_differ_may_agree_on_an_input():
    models = tuple(nn.Linear(5, 2, bias=False).double() for _ in range(2))
    made = embed(mlp(), torch.zeros(1, 5, dtype=torch.float64), Predictive(models)).points
    assert torch.equal(made, torch.zeros(1, 4))


def test_layers_are_left_out_by_masks_of_their_own():
    """Two layers of the same width: were their masks alike, a unit would be dropped by both."""
    first, second = nn.Dropout(0.5), nn.Dropout(0.5)

    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.first(x), self.second(x)], dim=1)

    ones = torch.ones(1, 200, dtype=torch.float64)
    x = embed(Beside(), ones, Predictive(2), dtype=torch.float64).points.reshape(2, 2, 200)
    agreement = (x[:, 0] == x[:, 1]).double().mean()
    assert float(agreement) < 0.6  # 3/8 if they are independent
