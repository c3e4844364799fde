"""Rows of a tensor in a .safetensors file."""

import json
import math
from typing import Any

import torch
from torch import Tensor

from tellmost.sources.files import File
from tellmost.sources.flat_file import FlatFile
from tellmost.sources.naming import NamedArray, choose_name

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def open_safetensors(file: File, named: NamedArray) -> FlatFile:
    """The tensor in the file, not read yet."""
    header, offset = _header(file)
    keys = [key for key in header if key != "__metadata__"]
    key = choose_name(keys, "tensor", file, named.name)
    try:
        dtype, shape = header[key]["dtype"], tuple(map(int, header[key]["shape"]))
        start, stop = map(int, header[key]["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file.argument}: the header of {file.path.name} is damaged.") from error
    if dtype not in TYPES:
        raise ValueError(f"{file.label} has dtype {dtype}; the types are {', '.join(TYPES)}.")
    element = TYPES[dtype]
    if min(start, *shape) < 0 or stop - start != math.prod(shape) * element.itemsize:
        raise ValueError(
            f"{file.argument}: the header of {file.path.name} is damaged: sizes do not agree."
        )
    if offset + stop > file.size:
        raise ValueError(f"{file.label} is cut short; {key!r} lies behind its end.")

    def decode(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
        return memory.view(element).view(shape)

    row_bytes = math.prod(shape[1:]) * element.itemsize
    return FlatFile(file, offset + start, shape or (1,), row_bytes, decode)


def _header(file: File) -> tuple[dict[str, Any], int]:
    """What the file says it holds, and where the data starts."""
    with file.path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        text = stream.read(size) if 8 + size <= file.size else b""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{file.label} is not a whole .safetensors file.")
    return header, 8 + size
