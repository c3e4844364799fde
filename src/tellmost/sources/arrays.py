"""Numeric arrays of every kind as tensors."""

import numpy as np
import torch
from torch import Tensor


def as_tensor(array: object, name: str) -> Tensor:
    """A numeric array as a tensor that shares its memory where that is possible."""
    if isinstance(array, Tensor):
        if array.layout != torch.strided or array.is_nested:
            layout = "nested" if array.is_nested else str(array.layout).removeprefix("torch.")
            raise TypeError(
                f"{name} must be a dense tensor; got a {layout} one. Densify it first."
            )
        tensor = array.detach()
    else:
        tensor = _from_numpy(array, name)
    if tensor.is_complex():
        raise TypeError(
            f"{name} must hold real numbers; got {tensor.dtype}. Pass the real and the imaginary "
            f"part as features, or one of them."
        )
    return tensor


def _from_numpy(array: object, name: str) -> Tensor:
    if np.ma.is_masked(array):
        raise TypeError(f"{name} must not have masked entries. Fill or drop them first.")
    try:
        values = np.asarray(array)
    except ValueError as error:  # ragged nested lists
        raise ValueError(
            f"{name} must be a rectangular array of numbers, all rows of one length; numpy says: "
            f"{str(error).rstrip('.')}."
        ) from error
    if values.dtype.kind not in "fiubc":
        raise TypeError(
            f"{name} must be a numeric array; got dtype {values.dtype}. Convert it first, for "
            f"example with np.stack(rows).astype(np.float32)."
        )
    if values.dtype.char in "gG":  # long double, which torch does not have
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.complex128)
    size = values.itemsize
    if not values.dtype.isnative or any(step < 0 or step % size for step in values.strides):
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return torch.from_numpy(values if values.flags.writeable else np.asarray(_Shared(values)))


class _Shared:
    """Read-only memory, offered as if it could be written to: torch warns otherwise, and warnings
    cannot be turned off in one thread alone. Nothing here writes to it."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # it has to live as long as its memory is used
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
