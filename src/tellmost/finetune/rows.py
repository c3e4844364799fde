"""Rows of points as they come, batch by batch, into a tensor or a file."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.inputs import Inputs, in_words
from tellmost.shapes import Bool, Float

NAMED_ROWS = 5  # that an error lists

WHY_NOT_FINITE = (
    "(a) These inputs are not finite, (b) the network's weights are not, as after training that "
    "diverged, or (c) it overflows in half precision."
)


class Rows:
    """A row per input, filled in their order; in the file ``path`` if it is given."""

    def __init__(self, inputs: Inputs, dtype: torch.dtype, path: Path | None = None) -> None:
        self.done = 0
        self.points: Float[Tensor, "n p"] | Float[np.ndarray, "n p"]
        self._inputs, self._n = inputs, len(inputs)
        self._dtype, self._batches = dtype, 0
        self._path = path

    def add(self, points: Tensor) -> None:
        """The next batch of (b, p) points."""
        self._batches += 1
        check_shape(points, self.done, self._n)
        rounded = points.detach().to(self._dtype)
        self._check_values(points, rounded)
        if self._batches == 1:
            self._make_room(rounded)
        self._keep(rounded)
        self.done += len(rounded)

    def check_all_came(self) -> None:
        if self.done != self._n:
            raise ValueError(
                f"an embedding must make a row per input; it made {self.done} for {self._n} "
                f"inputs."
            )

    def _make_room(self, first: Tensor) -> None:
        shape = (self._n, first.shape[1])
        if self._path is None:
            self.points = first.new_empty(shape)
        else:
            dtype = str(self._dtype).removeprefix("torch.")
            self.points = np.lib.format.open_memmap(
                self._path, mode="w+", dtype=dtype, shape=shape
            )

    def _keep(self, rounded: Tensor) -> None:
        if rounded.shape[1] != self.points.shape[1]:
            raise ValueError(
                f"an embedding must make rows of one length; batch {self._batches - 1} has "
                f"{rounded.shape[1]} columns, those before {self.points.shape[1]}."
            )
        place = slice(self.done, self.done + len(rounded))
        if isinstance(self.points, Tensor):
            self.points[place] = rounded
        else:
            self.points[place] = rounded.cpu().numpy()

    def _check_values(self, points: Tensor, rounded: Tensor) -> None:
        """Finite, or an error that names the caller's argument and the rows of it."""
        if bool(torch.isfinite(rounded).all()):
            return
        is_wrong = ~torch.isfinite(rounded).all(dim=1)
        where = place_of(is_wrong, self._inputs, self._batches - 1, self.done)
        if bool(torch.isfinite(points).all()):
            wider = torch.float32 if self._dtype == torch.float16 else torch.float64
            raise ValueError(
                f"points exceed the range of {self._dtype} in {where}. Use dtype={wider} in "
                f"embed(), or scale what the network makes of these inputs."
            )
        raise ValueError(f"the embedding is not finite in {where}. {WHY_NOT_FINITE}")


def place_of(is_wrong: Bool[Tensor, " b"], inputs: Inputs, batch: int, start: int) -> str:
    """Where a batch, the one of this number, is wrong."""
    return f"batch {batch}, {rows_in_words(is_wrong, inputs, start)}"


def rows_in_words(is_wrong: Bool[Tensor, " b"], inputs: Inputs, start: int) -> str:
    """Which rows of the caller's argument these are, of inputs from ``start`` on."""
    wrong = inputs.rows[is_wrong.nonzero()[:, 0].cpu().numpy() + start].tolist()
    named = ", ".join(map(str, wrong[:NAMED_ROWS]))
    more = f" and {len(wrong) - NAMED_ROWS} more" if len(wrong) > NAMED_ROWS else ""
    return f"rows {named}{more} of {inputs.name}"


def check_shape(points: Tensor, done: int, n: int) -> None:
    if not isinstance(points, Tensor) or points.ndim != 2:
        raise ValueError(
            f"an embedding must make (b, p) points, a row per input; got {in_words(points)}."
        )
    if done + len(points) > n:
        raise ValueError(
            f"an embedding must make a row per input; it made {done + len(points)} or more for "
            f"{n} inputs."
        )
