"""Whether two kernels are the same function: what is made of one then serves the other too."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Kernel


def are_same(first: Kernel, second: Kernel) -> bool:
    """True: they are, field by field. False: they are not, or nothing tells."""
    return _agree(first, second)


def _agree(first: Any, second: Any) -> bool:
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, Tensor | np.ndarray):
        return torch.equal(torch.as_tensor(first), torch.as_tensor(second))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_agree, first, second))
    if is_dataclass(first):
        names = [field.name for field in fields(first)]
        return all(_agree(getattr(first, name), getattr(second, name)) for name in names)
    return isinstance(first, float | int | str) and bool(first == second)
