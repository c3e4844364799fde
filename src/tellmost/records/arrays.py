"""Files of arrays, whose rows have numbers and nothing else: .npy, .npz and .safetensors."""

import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.rows.files import TYPES
from tellmost.rows.opening import open_source
from tellmost.rows.sources import File, NamedArray, choose_name
from tellmost.shapes import Int


class ArrayTable:
    """Rows without columns; ``vectors`` is what a selection takes."""

    names: Sequence[str] = ()

    def __init__(self, file: File, name: str | None, *, lone_vector: bool = False) -> None:
        self.file = file
        self._name = name or "vectors"
        self.vectors: Any = file.path if name is None else NamedArray(file.path, name)
        if file.path.suffix == ".npz":
            self._name, self.vectors = load_npz(file, name)
        source = open_source(self.vectors, file.argument)
        self._shape = source.shape
        if lone_vector and len(self._shape) == 1:
            self.vectors = source.read(0, *self._shape)[None]
            self._shape = (1, *self._shape)
        source.close()
        if len(self._shape) != 2 or 0 in self._shape:
            raise ValueError(
                f"{file.label} must hold rows x features, (n, d); got shape {self._shape}."
            )

    def __len__(self) -> int:
        return self._shape[0]

    def column(self, name: str) -> list[Any]:
        raise AssertionError("there is no column that could be asked for")

    def take(self, indices: Int[np.ndarray, " k"]) -> Tensor:
        """Rows in their own dtype; a tensor, since numpy has no bfloat16."""
        source = open_source(self.vectors, self.file.argument)
        try:
            return source.take(torch.from_numpy(indices))
        finally:
            source.close()

    def write(self, path: Path, indices: Int[np.ndarray, " k"]) -> None:
        rows = self.take(indices)
        with path.open("wb") as stream:
            match self.file.path.suffix:
                case ".safetensors":
                    stream.write(_as_safetensors(self._name, rows))
                case ".npz":
                    _save_npz(stream, self._name, rows.numpy())
                case _:
                    np.save(stream, rows.numpy())


def load_npz(file: File, name: str | None) -> tuple[str, np.ndarray]:
    """One array of an archive, all of it in memory; pickled objects are refused, never loaded."""
    try:
        if not zipfile.is_zipfile(file.path):  # np.load would take it for an array or a pickle
            raise zipfile.BadZipFile("it is no archive")
        with np.load(file.path, allow_pickle=False) as archive:
            found = list(archive.files)
            chosen = choose_name(found, "array", file, name)
            return chosen, _unpickled(archive, chosen, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        message = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"{file.label} is no whole .npz file: {message}.") from error


def _unpickled(archive: Any, name: str, file: File) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        if "pickle" not in str(error):
            raise ValueError(f"{file.label}: the array {name!r} is damaged.") from error
        raise ValueError(
            f"{file.label}: the array {name!r} holds pickled Python objects, which can run code "
            f"when loaded, and is refused. Save a numeric array with np.savez."
        ) from error


def _save_npz(stream: Any, name: str, rows: np.ndarray) -> None:
    """np.savez takes names as keywords, and has some of its own."""
    with zipfile.ZipFile(stream, "w") as archive, archive.open(f"{name}.npy", "w") as entry:
        np.lib.format.write_array(entry, rows, allow_pickle=False)


def _as_safetensors(name: str, rows: Tensor) -> bytes:
    kind = next(kind for kind, dtype in TYPES.items() if dtype == rows.dtype)
    data = rows.contiguous().view(torch.uint8).numpy().tobytes()
    about = {"dtype": kind, "shape": list(rows.shape), "data_offsets": [0, len(data)]}
    header = json.dumps({name: about}).encode()
    return len(header).to_bytes(8, "little") + header + data
