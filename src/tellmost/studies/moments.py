r"""Mean and second moment of the rows, added up block by block, and what they tell.

With :math:`M = \frac1n \sum_i x_i x_i^\top`: the effective rank is :math:`(\mathrm{tr} M)^2 /
|M|_F^2`, the same as :math:`(\mathrm{tr} K)^2 / |K|_F^2` of the inner products of all rows: d for
isotropic rows, 1 for equal ones, 0 for zeros. Principal directions are the eigenvectors of
:math:`M - \mu\mu^\top`.
"""

import torch
from torch import Tensor

from tellmost.shapes import Float


class Moments:
    """Of the rows seen so far."""

    def __init__(self, dimension: int, device: torch.device) -> None:
        self.count = 0
        self._sum = torch.zeros(dimension, dtype=torch.float64, device=device)
        self._squares = torch.zeros(dimension, dimension, dtype=torch.float64, device=device)

    def add(self, rows: Float[Tensor, "b d"]) -> None:
        self.count += len(rows)
        self._sum += rows.sum(dim=0)
        self._squares.addmm_(rows.T, rows)

    @property
    def mean(self) -> Float[Tensor, " d"]:
        return self._sum / self.count

    @property
    def second(self) -> Float[Tensor, "d d"]:
        return self._squares / self.count

    def effective_rank(self) -> float:
        own = float(self.second.diagonal().sum()) ** 2
        return own / float(self.second.square().sum()) if own > 0 else 0.0

    def share_along_mean(self) -> float:
        """|E x|^2 / E |x|^2: what rows have in common; 0 for centred rows, 1 for equal ones."""
        total = float(self.second.diagonal().sum())
        return float(self.mean.square().sum()) / total if total > 0 else 0.0

    def principal(self) -> tuple[Float[Tensor, "2 d"], Float[Tensor, " 2"]]:
        """The two directions of most variance about the mean, and the share of each in it.

        A direction that is not there is zero. The largest entry of each is positive.
        """
        C = torch.addr(self.second, self.mean, self.mean, alpha=-1.0)
        values, vectors = torch.linalg.eigh(C)
        values, vectors = values.flip(0)[:2].clamp(min=0.0), vectors.flip(1)[:, :2].T
        total = float(C.diagonal().sum())
        shares = values / total if total > 0 else torch.zeros_like(values)
        largest = vectors.gather(1, vectors.abs().argmax(dim=1, keepdim=True))
        vectors = torch.where(shares[:, None] > 0, vectors * largest.sign(), 0.0)
        short = 2 - len(vectors)
        return torch.nn.functional.pad(vectors, (0, 0, 0, short)), torch.nn.functional.pad(
            shares, (0, short)
        )
