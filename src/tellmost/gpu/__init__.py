"""Triton kernels that do all the work of a pass over the rows at once, in float64.

Each function takes tensors and fills tensors; nothing here knows about pools or posteriors.
Without Triton, which comes with torch's CUDA builds, plain torch does the same.
"""

import importlib.util

from torch import Tensor


def can_fuse(data: Tensor | None) -> bool:
    """Say whether the kernels can work on these rows."""
    return (
        data is not None
        and data.is_cuda
        and data.ndim == 2
        and data.is_floating_point()
        and data.itemsize > 1
        and data.stride(1) == 1
        and has_triton()
    )


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
