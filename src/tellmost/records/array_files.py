"""Several array files as one pool: rows numbered through, and nothing else about them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.records.records import Records
from tellmost.rows.opening import open_source
from tellmost.rows.sources import File, check_there, open_filled
from tellmost.shapes import Int

ARRAYS = (".npy", ".safetensors", ".parquet")


class ArrayFiles:
    """Rows of several files, one after the other."""

    names: Sequence[str] = ()

    def __init__(self, paths: Sequence[Path], first: File) -> None:
        self.file = first
        self._paths = list(paths)

    def column(self, name: str) -> list[Any]:
        raise AssertionError("there is no column that could be asked for")

    def take(self, indices: Int[np.ndarray, " k"]) -> Tensor:
        source = open_source(self._paths, self.file.argument)
        try:
            return source.take(torch.from_numpy(indices))
        finally:
            source.close()

    def write(self, path: Path, indices: Int[np.ndarray, " k"]) -> None:
        with path.open("wb") as stream:
            np.save(stream, self.take(indices).numpy())


def read_array_files(paths: Sequence[Path], argument: str) -> Records:
    """Rows of several .npy, .safetensors or .parquet files with one array each, streamed."""
    for path in paths:
        check_there(path, argument, "Name the files in it.")
        if path.suffix not in ARRAYS:
            raise ValueError(
                f"{argument}: several files must each hold an array, {', '.join(ARRAYS)}; got "
                f"{path.name}. Join text files into one."
            )
    source = open_source(list(paths), argument)
    count = source.shape[0]
    source.close()
    table = ArrayFiles(paths, open_filled(paths[0], argument))
    return Records(list(paths), np.arange(count), table)
