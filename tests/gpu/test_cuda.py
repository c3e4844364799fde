"""A GPU picks what the CPU picks."""

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import targets_for

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def problem(n: int = 20_000, d: int = 64, m: int = 20):
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(10, d, generator=generator)
    noise = torch.randn(n + m, d, generator=generator)
    rows = centres[torch.randint(10, (n + m,), generator=generator)] + 0.7 * noise
    return rows[:n], rows[n:]


@pytest.mark.parametrize("rule", tm.rules.names())
@pytest.mark.parametrize("kernel", [None, tm.kernels.Gaussian(8.0), tm.kernels.Laplace(30.0)])
def test_picks_on_the_gpu_equal_picks_on_the_cpu(rule, kernel):
    pool, targets = problem()
    targets = targets_for(rule, pool, targets)
    cpu = tm.select(pool, targets, 40, rule=rule, kernel=kernel, noise_ratio=0.1)
    gpu = tm.select(pool.cuda(), targets.cuda(), 40, rule=rule, kernel=kernel, noise_ratio=0.1)
    np.testing.assert_array_equal(cpu.indices, gpu.indices)
    np.testing.assert_allclose(cpu.gains, gpu.gains, rtol=1e-8)


def test_device_moves_the_work():
    pool, targets = problem()
    chosen = tm.select(pool, targets, 5, device="cuda", floor=True, kernel="linear")
    assert chosen.settings["device"].startswith("cuda")
    np.testing.assert_array_equal(
        chosen.indices, tm.select(pool, targets, 5, kernel="linear").indices
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_pools_are_picked_from_as_their_float64_values(dtype):
    pool, targets = (rows.to(dtype) for rows in problem())
    half = tm.select(pool.cuda(), targets.cuda(), 20, kernel="linear")
    full = tm.select(pool.double(), targets.double(), 20, kernel="linear")
    np.testing.assert_array_equal(half.indices, full.indices)


@pytest.mark.parametrize("rule", tm.rules.names())
@pytest.mark.parametrize("kernel", [None, tm.kernels.Gaussian(8.0)])
@pytest.mark.parametrize("backend", ["nccl", "gloo", "cpu:gloo,cuda:nccl"])
def test_a_process_group_picks_alike_on_a_gpu(rule, kernel, backend, tmp_path):
    pool, targets = problem()
    targets = targets_for(rule, pool, targets)
    options = {"rule": rule, "kernel": kernel, "noise_ratio": 0.1, "normalize": "center"}
    cpu = tm.select(pool, targets, 20, **options)
    torch.distributed.init_process_group(
        backend, init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        world = torch.distributed.group.WORLD
        gpu = tm.select(pool.cuda(), targets.cuda(), 20, **options, group=world)
    finally:
        torch.distributed.destroy_process_group()
    np.testing.assert_array_equal(cpu.indices, gpu.indices)
    np.testing.assert_allclose(cpu.gains, gpu.gains, rtol=1e-8)
    assert gpu.settings["device"].startswith("cuda")
