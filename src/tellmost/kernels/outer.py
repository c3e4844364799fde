r"""Inner products of outer products, which are never made.

A point is :math:`x = [r_x, h_x]`, and stands for the matrix :math:`r_x h_x^\top`, such as the
gradient of a loss with respect to a network's last layer: residual times feature. Then

.. math:: k(x, z) = \langle r_x h_x^\top, r_z h_z^\top \rangle = (r_x^\top r_z)(h_x^\top h_z)

and with independent weights of variances :math:`w_{ij}`, as a Kronecker-factored Laplace
approximation has them along its eigenvectors,

.. math:: k(x, z) = \sum_{ij} w_{ij}\, r_{xi}\, r_{zi}\, h_{xj}\, h_{zj}.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tellmost.kernels.kernel import Kernel, Points
from tellmost.shapes import Float

OUTER_ROUNDING = 1e-16
"""Singular values below this share of the largest are rounding, when variances of pairs of
directions are written as a sum of products."""

OUTER_ERROR = 1e-10
"""Such a sum may miss a variance by this share of it. If it misses one by more, as when variances
span twelve powers of ten, they are taken as they are."""


@dataclass(frozen=True, eq=False)
class Outer(Kernel):
    """The outer product of the first ``split`` entries of a point and its other entries."""

    split: int

    def __post_init__(self) -> None:
        if self.split < 1:
            raise ValueError(f"Outer(split) must be at least 1; got {self.split}.")

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        (r, h), (s, g) = halves(x, self.split), halves(z, self.split)
        return (r @ s.T).mul_(h @ g.T)

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        r, h = halves(x, self.split)
        return r.square().sum(dim=1) * h.square().sum(dim=1)

    def __repr__(self) -> str:
        return f"Outer({self.split})"


@dataclass(frozen=True, eq=False)
class Kronecker:
    """Outer products whose weights are independent, each with a variance of its own.

    ``variances`` has a row for each entry of the first factor, and a column for each of the
    second. A matrix 1 / (a_i b_j + t) has few singular values that count, so it is written as a
    sum of products of vectors, and the kernel as a sum of as many products of inner products.
    """

    variances: Float[Tensor, "c d"]
    _terms: tuple[Tensor, Tensor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        w = torch.as_tensor(self.variances, dtype=torch.float64)
        if w.ndim != 2 or not bool((torch.isfinite(w) & (w >= 0)).all()):
            raise ValueError(
                "Kronecker(variances) must be a matrix of finite numbers, none below 0: one for "
                "each pair of entries."
            )
        object.__setattr__(self, "variances", w)
        object.__setattr__(self, "_terms", sum_of_products(w))

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        p, q = (term.to(x) for term in self._terms)
        (r, h), (s, g) = self._halves(x), self._halves(z)
        total = x.new_zeros(len(x), len(z))
        for a, b in zip(p.T, q.T, strict=True):
            total.add_((r @ (s * a).T).mul_(h @ (g * b).T))
        return total

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        """All terms are two products with the rows."""
        p, q = (term.to(x) for term in self._terms)
        (r, h), (s, g) = self._halves(x), self._halves(z.reshape(1, -1))
        return ((r @ (p * s.T)) * (h @ (q * g.T))).sum(dim=1)

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        r, h = self._halves(x)
        return ((r.square() @ self.variances.to(x)) * h.square()).sum(dim=1)

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return halves(x, len(self.variances))

    def __repr__(self) -> str:
        c, d = self.variances.shape
        return f"Kronecker({c} x {d})"


def halves(x: Tensor, split: int) -> tuple[Tensor, Tensor]:
    if x.shape[1] <= split:
        raise ValueError(
            f"points of outer products must have more than {split} columns, where their second "
            f"factor begins; got {x.shape[1]}."
        )
    return x[:, :split], x[:, split:]


def sum_of_products(w: Float[Tensor, "c d"]) -> tuple[Float[Tensor, "c R"], Float[Tensor, "d R"]]:
    """P and Q with w = P Q', entry by entry, of few columns, by singular values where they do.

    Rows and columns are brought to a like size first, so that small entries are not lost.
    """
    rows, columns = size_of(w, 1), size_of(w, 0)
    U, values, V = torch.linalg.svd(w / rows / columns, full_matrices=False)
    kept = values > OUTER_ROUNDING * values[0]
    P, Q = rows * (U * values)[:, kept], columns.T * V[kept].T
    is_close = bool(((P @ Q.T - w).abs() <= OUTER_ERROR * w).all())
    if is_close and P.shape[1] < min(w.shape):
        return P, Q
    c, d = w.shape
    if c <= d:
        return torch.eye(c, dtype=w.dtype, device=w.device), w.T
    return w, torch.eye(d, dtype=w.dtype, device=w.device)


def size_of(w: Tensor, dim: int) -> Tensor:
    """The root of the largest entry of each row or column; 1 where all are 0."""
    largest = w.amax(dim=dim, keepdim=True).sqrt()
    return torch.where(largest > 0, largest, torch.ones_like(largest))
