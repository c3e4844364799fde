"""The GPU's kernels, run by Triton's interpreter on the CPU, pick what the loop picks."""

import importlib.util
import os

import numpy as np
import pytest
import torch

import sightline as sl
from problems import clustered

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or torch.cuda.is_available(),
    reason="needs Triton, and no GPU: with one, test_cuda.py runs the kernels for real",
)
os.environ.setdefault("TRITON_INTERPRET", "1")

RULES = ["itl", "itl-y", "vtl", "uncertainty", "undirected-itl"]


@pytest.fixture
def fused(monkeypatch):
    """Let the kernels work on rows in the memory of the CPU."""

    def accept(data: torch.Tensor | None) -> bool:
        return data is not None and data.ndim == 2 and data.is_floating_point()

    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_for_numpy(tensor, scope) -> None:
        """NumPy 2.4 no longer turns arrays of one entry into numbers."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patch_for_numpy)
    monkeypatch.setattr("sightline.pools.can_fuse", accept)
    monkeypatch.setattr("sightline.rounds.can_fuse", accept)


def both(monkeypatch, *arguments, **options) -> tuple[sl.Selection, sl.Selection]:
    by_kernels = sl.select(*arguments, **options)
    monkeypatch.undo()
    return by_kernels, sl.select(*arguments, **options)


def assert_same(one: sl.Selection, other: sl.Selection) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.gains, other.gains, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(one.uncertainty, other.uncertainty, rtol=1e-9)
    np.testing.assert_allclose(one.target_variance, other.target_variance, rtol=1e-8)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_rounds_pick_what_the_loop_picks(rule, noise, fused, monkeypatch):
    pool, targets = clustered(300, 20, 6)
    assert_same(*both(monkeypatch, pool, targets, 40, rule=rule, noise_ratio=noise))
