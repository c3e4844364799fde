"""embed(): the points that a network makes of inputs, and the kernel that compares them."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune.inputs import Inputs, check_model, device_of, in_words
from tellmost.kernels import Kernel
from tellmost.rows.checks import check_object, check_whole
from tellmost.running.progress import ProgressLine
from tellmost.running.writing import check_writable, written_whole
from tellmost.shapes import Bool, Float


@dataclass(frozen=True, eq=False)
class Embedded:
    """A row of numbers per input. ``kernel`` compares rows; None: by inner products."""

    points: Float[Tensor, "n p"] | Float[np.ndarray, "n p"]  # an array if mapped from a file
    kernel: Kernel | None

    def __len__(self) -> int:
        return len(self.points)


@runtime_checkable
class Embedding(Protocol):
    """A way to turn inputs into points by a network. It is a value that can be hashed.

    An embedding whose points are not compared by inner products also has
    ``kernel(model, batch)``, which returns the kernel that compares them. The batch tells the
    sizes.
    """

    def on(self, model: nn.Module) -> AbstractContextManager[Callable[[Any], Tensor]]:
        """Gives the function from a batch to its (b, p) points. The model is in eval mode."""


def kernel_of(embedding: Embedding, model: nn.Module, batch: Any) -> Kernel | None:
    """The kernel that compares the points of an embedding; None: inner products."""
    made = getattr(embedding, "kernel", None)
    return None if made is None else made(model, batch)


def check_inner_products(user: str, embedding: Embedding, kernel: Kernel | None) -> None:
    """The points of the embedding have no kernel of their own, such as [residual, feature]."""
    if kernel is not None:
        raise ValueError(
            f"{user} needs points that are compared by inner products; those of {embedding!r} are "
            f"compared by {kernel!r}. Write them out or project them: "
            f"LossGradients(materialize=True), Projected(...)."
        )


def embed(
    model: nn.Module,
    data: Any,
    embedding: Embedding,
    *,
    batch_size: int = 256,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = False,
) -> Embedded:
    """The points of all inputs, made batch by batch.

    Args:
        model: any module; its mode and its device stay as they are.
        data: inputs: a tensor or array with a row per input, or a dataset (labels are ignored).
        embedding: from ``tellmost.finetune``, such as ``LastLayer()``.
        batch_size: how many inputs go into one call of the model.
        device: where batches go; None for where the model is.
        dtype: the type of the points: float32, or float16 to halve their size.
        out: the path of an .npy file for points that do not fit into memory, which is mapped into
            it; None keeps them in a tensor on the device.
        progress: a line on stderr; None shows it on a terminal after a second.
    """
    inputs = Inputs.of(data, "data")
    check_model(model)
    check_request(inputs, embedding, batch_size, dtype)
    place = device_of(model) if device is None else torch.device(device)
    with evaluating(model), torch.no_grad(), writing(out) as path:
        first = inputs.batch(np.arange(1), place)
        with naming_types(model, first, inputs.name):
            kernel = kernel_of(embedding, model, first)
            with embedding.on(model) as points_of, ProgressLine(progress, "inputs", 0) as line:
                batches = map(points_of, inputs.batches(batch_size, place))
                points = collect(batches, inputs, dtype, path, line)
    return Embedded(points if out is None else np.load(out, mmap_mode="r"), kernel)


@contextmanager
def naming_types(model: nn.Module, batch: Any, name: str) -> Iterator[None]:
    """Names both types in the error of a network that takes numbers of another type."""
    try:
        yield
    except RuntimeError as error:
        own = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
        is_other = own is not None and isinstance(batch, Tensor) and batch.dtype != own
        if not is_other or "type" not in str(error):
            raise
        raise TypeError(
            f"the model is of {own} and {name} of {batch.dtype}, and torch says: {error}. Convert "
            f"{name} with .to({own}), an array with .astype, or convert in the model's forward."
        ) from error


@contextmanager
def writing(out: str | os.PathLike[str] | None) -> Iterator[Path | None]:
    """The file to write rows to, which takes the name ``out`` when it is whole; None for None."""
    if out is None:
        yield None
        return
    path = Path(out)
    if path.suffix != ".npy":
        raise ValueError(f"out must be the path of an .npy file; got {str(path)!r}.")
    check_writable(path, "out")
    with written_whole(path) as unfinished:
        yield unfinished


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every part of the model is in eval mode, and afterwards in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def check_request(
    inputs: Inputs, embedding: Embedding, batch_size: int, dtype: torch.dtype
) -> None:
    if len(inputs) == 0:
        raise ValueError(f"{inputs.name} must have at least one input; got none.")
    check_embedding(embedding)
    check_whole(batch_size, "batch_size")
    if dtype not in (torch.float16, torch.float32, torch.float64):
        raise ValueError(f"dtype must be float16, float32 or float64 of torch; got {dtype}.")


def check_embedding(embedding: Any, name: str = "embedding") -> None:
    example = "an object such as tellmost.finetune.LastLayer(), which has on(model)"
    check_object(embedding, name, Embedding, example)


NAMED_ROWS = 5  # how many an error lists

WHY_NOT_FINITE = (
    "(a) These inputs are not finite, (b) the network's weights are not, as after training that "
    "diverged, or (c) it overflows in half precision."
)


def collect(
    batches: Iterable[Tensor],
    inputs: Inputs,
    dtype: torch.dtype,
    path: Path | None,
    line: ProgressLine,
) -> Tensor | np.ndarray:
    """The points of all inputs, which come batch by batch: a tensor, or the file ``path``."""
    points: Tensor | np.ndarray = torch.empty(0)
    done = 0
    for number, made in enumerate(batches):
        if not isinstance(made, Tensor) or made.ndim != 2:
            raise ValueError(
                f"an embedding must make (b, p) points, a row per input; got {in_words(made)}."
            )
        rounded, end = made.detach().to(dtype), done + len(made)
        check_count(f"{end} or more", len(inputs), is_right=end <= len(inputs))
        check_values(made, rounded, inputs, number, done)
        shape = (len(inputs), made.shape[1])
        if number == 0:
            kind = str(dtype).removeprefix("torch.")
            points = (
                rounded.new_empty(shape)
                if path is None
                else np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)
            )
        if rounded.shape[1] != points.shape[1]:
            raise ValueError(
                f"an embedding must make rows of one length; batch {number} has "
                f"{rounded.shape[1]} columns, those before {points.shape[1]}."
            )
        if isinstance(points, Tensor):
            points[done:end] = rounded
        else:
            points[done:end] = rounded.cpu().numpy()
        done = end
        line(done, len(inputs))
    check_count(str(done), len(inputs), is_right=done == len(inputs))
    return points


def check_count(made: str, count: int, *, is_right: bool) -> None:
    if not is_right:
        raise ValueError(
            f"an embedding must make a row per input; it made {made} for {count} inputs."
        )


def check_values(points: Tensor, rounded: Tensor, inputs: Inputs, batch: int, start: int) -> None:
    """Points are finite; the error names the caller's argument and its rows."""
    is_wrong = ~torch.isfinite(rounded).all(dim=1)
    if not bool(is_wrong.any()):
        return
    where = place_of(is_wrong, inputs, batch, start)
    if bool(torch.isfinite(points).all()):
        wider = torch.float32 if rounded.dtype == torch.float16 else torch.float64
        raise ValueError(
            f"points exceed the range of {rounded.dtype} in {where}. Use dtype={wider} in "
            f"embed(), or scale what the network makes of these inputs."
        )
    raise ValueError(f"the embedding is not finite in {where}. {WHY_NOT_FINITE}")


def place_of(is_wrong: Bool[Tensor, " b"], inputs: Inputs, batch: int, start: int) -> str:
    """The place of the batch of this number, in words for an error."""
    return f"batch {batch}, {rows_in_words(is_wrong, inputs, start)}"


def rows_in_words(is_wrong: Bool[Tensor, " b"], inputs: Inputs, start: int) -> str:
    """Name the wrong rows of the caller's argument. The mask begins at row ``start``."""
    wrong = inputs.rows[is_wrong.nonzero()[:, 0].cpu().numpy() + start].tolist()
    named = ", ".join(map(str, wrong[:NAMED_ROWS]))
    more = f" and {len(wrong) - NAMED_ROWS} more" if len(wrong) > NAMED_ROWS else ""
    return f"rows {named}{more} of {inputs.name}"
