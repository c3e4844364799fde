r"""Random projections, under which inner products are kept on average.

.. math:: \mathbb{E}\,\langle R x, R z \rangle = \langle x, z \rangle

Dense: independent signs over :math:`\sqrt{q}` (Achlioptas 2003), with variance :math:`(\|x\|^2
\|z\|^2 + \langle x, z \rangle^2 - 2 \sum_i x_i^2 z_i^2) / q`. CountSketch: each column is added to
one of q with a sign (Charikar, Chen and Farach-Colton 2002), of the same variance, for a q-th of
the work. Signs and places are functions of the seed and the column's number.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from tellmost import numerics
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.hashing import mixed, shifted, signs
from tellmost.finetune.jacobians import Tile
from tellmost.shapes import Float


@runtime_checkable
class InTiles(Protocol):
    """An embedding whose points come in parts, as they may be too long to be held."""

    def tiles_on(
        self, model: nn.Module
    ) -> AbstractContextManager[Callable[[Any], Iterator[Tile]]]: ...


@dataclass(frozen=True)
class Projected:
    """Points of another embedding, projected to ``dimension`` columns.

    Args:
        embedding: one whose points are compared by inner products.
        dimension: q; inner products err by about :math:`\\|x\\| \\|z\\| / \\sqrt{q}`.
        kind: "dense", or "countsketch" where points are long.
        seed: of the projection.
    """

    embedding: Embedding
    dimension: int
    kind: str = "dense"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension must be at least 1; got {self.dimension}.")
        if self.kind not in ("dense", "countsketch"):
            raise ValueError(f"kind must be 'dense' or 'countsketch'; got {self.kind!r}.")

    @property
    def name(self) -> str:
        return f"{self.embedding.name}, projected to {self.dimension} ({self.kind})"

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        project = (Dense if self.kind == "dense" else CountSketch)(self.dimension, self.seed)
        with tiles_of(self.embedding, model) as tiles:

            def projected(batch: Any) -> Tensor:
                rows: dict[int, Tensor] = {}
                for tile in tiles(batch):
                    part = project(tile.values, tile.column)
                    rows[tile.row] = rows[tile.row] + part if tile.row in rows else part
                return torch.cat(list(rows.values()))

            yield projected

    def kernel(self, model: nn.Module, batch: Any) -> None:
        kernel = self.embedding.kernel(model, batch)
        if kernel is not None:
            raise ValueError(
                f"Projected(embedding) needs points that are compared by inner products; those "
                f"of {self.embedding!r} are compared by {kernel!r}. LossGradients have them with "
                f"materialize=True."
            )


@contextmanager
def tiles_of(embedding: Embedding, model: nn.Module) -> Iterator[Callable[[Any], Iterator[Tile]]]:
    """Points in parts, or as one."""
    if isinstance(embedding, InTiles):
        with embedding.tiles_on(model) as tiles:
            yield tiles
    else:
        with embedding.on(model) as points_of:
            yield lambda batch: iter([Tile(0, 0, points_of(batch))])


class Dense:
    """Products with a matrix of signs, made block by block; its beginning is kept."""

    def __init__(self, dimension: int, seed: int) -> None:
        self._dimension, self._seed = dimension, seed
        self._beginning: Tensor | None = None

    def __call__(self, values: Float[Tensor, "b w"], column: int) -> Float[Tensor, "b q"]:
        total = values.new_zeros(len(values), self._dimension)
        step = max(1, numerics.PROJECTION_BYTES // (self._dimension * values.itemsize))
        for start in range(0, values.shape[1], step):
            part = values[:, start : start + step]
            total.addmm_(part, self._block(column + start, part))
        return total / self._dimension**0.5

    def _block(self, start: int, part: Tensor) -> Tensor:
        """The signs of the columns of a part that begins at ``start``."""
        width, kept = part.shape[1], self._beginning
        if start == 0 and kept is not None and len(kept) >= width:
            return kept[:width]
        rows = torch.arange(start, start + width, device=part.device)
        block = signs(rows, self._dimension, self._seed, part.dtype)
        if start == 0:
            self._beginning = block
        return block


class CountSketch:
    """Sums of columns with signs, by their hash."""

    def __init__(self, dimension: int, seed: int) -> None:
        self._dimension, self._seed = dimension, seed

    def __call__(self, values: Float[Tensor, "b w"], column: int) -> Float[Tensor, "b q"]:
        numbers = torch.arange(column, column + values.shape[1], device=values.device)
        bits = mixed(numbers, self._seed)
        places = shifted(bits, 1) % self._dimension
        signed = values * (1 - 2 * (bits & 1)).to(values.dtype)
        return values.new_zeros(len(values), self._dimension).index_add_(1, places, signed)
