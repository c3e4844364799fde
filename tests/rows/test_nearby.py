"""Rows near to given ones, which keep evaluation data out of the picks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm

RNG = np.random.default_rng(0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(-0.9, 0.95))
def test_a_row_is_near_if_one_cosine_is_large_enough(seed, n, cosine):
    rng = np.random.default_rng(seed)
    pool, rows = rng.standard_normal((n, 3)), rng.standard_normal((4, 3))
    expected = oracle.cosines(pool, rows).max(axis=1)
    is_clear = np.abs(expected - cosine) > 1e-9
    np.testing.assert_array_equal(
        tm.near(pool, rows, cosine)[is_clear], (expected >= cosine)[is_clear]
    )


def test_copies_are_near_at_a_cosine_of_one_and_zeros_are_near_to_nothing():
    pool = RNG.standard_normal((50, 7)).astype(np.float32)
    pool[3] = 0.0
    mask = tm.near(pool, 3 * pool[[7, 20]], cosine=1.0)
    assert np.flatnonzero(mask).tolist() == [7, 20] and mask.dtype == np.bool_
    assert not tm.near(pool, pool[3:4], 0.98).any()
    assert np.flatnonzero(tm.near(pool, pool[9], 1)).tolist() == [9]


def test_files_and_tensors_give_the_same_mask_and_keep_test_data_out(tmp_path):
    pool, test = RNG.standard_normal((3_000, 5)), RNG.standard_normal((30, 5))
    expected = oracle.cosines(pool, test).max(axis=1) >= 0.9
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "test.npy", test)
    for some in (pool, torch.from_numpy(pool), tmp_path / "pool.npy"):
        np.testing.assert_array_equal(tm.near(some, tmp_path / "test.npy", 0.9), expected)
    chosen = tm.select(pool, test, 20, candidates=~expected)
    assert 0 < expected.sum() < 3_000 and not expected[chosen.indices].any()


def test_columns_and_texts_are_named_as_in_select(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "counts.py").write_text(
        "def embed(texts):\n    return [[t.count('a'), t.count('b'), 1] for t in texts]\n"
    )
    texts = ["aab", "bba", "aba", "b"]
    vectors = tm.embed(texts, "counts:embed")
    pool = pandas.DataFrame({"text": texts, "one": list(vectors), "two": list(-vectors)})
    rows = pandas.DataFrame({"text": ["baa"], "two": [-vectors[0]]})
    for named in ({"text": "text", "embed": "counts:embed"}, {"column": "two"}):
        assert tm.near(pool, rows, **named).tolist() == [True, False, True, False]
    assert tm.near(pool["text"], "abb", embed="counts:embed").tolist() == [False, True] + 2 * [0]
    with pytest.raises(ValueError, match=r"one \(vectors\), two \(vectors\)\. Name what is meant"):
        tm.near(pool, rows)


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ((np.eye(3), np.eye(4)), ValueError, "share their feature dimension"),
        (
            (np.eye(3), np.eye(3), 1.5),
            ValueError,
            "cosine must be .* at most 1; got 1.5",
        ),
        ((np.eye(3), np.eye(3), "high"), TypeError, "cosine must be a number; got 'high'"),
        ((np.eye(3) * np.nan, np.eye(3)), ValueError, "pool must be finite; row 0"),
        ((np.eye(3), np.eye(3) * np.inf), ValueError, "rows must be finite; row 0"),
        ((np.zeros((0, 3)), np.eye(3)), ValueError, "pool must not be empty"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, kind, said):
    with pytest.raises(kind, match=said):
        tm.near(*arguments)
