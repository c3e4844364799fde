"""A Hugging Face dataset goes in, and its rows come out."""

import numpy as np
import pytest

import tellmost as tm

pytest.importorskip("datasets")

from datasets import Dataset

from tellmost.integrations.datasets import picked_rows, vectors_of


def test_the_picked_rows_of_a_dataset_keep_their_columns_and_their_order():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((50, 6)).astype(np.float32)
    dataset = Dataset.from_dict(
        {"text": [f"text {i}" for i in range(50)], "emb": vectors.tolist()}
    )
    pool = vectors_of(dataset, "emb")
    np.testing.assert_array_equal(pool, vectors)
    gains, indices = tm.Retriever(pool).search(vectors[:2] + 0.1, 4, allowed=np.arange(3))
    picked = picked_rows(dataset, gains, indices)
    for some, gain, rows in zip(picked, gains, indices, strict=True):
        rows = rows[rows >= 0]
        assert 0 < len(some) < 4
        assert some["text"][:] == [f"text {row}" for row in rows]
        np.testing.assert_array_equal(some["gain"][:], gain[: len(rows)])
