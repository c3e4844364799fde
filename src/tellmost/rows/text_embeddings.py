"""Vectors of texts are made once, and kept in a file that is named for what they were made of.

What was embedded before an interruption is kept too, and the next call goes on from there.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.rows.embedding_models import Model, find_model
from tellmost.rows.frames import plain_values
from tellmost.running.progress import ProgressLine
from tellmost.running.reading import npy_header, refusing_damage
from tellmost.running.writing import cache_folder, written_whole
from tellmost.shapes import Float

Where = Callable[[int], str]
"""Says in words which row is meant."""


def embed(
    texts: Any,
    model: str,
    *,
    cache: str | os.PathLike[str] | None = None,
    device: str | None = None,
    batch_size: int = 32,
    progress: bool | None = None,
    where: Where = "text {}".format,
) -> Float[np.ndarray, "n d"]:
    """A float32 vector for each text; equal texts are embedded once, and kept for the next call.

    Args:
        texts: strings, none of them empty, in a list, an array, or a column of a frame or Dataset;
            or one string.
        model: a sentence-transformers model, as its id on the Hugging Face Hub ("all-minilm" is
            short for "sentence-transformers/all-MiniLM-L6-v2") or as a folder; or
            "package.module:function", a function that takes a list of b strings and returns a
            (b, d) array or tensor. A model of the Hub is fetched once. A model may see only the
            beginning of a text: all-minilm sees 256 word pieces.
        cache: the folder that keeps the vectors, by the texts and the model. None takes the one
            that TELLMOST_CACHE names, else ~/.cache/tellmost.
        device: where the model runs. None lets it choose. A function chooses for itself.
        batch_size: how many texts the model gets at once.
        progress: whether to show progress. None shows it after a second.
        where: names a text in errors, by its number.
    """
    texts = [texts] if isinstance(texts, str) else plain_values(texts)
    check_texts(texts, where)
    first: dict[str, int] = {}  # each different text with the number of its first place
    for number, text in enumerate(texts):
        first.setdefault(text, number)
    chosen = find_model(model, device)
    folder = cache_folder() / "texts.embeddings" if cache is None else Path(cache)
    path = folder / f"{key_of(texts, chosen.identity())}.npy"
    vectors = load_kept(path, len(first))
    if len(vectors) < len(first):
        with ProgressLine(progress, "texts embedded", done_before=len(vectors)) as line:
            vectors = _make(first, vectors, chosen, batch_size, line, where, path)
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
                f"{where(number)}: the text to embed {came}. Repair or drop such rows."
            )


def is_empty(text: Any) -> bool:
    """True if there is no text, or one that no model can read."""
    is_text = isinstance(text, str)
    return text is None or (is_text and not (text.strip() and is_whole_text(text)))


def is_whole_text(text: str) -> bool:
    """Say if no character is cut in half. JSON can hold half of one; files and models cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _make(
    first: dict[str, int],
    kept: Float[np.ndarray, "_ _"],
    model: Model,
    batch_size: int,
    line: ProgressLine,
    where: Where,
    path: Path,
) -> Float[np.ndarray, "u d"]:
    """Make the vectors that are not kept yet, batch by batch, and keep all that were made."""
    texts, places, done = list(first), list(first.values()), len(kept)
    vectors = np.empty((len(texts), kept.shape[1]), np.float32)
    vectors[:done] = kept
    step = batch_size * model.batches_per_call
    try:
        while done < len(texts):
            batch = model.embed(texts[done : done + step], batch_size)
            if done == 0:
                vectors = np.empty((len(texts), batch.shape[1]), np.float32)
            _check_batch(batch, vectors.shape[1], model.name, lambda row: where(places[row]), done)
            vectors[done : done + len(batch)] = batch
            done += len(batch)
            line(done, len(texts))
        if model.cut_texts:
            warnings.warn(
                f"{model.cut_texts:,} of {len(texts):,} texts are longer than what {model.name} "
                f"reads: their vectors are those of their beginnings.",
                stacklevel=3,
            )
    finally:
        if done:
            _keep(path, vectors[:done])
    return vectors


def _check_batch(
    batch: Float[np.ndarray, "b e"], d: int, model: str, where: Where, start: int
) -> None:
    """Refuse vectors of another length, and those that float32 cannot hold."""
    if batch.shape[1] != d:
        raise ValueError(
            f"embed: {model} must give vectors of one length; the first had {d}, that of "
            f"{where(start)} has {batch.shape[1]}."
        )
    is_bad = ~np.isfinite(batch).all(axis=1)
    if is_bad.any():
        raise ValueError(
            f"embed: {model} gave a NaN or an infinity for "
            f"{where(start + int(np.flatnonzero(is_bad)[0]))}. Repair the model, or drop the text."
        )


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
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as unfinished, unfinished.open("wb") as file:
            np.lib.format.write_array(file, vectors, allow_pickle=False)
            file.write(_digest(vectors))
    except OSError as error:
        warnings.warn(
            f"the embeddings could not be kept, and will be made again next time: "
            f"{error.strerror or error}",
            stacklevel=3,
        )


def load_kept(path: Path, most: int) -> Float[np.ndarray, "_ d"]:
    """The vectors that were kept, up to ``most``. Of a damaged file, or of none, it is nothing."""
    nothing = np.empty((0, 0), np.float32)
    try:
        with path.open("rb") as file, refusing_damage(path.name):
            shape, _, dtype = npy_header(file)
            size = file.tell() + prod(shape) * dtype.itemsize + DIGEST_BYTES
            if size != os.fstat(file.fileno()).st_size:
                return nothing
            file.seek(0)
            vectors = np.lib.format.read_array(file, allow_pickle=False)
            digest = file.read()
    except (OSError, ValueError):
        return nothing
    is_right = vectors.dtype == np.float32 and vectors.ndim == 2 and len(vectors) <= most
    return vectors if is_right and digest == _digest(vectors) else nothing


def _digest(vectors: np.ndarray) -> bytes:
    rows = np.ascontiguousarray(vectors)
    return hashlib.blake2b(rows.data, digest_size=DIGEST_BYTES).digest()
