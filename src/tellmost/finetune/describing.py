"""What tells one strategy, or sampler of candidates, from another, as text."""

import re
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.selecting.checkpoint import digest


def describe(thing: Any) -> str:
    """Its class and options, the same in every process: without addresses, and arrays by digest.

    Of an object without a repr of its own nothing is known but its class and its ``name``.
    """
    if isinstance(thing, Tensor | np.ndarray):
        return f"tensor{tuple(thing.shape)}:{digest(torch.as_tensor(thing).detach().double())}"
    if isinstance(thing, list | tuple):
        return f"[{', '.join(map(describe, thing))}]"
    if is_dataclass(thing) and not isinstance(thing, type):
        options = [f"{f.name}={describe(getattr(thing, f.name))}" for f in fields(thing) if f.repr]
        return f"{type(thing).__qualname__}({', '.join(options)})"
    kind: Any = type(thing)
    if kind.__repr__ is object.__repr__:
        named = f" {thing.name!r}" if hasattr(thing, "name") else ""
        return f"{kind.__module__}.{kind.__qualname__}{named}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))
