"""Vectors of texts are made once, and kept in a file that is named for what they were made of."""

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.cli.embedding_models import Model, find_model
from tellmost.cli.text_tables import Where
from tellmost.running.reading import npy_header, refusing_damage
from tellmost.running.writing import written_whole
from tellmost.shapes import Float

Progress = Callable[[int, int], None]
"""Is told how many texts are done, and how many there are."""


def embed_texts(
    texts: Sequence[Any],
    model: str,
    *,
    beside: Path,
    device: str | None = None,
    batch_size: int = 32,
    progress: Progress | None = None,
    where: Where | None = None,
) -> Float[np.ndarray, "n d"]:
    """A float32 vector for each text; equal texts are embedded once.

    Args:
        texts: strings, none of them empty.
        model: a sentence-transformers model, as its id on the Hugging Face Hub ("all-minilm" is
            short for "sentence-transformers/all-MiniLM-L6-v2") or as a folder; or
            "package.module:function", a function that takes a list of b strings and returns a
            (b, d) array or tensor. A model of the Hub is fetched once. A model may see only the
            beginning of a text: all-minilm sees 256 word pieces.
        beside: the file that the texts came from. The vectors are kept in a folder next to it and
            read from there next time, if the texts and the model are the same.
        device: where the model runs. None lets it choose. A function chooses for itself.
        batch_size: how many texts the model gets at once.
        progress: is told how many texts are done.
        where: names a text in errors. None names it by its number.
    """
    where = where or (lambda number: f"text {number}")
    check_texts(texts, where)
    first: dict[str, int] = {}  # each different text with the number of its first place
    for number, text in enumerate(texts):
        first.setdefault(text, number)
    chosen = find_model(model, device)
    key = key_of(texts, chosen.identity())
    path = beside.with_name(f"{beside.name}.embeddings") / f"{key}.npy"
    vectors = load_kept(path, len(first))
    if vectors is None:
        vectors = _make(list(first), list(first.values()), chosen, batch_size, progress, where)
        _keep(path, vectors)
    if len(first) == len(texts):
        return vectors
    places = {text: row for row, text in enumerate(first)}
    return vectors[[places[text] for text in texts]]


def check_texts(texts: Sequence[Any], where: Where) -> None:
    if len(texts) == 0:
        raise ValueError("texts must not be empty; got none to embed.")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{where(number)}: a text to embed must be a string; got "
                f"{'none' if text is None else type(text).__name__}."
            )
        if is_empty(text):
            came = "has half a character in it" if text.strip() else "is empty"
            raise ValueError(
                f"{where(number)}: the text to embed {came}. Repair or drop such rows, or skip "
                f"them, on_bad_row='skip'."
            )


def is_empty(text: Any) -> bool:
    """True if there is no text, or one that no model can read."""
    is_text = isinstance(text, str)
    return text is None or (is_text and not (text.strip() and is_whole_text(text)))


def is_whole_text(text: str) -> bool:
    """Say if no character is cut in half. JSON can hold half of one; files and models cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _make(
    texts: list[str],
    places: list[int],
    model: Model,
    batch_size: int,
    progress: Progress | None,
    where: Where,
) -> Float[np.ndarray, "u d"]:
    """Make the vectors of different texts, batch by batch. ``places`` are for errors."""
    vectors = np.empty((0, 0), np.float32)
    step = batch_size * model.batches_per_call
    for start in range(0, len(texts), step):
        batch = model.embed(texts[start : start + step], batch_size)
        if start == 0:
            vectors = np.empty((len(texts), batch.shape[1]), np.float32)
        if batch.shape[1] != vectors.shape[1]:
            raise ValueError(
                f"embed: {model.name} must give vectors of one length; the first had "
                f"{vectors.shape[1]}, that of {where(places[start])} has {batch.shape[1]}."
            )
        rows = vectors[start : start + len(batch)]
        with np.errstate(over="ignore"):  # what is too large is refused below
            rows[:] = batch
        is_bad = ~np.isfinite(rows).all(axis=1)
        if is_bad.any():
            place = places[start + int(np.flatnonzero(is_bad)[0])]
            raise ValueError(
                f"embed: {model.name} gave a NaN or an infinity for {where(place)}. Repair the "
                f"model, or drop the text."
            )
        if progress is not None:
            progress(start + len(batch), len(texts))
    return vectors


FORMAT = "1"
DIGEST_BYTES = 16


def key_of(texts: Sequence[str], identity: str) -> str:
    """A short name that belongs to these texts in their order and to this model alone."""
    sums = hashlib.blake2b(f"{FORMAT}\n{identity}\n".encode(), digest_size=DIGEST_BYTES)
    for text in texts:
        content = text.encode()
        sums.update(len(content).to_bytes(8, "little"))
        sums.update(content)
    return sums.hexdigest()


def _keep(path: Path, vectors: Float[np.ndarray, "u d"]) -> None:
    """Write an .npy file, with a digest behind the array, where numpy does not look."""
    try:
        path.parent.mkdir(exist_ok=True)
        with written_whole(path) as unfinished, unfinished.open("wb") as file:
            np.lib.format.write_array(file, vectors, allow_pickle=False)
            file.write(_digest(vectors))
    except OSError as error:
        warnings.warn(
            f"the embeddings could not be kept, and will be made again next time: "
            f"{error.strerror or error}",
            stacklevel=3,
        )


def load_kept(path: Path, count: int) -> Float[np.ndarray, "u d"] | None:
    """The vectors that were kept. None where there are none, or where the file is damaged."""
    try:
        with path.open("rb") as file, refusing_damage(path.name):
            shape, _, dtype = npy_header(file)
            size = file.tell() + prod(shape) * dtype.itemsize + DIGEST_BYTES
            if size != os.fstat(file.fileno()).st_size:
                return None
            file.seek(0)
            vectors = np.lib.format.read_array(file, allow_pickle=False)
            digest = file.read()
    except (OSError, ValueError):
        return None
    is_right = vectors.dtype == np.float32 and vectors.ndim == 2 and len(vectors) == count
    return vectors if is_right and digest == _digest(vectors) else None


def _digest(vectors: np.ndarray) -> bytes:
    rows = np.ascontiguousarray(vectors)
    return hashlib.blake2b(rows.data, digest_size=DIGEST_BYTES).digest()
