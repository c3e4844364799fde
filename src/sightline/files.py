"""Embeddings in files: .npy (memory-mapped), .safetensors (memory-mapped), .parquet."""

import json
from pathlib import Path

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
    if not path.is_file():
        raise FileNotFoundError(f"{name}: there is no file {str(path)!r}.")
    if path.suffix not in FORMATS:
        raise ValueError(
            f"{name}: cannot read {path.suffix or 'a file without a suffix'!r} ({path.name}); "
            f"the formats are {', '.join(FORMATS)}. Load it yourself and pass the array."
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{name}: {path.name} is empty.")
    readers = {".npy": _load_npy, ".safetensors": _load_safetensors, ".parquet": _load_parquet}
    return readers[path.suffix](path, name)


def _load_npy(path: Path, name: str) -> Tensor:
    try:
        values = np.load(path, mmap_mode="c", allow_pickle=False)  # "c": private, never written
    except ValueError as error:
        if "pickle" in str(error) or "object" in str(error).lower():
            raise ValueError(
                f"{name}: {path.name} holds pickled Python objects, which can run code when "
                f"loaded, and is refused. Save a numeric array with np.save."
            ) from error
        raise ValueError(f"{name}: {path.name} is not a readable .npy file: {error}.") from error
    except (EOFError, OSError) as error:
        raise ValueError(f"{name}: {path.name} is not a readable .npy file: {error}.") from error
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{name}: {path.name} is an .npz archive, not an .npy array.")
    return as_tensor(values, name)


def _load_safetensors(path: Path, name: str) -> Tensor:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(size))
    except ValueError as error:
        raise ValueError(f"{name}: {path.name} is not a .safetensors file: {error}.") from error
    tensors = {key: value for key, value in header.items() if key != "__metadata__"}
    entry = tensors[_the_only_one(list(tensors), "tensor", path, name)]
    if entry["dtype"] not in SAFETENSORS_TYPES:
        raise ValueError(
            f"{name}: {path.name} has dtype {entry['dtype']}, which is not supported."
        )
    start, stop = entry["data_offsets"]
    mapped = np.memmap(path, np.uint8, mode="c", offset=8 + size + start, shape=(stop - start,))
    is_aligned = (8 + size + start) % 8 == 0  # torch views need aligned memory
    raw = torch.from_numpy(mapped if is_aligned else np.array(mapped))
    return raw.view(SAFETENSORS_TYPES[entry["dtype"]]).reshape(entry["shape"])


def _load_parquet(path: Path, name: str) -> Tensor:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(
            f"{name}: reading {path.name} needs pyarrow; pip install 'sightline[parquet]'."
        ) from error
    try:
        schema = parquet.read_schema(path)
    except arrow.ArrowInvalid as error:
        raise ValueError(f"{name}: {path.name} is not a .parquet file: {error}.") from error
    vectors = [entry.name for entry in schema if _is_vector(arrow, entry.type)]
    column = _the_only_one(vectors, "column of vectors", path, name)
    values = parquet.read_table(path, columns=[column]).column(column).combine_chunks()
    lengths = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
    if values.null_count or len(lengths) != 1:
        raise ValueError(
            f"{name}: every vector in column {column!r} of {path.name} must have the same length; "
            f"got lengths {lengths[:5].tolist()} and {values.null_count} missing."
        )
    flat = values.flatten().to_numpy(zero_copy_only=False)
    return as_tensor(flat.reshape(len(values), int(lengths[0])), name)


def _is_vector(arrow, kind) -> bool:  # type: ignore[no-untyped-def]
    types = arrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _the_only_one(found: list[str], what: str, path: Path, name: str) -> str:
    if len(found) == 1:
        return found[0]
    listing = ", ".join(sorted(found)) or "none"
    raise ValueError(
        f"{name}: {path.name} must hold exactly one {what}; it has {len(found)}: {listing}. "
        f"Load the file yourself and pass the array you want."
    )
