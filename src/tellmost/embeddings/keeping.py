"""Vectors kept in a file, under a key of what they were made from."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tellmost.running.writing import written_whole
from tellmost.shapes import Float

FORMAT = "1"
DIGEST_BYTES = 16


def path_of(beside: Path, key: str) -> Path:
    return beside.with_name(f"{beside.name}.embeddings") / f"{key}.npy"


def key_of(texts: Sequence[str], identity: str) -> str:
    """A short name for texts in their order and a model."""
    sums = hashlib.blake2b(f"{FORMAT}\n{identity}\n".encode(), digest_size=DIGEST_BYTES)
    for text in texts:
        content = text.encode()
        sums.update(len(content).to_bytes(8, "little"))
        sums.update(content)
    return sums.hexdigest()


def save_kept(path: Path, vectors: Float[np.ndarray, "u d"]) -> None:
    """An .npy file, and its digest behind the array, where numpy does not look."""
    path.parent.mkdir(exist_ok=True)
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.lib.format.write_array(file, vectors, allow_pickle=False)
        file.write(_digest(vectors))


def load_kept(path: Path, count: int) -> Float[np.ndarray, "u d"] | None:
    """What was kept; None where nothing was, or where the file is damaged."""
    try:
        with path.open("rb") as file:
            vectors = np.lib.format.read_array(file, allow_pickle=False)
            digest = file.read()
    except (OSError, ValueError, EOFError):
        return None
    is_right = vectors.dtype == np.float32 and vectors.ndim == 2 and len(vectors) == count
    return vectors if is_right and digest == _digest(vectors) else None


def _digest(vectors: np.ndarray) -> bytes:
    rows = np.ascontiguousarray(vectors)
    return hashlib.blake2b(rows.data, digest_size=DIGEST_BYTES).digest()
