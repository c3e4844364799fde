"""The rows that a Retriever searches, as they are stored, and how they are normalised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost import numerics
from tellmost.rows.checks import check_finite, check_shape, checked_mean
from tellmost.rows.pool import Fingerprint, Normalization, Pool
from tellmost.rows.sources import HeldRows, hold, open_source
from tellmost.shapes import Float, Int

CPU = torch.device("cpu")


@dataclass(frozen=True)
class StoredRows:
    """The rows of a pool in their own dtype. Some of them are made float64 when they are needed.

    This is a value: rows that are added make another one, so a search that runs keeps its own.
    """

    values: np.ndarray  # (n, d), perhaps a memory map
    mean: Float[np.ndarray, " d"] | None  # it is subtracted; that of the rows at construction
    inverse_length: Float[np.ndarray, " n"] | None  # of the centred rows, if made unit
    prior_variance: Float[np.ndarray, " n"]  # |x|^2 of each row as normalised
    length: Float[np.ndarray, " n"]  # |x| as stored
    fingerprint: str

    @classmethod
    def of(
        cls, values: np.ndarray, to_unit: bool, mean: Float[np.ndarray, " d"] | None
    ) -> "StoredRows":
        """Read all rows once: they have to be finite, and their lengths are kept."""
        pool, sums = Pool.of(torch.from_numpy(values)), Fingerprint(CPU)
        length, centred = np.empty(len(values)), np.empty(len(values))
        for start, stop, rows in pool.blocks():
            check_finite(start, rows, pool.source, "pool")
            sums.add(start, rows)
            length[start:stop] = torch.linalg.vector_norm(rows, dim=1)
            if mean is not None:
                rows = rows - torch.from_numpy(mean)
            centred[start:stop] = torch.linalg.vector_norm(rows, dim=1)
        inverse = np.divide(1.0, centred, where=centred > 0, out=np.ones_like(centred))
        variance = np.where(centred > 0, 1.0, 0.0) if to_unit else centred**2
        name = sums.name(values.shape)
        return cls(values, mean, inverse if to_unit else None, variance, length, name)

    @classmethod
    def normalized_by(cls, values: np.ndarray, normalize: str | None) -> "StoredRows":
        """The rows with what ``normalize`` means for them."""
        parts = () if normalize is None else normalize.split("+")
        mean = None
        if "center" in parts:
            mean = checked_mean(Pool.of(torch.from_numpy(values)), None).numpy()
        return cls.of(values, "unit" in parts, mean)

    def __len__(self) -> int:
        return len(self.values)

    def take(
        self, numbers: Int[np.ndarray, " b"] | slice, out: Float[np.ndarray, "b d"] | None = None
    ) -> Float[np.ndarray, "b d"]:
        """Some rows as float64, normalised; ``out`` receives them."""
        rows = self.values[numbers]
        if out is None:
            out = np.empty(rows.shape)
        np.copyto(out, rows)
        if self.mean is not None:
            out -= self.mean
        if self.inverse_length is not None:
            out *= self.inverse_length[numbers, None]
        return out

    def normalized(self, points: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b d"]:
        """Points of any place, normalised as the rows are."""
        mean = None if self.mean is None else torch.from_numpy(self.mean)
        how = Normalization(mean, to_unit_length=self.inverse_length is not None)
        return how.apply(torch.from_numpy(points)).numpy()


def open_rows(given: Any, name: str) -> tuple[np.ndarray, Sequence[str]]:
    """Rows in memory or a memory map, in their own dtype where numpy knows it, and their columns.

    The columns are those of numbers, each a feature; there are none otherwise.
    """
    source = open_source(given, name)
    check_shape(source.shape, name)
    held = hold(source, CPU, numerics.LEAST_BLOCK_ROWS).held
    assert held is not None
    columns = source.features if isinstance(source, HeldRows) else ()
    return (held.float() if held.dtype == torch.bfloat16 else held).numpy(), columns
