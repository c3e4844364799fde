"""Health: what can be said about a pool from its rows alone."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from tellmost.evaluation import check
from tellmost.evaluation.health import LEAST_EXAMINED, NEAR_DUPLICATE, Health


def examine(pool, **options) -> Health:
    return check(pool, **{"kernel": "linear", **options}).health


def rows(n=300, d=8, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * rng.uniform(1, 4, (n, 1)) + 0.5).astype(dtype)


def cosines(X):
    length = np.linalg.norm(X, axis=1, keepdims=True)
    U = X / np.where(length > 0, length, 1)
    C = U @ U.T
    np.fill_diagonal(C, -1)
    return C


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 3))
def test_duplicates_are_rows_that_equal_an_earlier_one(seed, n, d):
    X = np.random.default_rng(seed).integers(-1, 2, size=(n, d)).astype(np.float32)
    X[::2] *= -1.0  # some of the zeros are negative
    assert examine(X).duplicates == n - len({tuple(x + 0.0) for x in X})


def test_whole_numbers_and_halves_of_many_rows_are_told_apart():
    grid = np.stack(np.meshgrid(*[np.arange(-8, 8) / 2] * 3), axis=-1).reshape(-1, 3)
    assert examine(grid).duplicates == 0
    assert examine(np.concatenate([grid, grid[::3]])).duplicates == len(grid[::3])


def test_numbers_are_those_of_the_plain_definitions():
    X = rows(dtype=np.float64)
    X[7] = X[3] * 1.5  # another length, the same direction
    X[9] = 0
    health = examine(X)
    norms = np.linalg.norm(X, axis=1)
    M = X.T @ X / len(X)
    assert health.norms.least == 0 and health.norms.zero_rows == 1
    assert health.norms.median == pytest.approx(np.median(norms))
    assert health.norms.spread == pytest.approx(norms.max() / norms[norms > 0].min())
    assert health.near_duplicates == np.mean(cosines(X).max(axis=1) >= NEAR_DUPLICATE)
    assert health.effective_rank == pytest.approx(np.trace(M) ** 2 / np.sum(M**2))
    mean = X.mean(axis=0)
    assert health.share_along_mean == pytest.approx(mean @ mean / np.trace(M))
    np.testing.assert_allclose(health.mean, mean)


@pytest.mark.parametrize("normalize", [None, "unit", "center", "center+unit"])
def test_the_map_is_that_of_principal_components(normalize):
    X = rows(dtype=np.float64)
    used = X - X.mean(axis=0) if normalize and "center" in normalize else X
    if normalize and "unit" in normalize:
        used = used / np.linalg.norm(used, axis=1, keepdims=True)
    seen, used = torch.from_numpy(used), used - used.mean(axis=0)
    _, s, Vt = np.linalg.svd(used)
    health = examine(X, normalize=normalize)
    np.testing.assert_allclose(health.explained, s[:2] ** 2 / np.sum(s**2))
    np.testing.assert_allclose(np.abs(health.principal_directions), np.abs(Vt[:2]), atol=1e-9)
    np.testing.assert_allclose(np.abs(health.project(seen)), np.abs(used @ Vt[:2].T), atol=1e-9)
    largest = np.take_along_axis(
        health.principal_directions, np.abs(Vt[:2]).argmax(axis=1)[:, None], axis=1
    )
    assert np.all(largest > 0)  # one sign of two, always the same


def test_a_sample_stands_for_all_where_all_would_be_too_much(monkeypatch):
    X = rows(4_000, 6)
    X[2_000:] = X[:2_000]  # all rows have a duplicate
    whole = examine(X)
    monkeypatch.setattr("tellmost.evaluation.health.HEALTH_WORK", {"cpu": 72 * 1_500.0, "cuda": 0})
    part = examine(X)
    assert part.near_duplicates_from == LEAST_EXAMINED
    assert part.directions_from == 1_500
    assert part.near_duplicates == 1.0 and part.duplicates == 2_000
    assert part.effective_rank == pytest.approx(whole.effective_rank, rel=0.1)
    assert "from 256 random rows" in " ".join(part.describe().split())
    again = examine(X)
    assert again.to_dict() == part.to_dict()
    assert examine(X, seed=1).effective_rank != part.effective_rank


def test_a_streamed_file_gives_what_the_array_gives(tmp_path):
    X = rows(3_000, 16)
    X[5] = X[2_900]
    np.save(tmp_path / "pool.npy", X)
    held, streamed = examine(X), examine(tmp_path / "pool.npy", memory="2MB")
    assert streamed.duplicates == 1
    assert streamed.effective_rank == pytest.approx(held.effective_rank)
    np.testing.assert_allclose(streamed.principal_directions, held.principal_directions, atol=1e-6)


def test_blocks_of_the_caller_are_examined_too():
    class Blocks:
        def __iter__(self):
            return iter([rows(100), rows(50, seed=1), rows(100)])

    assert examine(Blocks()).duplicates == 100


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (rows() * np.linspace(1, 10, 300)[:, None], "norms differ by a factor"),
        (np.zeros((4, 3)), "4 rows are zero"),
        (np.repeat(rows(20), 2, axis=0), "20 rows copy another"),
        (rows() + 10, "not centred"),
        (rows(d=1) * np.ones((1, 60)), "few directions"),
    ],
)
def test_remarks_name_what_is_odd(X, words):
    assert words in " ".join(examine(X).describe().split())


def test_plain_unit_rows_need_no_remark():
    X = np.random.default_rng(0).standard_normal((500, 20))
    assert examine(X, normalize="unit").remarks == []


@pytest.mark.parametrize("X", [np.ones((1, 1)), np.zeros((2, 1)), np.ones((5, 3)), rows(3, 9)])
def test_tiny_pools_have_finite_numbers_and_short_lines(X):
    health = examine(X)
    said = json.loads(json.dumps(health.to_dict()))
    assert np.isfinite([health.effective_rank, health.share_along_mean, *health.explained]).all()
    assert health.principal_directions.shape == (2, X.shape[1])
    assert said["rows"] == len(X)
    assert max(map(len, health.describe().splitlines())) <= 80


def test_row_numbers_of_a_matrix_are_refused():
    with pytest.raises(ValueError, match="rows of features"):
        examine(np.arange(5))


def test_wrong_pools_meet_the_errors_of_select(tmp_path):
    bad = rows()
    bad[17, 2] = np.nan
    for call in (examine, lambda pool: tm.select(pool, np.ones(8), 1, kernel="linear")):
        with pytest.raises(ValueError, match="row 17 has a NaN"):
            call(bad)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            call(tmp_path / "none.npy")
