"""Files of arrays, whose rows have nothing but their numbers."""

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from zipfile import ZipFile

import numpy as np

from tellmost.rows.files import (
    Readable,
    check_numeric,
    choose_name,
)
from tellmost.rows.records import Records
from tellmost.rows.sources import NamedArray, open_source
from tellmost.running.reading import arrays_in, refusing_damage
from tellmost.shapes import Int

ARRAYS = (".npy", ".npz", ".safetensors")


@dataclass(frozen=True)
class NoColumns:
    """The table of a file of rows that have nothing but their numbers."""

    file: Readable
    names: Sequence[str] = ()

    def column(self, name: str) -> list[Any]:
        raise AssertionError("there is no column that could be asked for")

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        return {}


def open_array(
    file: Readable, name: str | None, *, lone_vector: bool, memory: int | None = None
) -> Records:
    """The rows of the array of this name in a file, or of the only one."""
    vectors: Any = file.place if name is None else NamedArray(file.place, name)
    if file.suffix == ".npz":
        vectors = load_npz(file, name, memory)
    with closing(open_source(vectors, file.argument)) as source:
        shape = source.shape
        if lone_vector and len(shape) == 1:
            vectors, shape = source.read(0, *shape)[None], (1, *shape)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{file.label} must hold rows x features, (n, d); got shape {shape}.")
    return Records(vectors, np.arange(shape[0]), NoColumns(file))


def load_npz(file: Readable, name: str | None, memory: int | None = None) -> np.ndarray:
    """Load one array of an archive into memory. Pickled objects are refused, never loaded."""
    with refusing_damage(f"{file.label} is not a complete .npz file"):
        archive = ZipFile(file.stream())
    with archive:
        found = arrays_in(archive)
        chosen = choose_name(list(found), "array", file, NamedArray(None, name))
        what = f"{file.label}: the array {chosen!r}"
        with refusing_damage(f"{what} is damaged, or too large"):
            dtype = found[chosen].header[1]
            array = None if dtype.hasobject else found[chosen].read(memory)
    if array is None:
        raise ValueError(
            f"{what} holds pickled Python objects, which can run code when loaded, and is "
            f"refused. Save a numeric array with np.savez."
        )
    check_numeric(dtype, what)
    return array
