"""Where rows come from: tensors, files, several files, and blocks made by the caller."""

from sightline.sources.arrays import as_tensor
from sightline.sources.held import HeldRows, hold
from sightline.sources.naming import NamedArray
from sightline.sources.opening import load_array, open_source
from sightline.sources.source import Piece, Reader, Source, Span, spans
from sightline.sources.streamed import StreamedRows

__all__ = [
    "HeldRows",
    "NamedArray",
    "Piece",
    "Reader",
    "Source",
    "Span",
    "StreamedRows",
    "as_tensor",
    "hold",
    "load_array",
    "open_source",
    "spans",
]
