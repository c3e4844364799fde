"""A GPU makes of inputs what the CPU makes of them."""

import copy

import numpy as np
import pytest
import torch

import tellmost as tm
from networks import cnn
from tellmost.finetune import (
    Inputs,
    LastLayer,
    LossGradients,
    OutputGradients,
    Outputs,
    Predictive,
    Projected,
    embed,
    fit_laplace,
)
from tellmost.finetune.inputs import name_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

PICTURES = torch.randn(
    20, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
)
EMBEDDINGS = [
    LastLayer(),
    Outputs(),
    LossGradients(),
    OutputGradients("all"),
    Predictive(3),
    Projected(OutputGradients("all"), 9),
    Projected(OutputGradients("all"), 9, "countsketch"),
]


@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=repr)
def test_points_of_the_gpu_are_those_of_the_cpu(embedding, tmp_path):
    model = cnn()
    cpu = embed(model, PICTURES, embedding, dtype=torch.float64, batch_size=8)
    there = copy.deepcopy(model).cuda()
    gpu = embed(there, PICTURES, embedding, dtype=torch.float64, batch_size=8)
    assert gpu.points.is_cuda
    torch.testing.assert_close(gpu.points.cpu(), cpu.points)
    mapped = embed(there, PICTURES, embedding, out=tmp_path / "points.npy").points
    np.testing.assert_allclose(mapped, cpu.points, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("structure", ["kronecker", "diagonal"])
def test_a_laplace_kernel_of_the_gpu_picks_what_that_of_the_cpu_picks(structure):
    picked = []
    for model in (cnn(), cnn().cuda()):
        fit = fit_laplace(model, PICTURES, np.arange(20) % 4, structure=structure)
        made = embed(model, PICTURES, LossGradients(), dtype=torch.float64)
        made = fit.weigh(made, LossGradients())
        chosen = tm.select(made.points[4:], made.points[:4], 5, kernel=made.kernel)
        picked.append(chosen.indices.tolist())
    assert picked[0] == picked[1]


def test_inputs_have_one_name_on_both():
    here, there = (Inputs.of(rows, "pool") for rows in (PICTURES, PICTURES.cuda()))
    assert name_of(here) == name_of(there)
