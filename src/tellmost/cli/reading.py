"""Points are read from files of any format, with what belongs to each row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from tellmost.cli.array_tables import ARRAYS, ParquetTable, open_array
from tellmost.cli.records import Records, check_ids, check_named, listed, name_place
from tellmost.cli.skipping import keep_rows, skip_bad_rows
from tellmost.cli.text_formats import Delimited, JsonLines, TextFormat, TextTable, read_body
from tellmost.cli.text_tables import suffix_of
from tellmost.rows.files import File, check_there, open_filled
from tellmost.rows.sources import NamedArray
from tellmost.rows.text_embeddings import embed, is_empty
from tellmost.shapes import Shaped

TEXTS: dict[str, Callable[..., TextFormat]] = {
    ".csv": Delimited,
    ".tsv": Delimited,
    ".jsonl": JsonLines,
    ".json": JsonLines,
}
FORMATS = (*ARRAYS, ".parquet", *TEXTS, *(f"{suffix}.gz" for suffix in TEXTS))
OWN_ID = "id"  # the column of ids where the user names none

Found = TypeVar("Found")


@dataclass(frozen=True)
class Wanted:
    """The parts of a file that the caller asks for.

    Args:
        vector_column: the column, field or array of vectors. None means the only one there is. In
            a .csv or .tsv file it means all named columns of numbers that serve no other end.
        text_field: the column of texts, which are shown and, with ``embed``, embedded.
        id_column: the column of ids. None means "id", where it exists.
        columns: others that will be asked for, such as costs. They are no features.
        features: the columns of a .csv or .tsv file that are features, as ``find_columns`` reads
            them. None for all columns of numbers that nothing else is said of.
        embed: the model that makes vectors of the texts, as ``embed_texts`` describes it.
        lone_vector: whether an array of one dimension is one row. Targets may be given so.
        skip_bad: whether rows are skipped that are not finite, or whose text to embed is empty.
            Otherwise the first of them is an error, here or when the vectors are used.
        device: for embedding.
        memory: bytes that an array may take that cannot be streamed, and twice those that numbers
            of a text file may take. None for what is available.
    """

    vector_column: str | None = None
    text_field: str | None = None
    id_column: str | None = None
    columns: Sequence[str] = ()
    features: Sequence[str] | None = None
    embed: str | None = None
    lone_vector: bool = False
    skip_bad: bool = False
    device: str | None = None
    memory: int | None = None


def read_records(
    path: Path,
    argument: str = "pool",
    wanted: Wanted = Wanted(),  # it never changes
    progress: bool | None = False,
) -> Records:
    """Read points from a file, with their ids and whatever else the file has about them.

    The file is .npy, .npz, .safetensors, .parquet, .csv, .tsv, .jsonl or .json, an array of
    records; the last four also .gz.
    ``argument`` is what the file is for, which errors name. ``progress`` is shown of embedding.
    """
    check_there(path, argument)
    suffix = suffix_of(path)
    if suffix not in FORMATS or (path.suffix == ".gz" and suffix not in TEXTS):
        raise ValueError(
            f"{argument}: cannot read {path.name}; the formats are {', '.join(FORMATS)}."
        )
    file = open_filled(path, argument)
    others = _read_parquet if suffix == ".parquet" else _read_text
    records = (_read_arrays if suffix in ARRAYS else others)(file, wanted)
    if wanted.embed is None or wanted.text_field is None:
        return skip_bad_rows(records) if wanted.skip_bad else records
    texts = records.values(wanted.text_field)
    if wanted.skip_bad:
        records = keep_rows(records, np.array([not is_empty(text) for text in texts]))
    rows = records.of_vectors(np.arange(len(texts))).tolist()
    vectors = embed(
        [texts[row] for row in rows],
        wanted.embed,
        cache=f"{records.path}.embeddings",
        device=wanted.device,
        progress=progress,
        where=lambda number: f"{file.label}, {records.line(rows[number])}",
    )
    return replace(records, vectors=vectors)


def column_names(path: Path, argument: str) -> Sequence[str]:
    """The columns that a file has. An array and a file without a header have none."""
    suffix, file = suffix_of(path), open_filled(path, argument)
    if suffix == ".parquet":
        return ParquetTable(file).names
    return TEXTS[suffix](file).names if suffix in TEXTS else ()


def _read_arrays(file: File, wanted: Wanted) -> Records:
    named = [wanted.text_field, wanted.id_column, *wanted.columns]
    if file.path.suffix == ".npy":
        named.append(wanted.vector_column)
    for name in named:
        if name is not None:
            check_named(name, (), file)
    if wanted.embed is not None:
        raise ValueError(
            f"{file.label} holds vectors, not texts: there is nothing to embed. Drop embed."
        )
    table = open_array(
        file, wanted.vector_column, lone_vector=wanted.lone_vector, memory=wanted.memory
    )
    return Records(table.vectors, np.arange(len(table)), table)


def _read_parquet(file: File, wanted: Wanted) -> Records:
    table = ParquetTable(file)
    id_column = _check_names(wanted, table.names, file)
    ids: Shaped[np.ndarray, " n"] = np.arange(len(table))
    if id_column is not None:
        ids = check_ids(table.column(id_column), id_column, file, lambda row: f"row {row}")
    records = Records(None, ids, table, id_column, wanted.text_field)
    if wanted.embed is not None:
        return records
    name = _find_vectors(lambda: table.vector_name(wanted.vector_column), wanted)
    vectors = NamedArray(file.path, name, id_column)
    return replace(records, vectors=vectors, features=[name], vector_column=name)


def _read_text(file: File, wanted: Wanted) -> Records:
    source = TEXTS[suffix_of(file.path)](file, has_gaps=wanted.skip_bad)
    if not source.has_rows:
        raise ValueError(f"{file.label} has no rows, only a header: {listed(source.names)}.")
    id_column = _check_names(wanted, source.names, file)
    asked = [id_column, wanted.text_field, *wanted.columns]
    keep = list(dict.fromkeys(name for name in asked if name is not None))
    features, read_vector = (
        ([], None)
        if wanted.embed is not None
        else _find_vectors(
            lambda: source.vectors(wanted.vector_column, keep, wanted.features), wanted
        )
    )
    numbers, kept, vectors = read_body(source, keep, read_vector, wanted.memory)
    lines = None if source.is_array else numbers
    ids: Shaped[np.ndarray, " n"] = np.arange(len(numbers))
    if id_column is not None:
        ids = check_ids(kept[id_column], id_column, file, lambda row: name_place(row, lines))
    is_listed = wanted.vector_column is not None or isinstance(source, JsonLines)
    records = Records(
        None,
        ids,
        TextTable(source),
        id_column,
        wanted.text_field,
        features,
        features[0] if is_listed and features else None,
        lines=lines,
        kept=kept,
    )
    return records if vectors is None else replace(records, vectors=vectors.joined(records.line))


def _check_names(wanted: Wanted, names: Sequence[str], file: File) -> str | None:
    """Check that the columns exist and go together. Return the column of ids, if there is one."""
    for name in (wanted.id_column, wanted.text_field, wanted.vector_column, *wanted.columns):
        if name is not None:
            check_named(name, names, file)
    if wanted.embed is not None and wanted.text_field is None:
        raise ValueError(
            f"{file.label}: embed needs a text_field, the column of texts; got none. It has "
            f"{listed(names) or 'no named columns'}."
        )
    if wanted.embed is not None and wanted.vector_column is not None:
        raise ValueError(
            f"{file.label}: vectors are either read from vector_column or made by embed; got "
            f"both. Drop one."
        )
    return OWN_ID if wanted.id_column is None and OWN_ID in names else wanted.id_column


def _find_vectors(find: Callable[[], Found], wanted: Wanted) -> Found:
    """Find what holds the vectors. With texts but no model the error says what is missing."""
    try:
        return find()
    except ValueError as error:
        if wanted.text_field is None or wanted.vector_column is not None:
            raise
        raise ValueError(
            f"{error} The text_field {wanted.text_field!r} was given without embed, for example "
            f"embed='all-minilm'."
        ) from error
