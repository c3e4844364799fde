"""A function of the caller's as a model: "package.module:function"."""

import hashlib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost.shapes import Float


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
