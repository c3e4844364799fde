"""Embeddings in files: .npy (memory-mapped), .safetensors (memory-mapped), .parquet."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.pools import as_tensor

FORMATS = (".npy", ".safetensors", ".parquet")

SAFETENSORS_TYPES = {
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


def load_array(path: Path, name: str) -> Tensor:
    """The one array in a file; large files are mapped, not read."""
    if path.is_dir():
        raise ValueError(f"{name}: {str(path)!r} is a folder. Name one file in it.")
    if not path.is_file():
        raise FileNotFoundError(f"{name}: there is no file {str(path)!r}.")
    if path.suffix not in FORMATS:
        raise ValueError(
            f"{name}: cannot read {path.name}; the formats are {', '.join(FORMATS)}. Load it "
            f"yourself and pass the array."
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{name}: {path.name} is empty.")
    readers = {".npy": _load_npy, ".safetensors": _load_safetensors, ".parquet": _load_parquet}
    return readers[path.suffix](path, name)


def _load_npy(path: Path, name: str) -> Tensor:
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"PK"):
        raise ValueError(
            f"{name}: {path.name} is an .npz archive, not an .npy array. Load it yourself and "
            f"pass the array you want."
        )
    if start != b"\x93NUMPY":  # np.load would take it for a pickle
        raise ValueError(f"{name}: {path.name} is not an .npy file. Save one with np.save.")
    try:
        values = np.load(path, mmap_mode="c", allow_pickle=False)  # "c": private, never written
    except (ValueError, EOFError, OSError) as error:
        if "Python objects" in str(error):
            raise ValueError(
                f"{name}: {path.name} holds pickled Python objects, which can run code when "
                f"loaded, and is refused. Save a numeric array with np.save."
            ) from error
        raise ValueError(f"{name}: {path.name} is damaged: {_brief(error)}.") from error
    return as_tensor(values, name)


def _load_safetensors(path: Path, name: str) -> Tensor:
    header, offset = _safetensors_header(path, name)
    key = _the_only_one([key for key in header if key != "__metadata__"], "tensor", path, name)
    try:
        dtype, shape = header[key]["dtype"], tuple(map(int, header[key]["shape"]))
        start, stop = map(int, header[key]["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: the header of {path.name} is damaged.") from error
    if dtype not in SAFETENSORS_TYPES:
        raise ValueError(
            f"{name}: {path.name} has dtype {dtype}; the types are {', '.join(SAFETENSORS_TYPES)}."
        )
    element = SAFETENSORS_TYPES[dtype]
    if min(start, *shape) < 0 or stop - start != math.prod(shape) * element.itemsize:
        raise ValueError(f"{name}: the header of {path.name} is damaged: sizes do not agree.")
    if offset + stop > path.stat().st_size:
        raise ValueError(f"{name}: {path.name} is cut short; {key!r} lies behind its end.")
    if start == stop:
        return torch.empty(shape, dtype=element)
    mapped = np.memmap(path, np.uint8, mode="c", offset=offset + start, shape=(stop - start,))
    is_aligned = (offset + start) % 8 == 0  # torch views need aligned memory
    raw = torch.from_numpy(mapped if is_aligned else np.array(mapped))
    return raw.view(element).reshape(shape)


def _safetensors_header(path: Path, name: str) -> tuple[dict[str, Any], int]:
    """What the file says it holds, and where the data starts."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text = file.read(size) if 8 + size <= path.stat().st_size else b""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{name}: {path.name} is not a whole .safetensors file.")
    return header, 8 + size


def _load_parquet(path: Path, name: str) -> Tensor:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(
            f"{name}: reading {path.name} needs pyarrow; pip install 'sightline[parquet]'."
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            vectors = [entry.name for entry in file.schema_arrow if _is_vector(arrow, entry.type)]
            column = _the_only_one(vectors, "column of vectors", path, name)
            values = file.read(columns=[column]).column(column).combine_chunks()
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{name}: {path.name} is no readable .parquet file: {_brief(error)}."
        ) from error
    if len(values) == 0:
        raise ValueError(f"{name}: {path.name} has no rows.")
    if values.null_count:
        row = int(np.flatnonzero(values.is_null())[0])
        raise ValueError(
            f"{name}: column {column!r} of {path.name} must have a vector in every row; row {row} "
            f"has none. Drop such rows first."
        )
    lengths = np.unique(values.value_lengths())
    if len(lengths) != 1:
        raise ValueError(
            f"{name}: every vector in column {column!r} of {path.name} must have the same length; "
            f"got lengths {', '.join(map(str, lengths[:5]))}."
        )
    flat = values.flatten().to_numpy(zero_copy_only=False)
    return as_tensor(flat.reshape(len(values), int(lengths[0])), name)


def _is_vector(arrow, kind) -> bool:  # type: ignore[no-untyped-def]
    types = arrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _brief(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _the_only_one(found: list[str], what: str, path: Path, name: str) -> str:
    if len(found) == 1:
        return found[0]
    listing = ", ".join(sorted(found)) or "none"
    raise ValueError(
        f"{name}: {path.name} must hold exactly one {what}; it has {len(found)}: {listing}. "
        f"Load the file yourself and pass the array you want."
    )
