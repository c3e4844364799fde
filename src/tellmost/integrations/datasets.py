"""Hugging Face datasets: a column of vectors as a pool, and the picked rows as datasets."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost.shapes import Float, Int

if TYPE_CHECKING:
    from datasets import Dataset


def vectors_of(dataset: "Dataset", column: str) -> Float[np.ndarray, "n d"]:
    """The vectors in a column, as one array."""
    return np.asarray(dataset.with_format("numpy", columns=[column])[:][column])


def picked_rows(
    dataset: "Dataset", gains: Float[np.ndarray, "q k"], indices: Int[np.ndarray, "q k"]
) -> list["Dataset"]:
    """For each query its rows of the dataset, in their order, with a column ``gain``."""
    picked = []
    for gain, rows in zip(gains, indices, strict=True):
        some = dataset.select(rows[rows >= 0])
        picked.append(some.add_column("gain", gain[rows >= 0]))
    return picked
