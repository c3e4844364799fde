"""Where rows come from: tensors, files, several files, and blocks made by the caller."""

from tellmost.sources.arrays import as_tensor
from tellmost.sources.held import HeldRows, hold
from tellmost.sources.naming import NamedArray
from tellmost.sources.opening import load_array, open_source
from tellmost.sources.source import Piece, Reader, Source, Span, spans
from tellmost.sources.streamed import StreamedRows

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
