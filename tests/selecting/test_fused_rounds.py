"""The GPU's kernels, run by Triton's interpreter on the CPU, pick what the loop picks."""

import importlib.util
import os

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import clustered
from tellmost.rows.pool import Pool

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None or torch.cuda.is_available(),
        reason="needs Triton, and no GPU: with one, test_cuda.py runs the kernels for real",
    ),
]
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

ROWS = 160  # three tiles of the kernels, the last one not full: interpreted kernels are slow
RULES = ["itl", "itl-y", "vtl", "uncertainty", "undirected-itl"]


@pytest.fixture
def fused(monkeypatch):
    """Let the kernels work on rows in the memory of the CPU."""

    def accept(pool: Pool) -> bool:
        data = pool.held
        return data is not None and data.ndim == 2 and data.is_floating_point()

    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_for_numpy(tensor, scope) -> None:
        """NumPy 2.4 no longer turns arrays of one entry into numbers."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patch_for_numpy)
    monkeypatch.setattr(Pool, "is_fused", property(accept))


def both(monkeypatch, *arguments, **options) -> tuple[tm.Selection, tm.Selection]:
    by_kernels = tm.select(*arguments, **options)
    monkeypatch.undo()
    return by_kernels, tm.select(*arguments, **options)


def assert_same(one: tm.Selection, other: tm.Selection) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.gains, other.gains, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(one.uncertainty, other.uncertainty, rtol=1e-9)
    np.testing.assert_allclose(one.target_variance, other.target_variance, rtol=1e-8)


@pytest.mark.parametrize(("rule", "noise"), [*((rule, 1.0) for rule in RULES), ("itl", 0.01)])
def test_rounds_pick_what_the_loop_picks(rule, noise, fused, monkeypatch):
    pool, targets = clustered(ROWS, 20, 6)
    by_kernels, by_loop = both(monkeypatch, pool, targets, 25, rule=rule, noise_ratio=noise)
    assert_same(by_kernels, by_loop)
    assert by_kernels.fingerprint == by_loop.fingerprint
    assert by_kernels.settings["passes"] < 12  # so the rounds did make the picks


OPTIONS = {
    "candidates": {"candidates": np.arange(30, 150, 2)},
    "unit": {"normalize": "unit"},
    "center+unit": {"normalize": "center+unit"},
    "noise per point": {"noise_std": np.linspace(0.1, 0.5, ROWS)},
    "observed": {"observed": [7, 150, 13]},
    "least gain": {"min_gain_share": 0.3},
    "two columns": {"columns_ahead": 2},
    "few": {"k": 3},
    "covariance": {"kernel": tm.kernels.Linear(torch.diag(torch.linspace(0.2, 3.0, 20)))},
    "weights": {"target_weights": np.arange(1.0, 7.0)},
    "scaled": {"kernel": tm.kernels.Scaled(tm.kernels.Linear(), 2.0)},
}


@pytest.mark.parametrize(
    ("rule", "option"),
    [*(("vtl", option) for option in OPTIONS), ("itl", "noise per point"), ("itl", "observed")],
)
def test_options_mean_the_same_to_rounds(rule, option, fused, monkeypatch):
    pool, targets = clustered(ROWS, 20, 6)
    options = {"k": 15, "rule": rule, **OPTIONS[option]}
    assert_same(*both(monkeypatch, pool, targets, **options))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rounds_read_other_dtypes(dtype, fused, monkeypatch):
    pool, targets = (torch.from_numpy(rows).to(dtype) for rows in clustered(ROWS, 20, 6))
    assert_same(*both(monkeypatch, pool, targets, 15))


@pytest.mark.parametrize("rule", ["uncertainty", "undirected-itl"])
def test_rounds_need_no_targets(rule, fused, monkeypatch):
    pool, _ = clustered(ROWS, 20, 6)
    assert_same(*both(monkeypatch, pool, None, 20, rule=rule))


def test_ties_beyond_the_shortlist_go_to_the_lowest_row(fused, monkeypatch):
    """Every row ten times, and a shortlist that holds fewer than that."""
    monkeypatch.setattr("tellmost.selecting.fused_rounds.DRAFTED_FROM", 8)
    pool, targets = clustered(6, 6, 4)
    repeated = np.tile(pool, (10, 1))
    by_kernels = tm.select(repeated, targets, 8)
    monkeypatch.undo()
    np.testing.assert_array_equal(by_kernels.indices, tm.select(repeated, targets, 8).indices)


def test_a_pool_smaller_than_k_ends_as_the_loop_does(fused, monkeypatch):
    pool, targets = clustered(20, 6, 4)
    one, other = both(monkeypatch, pool, targets, min_gain=1e-9)
    assert_same(one, other)
    assert one.stop_reason == other.stop_reason


def test_a_bad_row_is_named(fused):
    pool, targets = clustered(50, 6, 4)
    pool[31, 2] = np.nan
    with pytest.raises(ValueError, match="row 31 has a NaN"):
        tm.select(pool, targets, 2)


@pytest.mark.parametrize(
    ("rule", "begun_by"),
    [("itl", "loop"), ("vtl", "kernels"), ("vtl", "loop"), ("undirected-itl", "kernels")],
)
def test_rounds_go_on_from_a_checkpoint(rule, begun_by, request, tmp_path, monkeypatch):
    pool, targets = clustered(ROWS, 20, 6)
    whole = tm.select(pool, targets, 30, rule=rule)
    path = tmp_path / "run.jsonl"
    if begun_by == "kernels":
        request.getfixturevalue("fused")
    tm.select(pool, targets, 11, rule=rule, checkpoint=path)
    if begun_by == "loop":
        request.getfixturevalue("fused")
    resumed = tm.select(pool, targets, 30, rule=rule, checkpoint=path)
    assert resumed.settings["resumed_picks"] == 11
    assert_same(resumed, whole)


def test_a_shortlist_about_all_targets_holds_longer_among_near_copies(fused, monkeypatch):
    """With few rows on the shortlist, the best ones alone are near-copies of one pick."""
    pool, targets = clustered(40, 20, 6)
    rng = np.random.default_rng(0)
    pool = np.repeat(pool, 4, axis=0) + 0.01 * rng.normal(size=(160, 20))
    monkeypatch.setattr("tellmost.selecting.fused_rounds.DRAFTED_FROM", 16)
    arguments = {"k": 16, "rule": "vtl", "kernel": "linear", "noise_ratio": 0.1}
    spread = tm.select(pool, targets, **arguments)
    monkeypatch.setattr("tellmost.selecting.fused_rounds.SPREAD", 1)
    best = tm.select(pool, targets, **arguments)
    assert spread.settings["rounds"] < best.settings["rounds"]
    monkeypatch.undo()
    assert_same(spread, tm.select(pool, targets, **arguments))
