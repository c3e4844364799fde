"""Which of several arrays in a file is meant."""

from dataclasses import dataclass
from pathlib import Path

from tellmost.sources.files import File


@dataclass(frozen=True)
class NamedArray:
    """One array of a file: a column of vectors of a .parquet file, a tensor of a .safetensors one.

    Stands where a path may stand. ``name`` is None for the only one there is; errors name a row by
    its entry in ``id_column`` too.
    """

    path: Path
    name: str | None = None
    id_column: str | None = None


def choose_name(found: list[str], what: str, file: File, wanted: str | None) -> str:
    """The name that is wanted, or the only one there is."""
    listing = ", ".join(sorted(found)) or "none"
    if wanted in found:
        return wanted
    if wanted is not None:
        raise ValueError(f"{file.label} has no {what} named {wanted!r}; it has {listing}.")
    if len(found) == 1:
        return found[0]
    raise ValueError(
        f"{file.label} must hold exactly one {what}; it has {len(found)}: {listing}. Choose one "
        f"with vector_column where that can be given, or load the file yourself and pass the "
        f"array."
    )
