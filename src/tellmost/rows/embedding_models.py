"""The models that make vectors of texts: sentence-transformers, or a function of the user's."""

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost.running.reading import reason_of
from tellmost.shapes import Float

SHORT_NAMES = {"all-minilm": "sentence-transformers/all-MiniLM-L6-v2"}
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
MARKS = ("modules.json", "config.json")  # one of them is in the folder of a model
HUB_SECONDS = 10.0  # the Hub answers within one or two; without a network nobody should wait long


class FunctionModel:
    """A function that takes a list of b strings and returns a (b, d) array or tensor."""

    batches_per_call = 1
    cut_texts = 0  # what a function does with long texts is unknown

    def __init__(self, name: str) -> None:
        self.name = name
        what = "a function in it that takes a list of strings"
        self._module, self._function = find_by_name(name, "embed", what)
        if not callable(self._function):
            raise TypeError(
                f"embed: {name} must be a function that takes a list of strings; it is "
                f"{type(self._function).__name__}."
            )

    def identity(self) -> str:
        """The content of the function's own file. What it reads elsewhere is unknown."""
        origin = getattr(self._module, "__file__", None)
        content = Path(origin).read_bytes() if origin else b""
        return f"{self.name} {hashlib.sha256(content).hexdigest()}"

    def embed(self, texts: list[str], batch_size: int) -> Float[np.ndarray, "b d"]:
        with _current_folder_importable():
            rows = self._function(texts)
        if isinstance(rows, torch.Tensor):
            rows = rows.detach().to(device="cpu", dtype=torch.float64).numpy()
        array = self._numeric(rows)
        if array.ndim != 2 or len(array) != len(texts) or array.shape[1] == 0:
            raise ValueError(
                f"embed: {self.name} must return a vector for each text, ({len(texts)}, d) for "
                f"{len(texts)} of them; got shape {array.shape}."
            )
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            return array.astype(np.float32)

    def _numeric(self, rows: Any) -> np.ndarray:
        try:
            array = np.asarray(rows)
        except ValueError:  # lists of several lengths
            array = np.empty(0, dtype=object)
        if array.dtype.kind in "fiu":
            return array
        raise TypeError(
            f"embed: {self.name} must return a numeric array or tensor of shape (b, d); got "
            f"{type(rows).__name__}."
        )


def find_by_name(name: str, argument: str, what: str) -> tuple[Any, Any]:
    """A module and something in it, by "package.module:name". ``what`` says what it should be."""
    module_name, _, path = name.partition(":")
    module = _import(module_name, argument)
    try:
        return module, reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise AttributeError(
            f"{argument}: the module {module_name} has no {path!r}. Name {what}."
        ) from error


def _import(name: str, argument: str) -> Any:
    with _current_folder_importable():
        try:
            return importlib.import_module(name)
        except Exception as error:
            absent = error.name if isinstance(error, ModuleNotFoundError) else None
            if absent is not None and f"{name}.".startswith(f"{absent}."):
                raise ImportError(
                    f"{argument}: there is no module {name!r}, neither in the current folder nor "
                    f"among the installed packages."
                ) from error
            kind, message = type(error).__name__, reason_of(error)
            raise ImportError(f"{argument}: importing {name} failed: {kind}: {message}") from error


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """Import from the current folder too, as under ``python -m``, for the time being."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


class SentenceModel:
    """A model of sentence-transformers, by its folder or by its id on the Hugging Face Hub.

    A model of the Hub is fetched once and kept in the Hub's cache; from then on no network is
    used. Batches are handed over several at a time, since the model sorts its texts by length.
    """

    batches_per_call = 8

    def __init__(self, name: str, device: str | None) -> None:
        self._is_folder = Path(name).is_dir()
        if self._is_folder and not any((Path(name) / mark).is_file() for mark in MARKS):
            raise ValueError(
                f"embed: the folder {name!r} is not a model of sentence-transformers: it has "
                f"neither {' nor '.join(MARKS)}."
            )
        if find_spec("sentence_transformers") is None:
            raise ImportError(
                "embed: embedding texts needs sentence-transformers; pip install "
                "'tellmost[embed]'."
            )
        self.name = name
        self.cut_texts = 0  # so many texts were longer than what the model reads
        self._device = device
        self._model: Any = None

    def identity(self) -> str:
        """The content of the model's files, and the version of the package that reads them."""
        version = metadata.version("sentence-transformers")
        if self._is_folder:
            return f"sentence-transformers {version} {_content_of(Path(self.name))}"
        if find_commit(self.name) is None:
            self._model = self._load()  # only then its commit is known
        return f"sentence-transformers {version} {self.name} {find_commit(self.name)}"

    def embed(self, texts: list[str], batch_size: int) -> Float[np.ndarray, "b d"]:
        if self._model is None:
            self._model = self._load()
        rows = self._model.encode(texts, batch_size=batch_size, show_progress_bar=False)
        self.cut_texts += self._count_cut(texts)
        return np.asarray(rows, dtype=np.float32)

    def _count_cut(self, texts: list[str]) -> int:
        """Count the texts of more word pieces than the model reads. No piece is empty."""
        most = getattr(self._model, "max_seq_length", None) or float("inf")
        long = [text for text in texts if len(text) > most - 2]
        if not long:
            return 0
        pieces = self._model.tokenizer(long, truncation=False, verbose=False)["input_ids"]
        return sum(len(some) > most for some in pieces)

    def _load(self) -> Any:
        if self._is_folder or find_commit(self.name) is not None:
            try:
                return self._read(local_files_only=True)
            except ValueError:
                if self._is_folder:
                    raise  # a model of the Hub may have been fetched in part only
        check_on_hub(self.name)
        return self._read(local_files_only=False)

    def _read(self, *, local_files_only: bool) -> Any:
        from sentence_transformers import SentenceTransformer

        with _no_bars():
            try:
                return SentenceTransformer(
                    self.name, device=self._device, local_files_only=local_files_only
                )
            except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
                raise ValueError(
                    f"embed: the model {self.name!r} cannot be loaded: {reason_of(error)}."
                ) from error


Model = FunctionModel | SentenceModel
"""A model is loaded with the first batch, not before. Its ``identity`` is a text that changes when
the vectors may."""


def find_model(name: str, device: str | None) -> Model:
    """The model that a name means: a folder, a function, or a model of the Hugging Face Hub."""
    if not isinstance(name, str):
        raise TypeError(
            f"embed must be a text; got {type(name).__name__}. A function is named as "
            f"'package.module:function', since its name is part of what vectors are kept under."
        )
    full_name = SHORT_NAMES.get(name, name)
    if Path(full_name).is_dir() or HUB_ID.fullmatch(full_name):
        return SentenceModel(full_name, device)
    if REFERENCE.fullmatch(name):
        return FunctionModel(name)
    raise ValueError(
        f"embed must be the id of a sentence-transformers model on the Hugging Face Hub, such as "
        f"'{SHORT_NAMES['all-minilm']}' ('all-minilm' for short), the folder of such a model, or "
        f"a function as 'package.module:function'; got {name!r}, and there is no such folder."
    )


def find_commit(name: str) -> str | None:
    """The commit of a model of the Hub that is in the cache; None where there is none."""
    from huggingface_hub import try_to_load_from_cache

    folder = os.environ.get("SENTENCE_TRANSFORMERS_HOME")  # sentence-transformers looks there
    for mark in MARKS:
        found = try_to_load_from_cache(name, mark, cache_dir=folder)
        if isinstance(found, str):
            return Path(found).parent.name
    return None


def check_on_hub(name: str) -> None:
    """Ask the Hub for a model once; without a network, loading it would ask for a minute."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except Exception as error:  # those of the HTTP library have no class in common with the Hub's
        raise ValueError(
            f"embed: there is no folder {name!r}, and no model of this name could be fetched from "
            f"the Hugging Face Hub: {reason_of(error)}. Without a network, fetch the model "
            f"elsewhere and give its folder."
        ) from error


def _content_of(folder: Path) -> str:
    """A short name for all files below a folder."""
    sums = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        sums.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(2**20):
                sums.update(block)
    return sums.hexdigest()


@contextmanager
def _no_bars() -> Iterator[None]:
    """Switch off the progress bars of transformers: a model of 90 MB is loaded in a second."""
    from transformers.utils import logging as imported

    logging: Any = imported
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
