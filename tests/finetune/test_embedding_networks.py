"""embed(): rows as the network makes them, wherever they go, and errors that help."""

import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from networks import cnn, mlp
from tellmost.finetune import LastLayer, LossGradients, Outputs, embed

PICTURES = torch.randn(
    11, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
)
ROWS = torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def test_the_last_layer_is_the_one_called_last_and_its_inputs_are_the_points():
    model = cnn()
    made = embed(model, PICTURES, LastLayer(), dtype=torch.float64, batch_size=4)
    torch.testing.assert_close(made.points, model.eval().penultimate(PICTURES).detach())
    assert made.kernel is None and len(made) == 11


class WithSideHead(nn.Module):
    """Calls a head for something else after the one that makes its outputs."""

    def __init__(self, end=lambda outputs: outputs) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(5, 4).double()
        self.main = nn.Linear(4, 3).double()
        self.side = nn.Linear(5, 3).double()
        self.end = end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = self.main(torch.tanh(self.trunk(x)))
        self.aside = self.side(x)
        return self.end(outputs)


SAME = {
    "as they are": lambda outputs: outputs,
    "flattened": lambda outputs: outputs[:, None].flatten(1),
    "copied": lambda outputs: outputs.clone(),
    "in place": lambda outputs: outputs.relu_(),
}


@pytest.mark.parametrize("end", SAME)
def test_a_head_that_is_called_last_but_makes_no_outputs_is_not_the_last_layer(end):
    model = WithSideHead(SAME[end])
    made = embed(model, ROWS, LastLayer(), dtype=torch.float64, batch_size=4).points
    expected = torch.tanh(model.trunk(ROWS)).detach()
    torch.testing.assert_close(made, expected)


def test_gradients_are_those_of_the_head_that_makes_the_outputs():
    found, named = (
        embed(WithSideHead(), ROWS, LossGradients(layer), dtype=torch.float64)
        for layer in (None, "main")
    )
    assert torch.equal(found.points, named.points)


def test_where_no_layer_makes_the_outputs_the_last_layer_is_the_one_called_last():
    model = WithSideHead(lambda outputs: outputs.softmax(dim=1))
    assert torch.equal(embed(model, ROWS, LastLayer(), dtype=torch.float64).points, ROWS)


def test_layers_of_single_tokens_are_not_held_until_the_network_returns():
    held = []

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(5, 5).double() for _ in range(3))
            self.head = nn.Linear(5, 2).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x[:, None].expand(-1, 6, -1)
            for layer in self.layers:
                y = layer(y)
                held.append(weakref.ref(y))
            y = y.mean(dim=1)
            held.append(held[0]())
            return self.head(y)

    embed(Tokens(), ROWS, LastLayer())
    assert held[-1] is None


def test_a_named_layer_gives_its_inputs():
    model = mlp()
    assert torch.equal(embed(model, ROWS, LastLayer("0"), dtype=torch.float64).points, ROWS)


def test_outputs_are_the_networks_own():
    model = mlp()
    made = embed(model, ROWS, Outputs(), dtype=torch.float64).points
    torch.testing.assert_close(made, model(ROWS).detach())


def test_arrays_tensors_and_datasets_with_labels_give_the_same_points():
    model = mlp()
    labelled = TensorDataset(ROWS, torch.zeros(9, dtype=torch.long))
    mappings = [{"input": row, "labels": 1} for row in ROWS]
    whole = embed(model, ROWS, Outputs()).points
    assert torch.equal(embed(model, ROWS.numpy(), Outputs()).points, whole)
    assert torch.equal(embed(model, labelled, Outputs()).points, whole)
    assert torch.equal(embed(model, mappings, Outputs()).points, whole)


def test_an_array_mapped_from_a_file_is_read_without_a_warning(tmp_path, recwarn):
    np.save(tmp_path / "rows.npy", ROWS.numpy())
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert torch.equal(
        embed(mlp(), mapped, Outputs()).points, embed(mlp(), ROWS, Outputs()).points
    )
    assert not recwarn.list


def test_the_model_keeps_its_modes_and_its_hooks():
    model = cnn().train()
    model.norm.eval()
    embed(model, PICTURES, LastLayer())
    assert model.training and model.drop.training and not model.norm.training
    assert not model.head._forward_hooks


def test_a_file_holds_what_a_tensor_would(tmp_path):
    model, path = cnn(), tmp_path / "points.npy"
    mapped = embed(model, PICTURES, LastLayer(), out=path, batch_size=3, dtype=torch.float16)
    kept = embed(model, PICTURES, LastLayer(), batch_size=3, dtype=torch.float16)
    assert isinstance(mapped.points, np.memmap) and mapped.points.dtype == np.float16
    np.testing.assert_array_equal(np.load(path), kept.points.numpy())


def test_a_run_that_fails_leaves_no_file(tmp_path):
    bad = ROWS.clone()
    bad[7, 2] = torch.nan
    with pytest.raises(ValueError, match="not finite in batch 2, rows 7"):
        embed(mlp(), bad, Outputs(), out=tmp_path / "points.npy", batch_size=3)
    assert not list(tmp_path.iterdir())


def test_what_float16_cannot_hold_is_named():
    big = ROWS.clone()
    big[5] = 1e6
    with pytest.raises(ValueError, match=r"exceed the range of torch.float16 in batch 1, rows 5"):
        embed(mlp(), big, LastLayer("0"), dtype=torch.float16, batch_size=4)


@pytest.mark.parametrize(
    ("dtype", "wider"), [(torch.float16, torch.float32), (torch.float32, torch.float64)]
)
def test_the_way_out_of_a_range_is_a_wider_one(dtype, wider):
    with pytest.raises(ValueError, match=f"exceed the range of {dtype} .* Use dtype={wider}"):
        embed(mlp(), ROWS * 1e40, LastLayer("0"), dtype=dtype)
    made = embed(mlp(), ROWS, LastLayer("0"), dtype=wider).points
    assert torch.equal(made, ROWS.to(wider))


def test_progress_is_told_on_stderr(capsys):
    embed(mlp(), ROWS, Outputs(), progress=True, batch_size=4)
    assert "4 of 9 inputs" in capsys.readouterr().err


def test_batches_go_to_the_device_that_is_named():
    seen = set()

    class Looking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.add(x.device.type)
            return torch.zeros(len(x), 2)

    embed(Looking(), ROWS, Outputs(), device="meta", batch_size=4)
    assert seen == {"meta"}


class OneRow(nn.Module):
    """Pools over its inputs, which it must not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=0, keepdim=True)


class Fickle(nn.Module):
    """Skips its layer when it has been called often enough."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5).double()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) if self.calls < 2 else x


@pytest.mark.parametrize(
    ("model", "embedding", "message"),
    [
        (OneRow(), Outputs(), "a row per input; it made 3 for 9 inputs"),
        (Fickle(), LastLayer(), "called no nn.Linear"),
        (nn.LSTM(5, 2).double(), Outputs(), "must return .* got a tuple"),
        (mlp(), LastLayer("head"), r"no layer 'head'; it has 0 \(Linear\), 1 \(Tanh\), 2"),
        (nn.Sequential(nn.Tanh()), LastLayer(), r"no nn.Linear .* It has 0 \(Tanh\)"),
        (nn.Unflatten(1, (1, 5)), Outputs(), r"must return \(b, c\) outputs.*\(4, 1, 5\)"),
        (mlp(), LastLayer, r"embedding must be an object"),
    ],
    ids=[
        "rows lost",
        "layer skipped",
        "two things",
        "no such layer",
        "no linear layer",
        "outputs of rank 3",
        "a class",
    ],
)
def test_what_cannot_be_embedded_is_explained(model, embedding, message):
    with pytest.raises((ValueError, TypeError), match=message):
        embed(model, ROWS, embedding, batch_size=4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": torch.int32}, "dtype must be float16, float32 or float64"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"out": "points.bin"}, "out must be the path of an .npy file"),
        ({"data": ROWS[:0]}, "data must have at least one input"),
        ({"data": (ROWS, torch.zeros(9))}, r"data .* tuple .*TensorDataset"),
        ({"data": [ROWS, torch.zeros(9)]}, r"data .* list .*TensorDataset"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    arguments = {"data": ROWS, **changed}
    with pytest.raises((ValueError, TypeError), match=message):
        embed(mlp(), arguments.pop("data"), Outputs(), **arguments)
