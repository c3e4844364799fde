"""Which model is meant by a name."""

import re
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from tellmost.embeddings.functions import FunctionModel
from tellmost.embeddings.sentences import SentenceModel, minilm_folder
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
