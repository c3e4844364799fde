"""Points are read from files of any format, with what belongs to each row."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from typing import Any

import numpy as np
import torch

from tellmost.rows.array_tables import ARRAYS, open_array
from tellmost.rows.files import Readable
from tellmost.rows.frames import as_frame, plain_values
from tellmost.rows.opening import find_all, names_files
from tellmost.rows.parquet import ParquetTable
from tellmost.rows.records import (
    Records,
    check_ids,
    check_named,
    find_columns,
    join_records,
    listed,
    only_vectors,
)
from tellmost.rows.skipping import keep_rows, skip_bad_rows
from tellmost.rows.sources import HeldRows, NamedArray, as_tensor
from tellmost.rows.stores import MOST_OPENED, RemoteFile
from tellmost.rows.text_embeddings import embed, is_empty
from tellmost.rows.text_formats import (
    CELLS,
    Delimited,
    JsonLines,
    TextFormat,
    TextTable,
    read_body,
)
from tellmost.rows.text_tables import SUFFIXES, suffix_of
from tellmost.shapes import Shaped

FORMATS = (*ARRAYS, ".parquet", *SUFFIXES, *(f"{suffix}.gz" for suffix in SUFFIXES))
OWN_ID = "id"  # the column of ids where the user names none


@dataclass(frozen=True)
class Wanted:
    """The parts of a file that the caller asks for.

    Args:
        vector_column: the column, field or array of vectors. None means the only one there is. In
            a .csv or .tsv file it means all named columns of numbers that serve no other end.
        text_field: the column of texts, which are shown and, with ``embed``, embedded.
        id_column: the column of ids. None means "id", where it exists.
        columns: others that will be asked for, such as costs. They are no features.
        excluded: others that are no features, as ``find_columns`` reads them, where they exist.
        features: the columns of a .csv or .tsv file that are features, as ``find_columns`` reads
            them. None for all columns of numbers that nothing else is said of.
        embed: the model that makes vectors of the texts, as ``embed_texts`` describes it.
        required: whether the columns must exist. Otherwise they count where they do.
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
    excluded: Sequence[str] = ()
    features: Sequence[str] | None = None
    embed: str | None = None
    required: bool = True
    lone_vector: bool = False
    skip_bad: bool = False
    device: str | None = None
    memory: int | None = None

    def among(self, names: Sequence[str]) -> "Wanted":
        """The same for a file with these columns."""
        others, _ = find_columns(self.excluded, names)
        wanted = replace(self, columns=[*self.columns, *others])
        if self.required:
            return wanted
        text, ids, vectors = (
            name if name in names else None
            for name in (self.text_field, self.id_column, self.vector_column)
        )
        text = text if self.embed is None else self.text_field
        features = self.features if find_columns(self.features or (), names)[0] else None
        return replace(
            wanted, text_field=text, id_column=ids, vector_column=vectors, features=features
        )


def read_records(
    given: Any,
    argument: str = "pool",
    wanted: Wanted = Wanted(),  # it never changes
    progress: bool | None = False,
) -> Records:
    """Read points from files, with their ids and whatever else the files have about them.

    ``given`` is a path, a folder, a pattern, a URL, or a list of these. The files are .npy, .npz,
    .safetensors, .parquet, .csv, .tsv, .jsonl or .json, an array of records; the last four also
    .gz. ``argument`` is what they are for, which errors name. ``progress`` is shown of embedding.
    """
    files = find_all(NamedArray(given), argument)
    read = partial(_read_file, wanted=wanted)
    are_far = any(isinstance(file, RemoteFile) for file in files)
    with ThreadPoolExecutor(MOST_OPENED if are_far else 1) as threads:
        records = join_records(list(threads.map(read, files)))
    if wanted.embed is None or wanted.text_field is None:
        return skip_bad_rows(records) if wanted.skip_bad else records
    texts = records.values(wanted.text_field)
    if wanted.skip_bad:
        records = keep_rows(records, np.array([not is_empty(text) for text in texts]))
    rows = records.of_vectors(np.arange(len(texts))).tolist()
    vectors = embed(
        [texts[row] for row in rows],
        wanted.embed,
        cache=None if are_far or len(files) > 1 else f"{records.path}.embeddings",
        device=wanted.device,
        progress=progress,
        where=lambda number: f"{records.table.file.label}, {records.line(rows[number])}",
    )
    return replace(records, vectors=vectors)


def hold_named(
    named: NamedArray,
    argument: str,
    text: str | None = None,
    model: str | None = None,
    progress: bool | None = False,
) -> HeldRows:
    """What the caller of the library names: vectors, columns of numbers, or texts to embed."""
    is_one = isinstance(named.name, str)
    wanted = Wanted(
        vector_column=str(named.name) if is_one else None,
        text_field=text,
        id_column=named.id_column,
        features=None if is_one else named.name,
        embed=model,
        required=named.required,
    )
    records = read_records(named.given, argument, wanted, progress)
    rows = HeldRows(as_tensor(records.vectors, argument), records.line)
    rows.features = [] if records.vector_column else records.features
    if records.has_own_ids:
        rows.ids = lambda numbers: np.array(records.ids[numbers.numpy()].tolist())
    if model is not None and text is not None:
        rows.texts = records.values(text)
    return rows


def name_both(
    pool: Any,
    others: Any,
    argument: str,
    column: str | Sequence[str] | None,
    id_column: str | None,
    text: str | None,
    model: str | None,
    *,
    progress: bool | None = None,
) -> tuple[Any, Any]:
    """A pool and other rows with what their columns mean, as ``name_rows`` says of each.

    ``argument`` is what the others are for. They may lack the columns.
    """
    if (column, id_column, text, model) == (None, None, None, None):
        return pool, others
    meant = (column, id_column, text, model)
    pool = name_rows(pool, "pool", *meant, progress=progress)
    if others is not None:
        others = name_rows(others, argument, *meant, progress=progress)
    return pool, others


def name_rows(
    given: Any,
    argument: str,
    column: str | Sequence[str] | None,
    id_column: str | None,
    text: str | None,
    model: str | None,
    *,
    progress: bool | None,
) -> NamedArray:
    """Rows with what their columns mean. Texts become vectors if there is a model for them."""
    named = NamedArray(given, column, id_column, required=argument == "pool")
    if model is None:
        if text is not None:
            raise ValueError(
                f"text={text!r} names texts to embed; say by which model: embed='...'."
            )
        return named
    if column is not None:
        raise ValueError("vectors are either read from column or made by embed; got both.")
    if text is not None and are_paths(given):
        return NamedArray(hold_named(named, argument, text, model, progress))
    frame = as_frame(given)
    if frame is None:
        named.refuse_names(argument, f"a {type(given).__name__}")
        texts = [given] if isinstance(given, str) else plain_values(given)
    elif text is None:
        raise ValueError(f"embed needs text, the column of texts in {argument}; got none.")
    else:
        texts = frame.values(text, argument)
    rows = HeldRows(torch.from_numpy(embed(texts, model, progress=progress)))
    rows.texts = texts
    if frame is not None:
        rows.ids = frame.reader_of_ids(named, argument)
    return NamedArray(rows)


def are_paths(given: Any) -> bool:
    """Say if these are files with texts in them, and not the texts themselves."""
    if not names_files(given):
        return False
    entries = given if isinstance(given, list | tuple) else [given]
    return all(
        isinstance(entry, os.PathLike)
        or (isinstance(entry, str) and (is_named_like_a_file(entry) or is_there(entry)))
        for entry in entries
    )


def is_named_like_a_file(text: str) -> bool:
    return suffix_of(text) in FORMATS or re.match(r"[a-z][a-z0-9+.-]+://\S+$", text) is not None


def is_there(path: str) -> bool:
    return os.path.exists(path) or ("*" in path and len(glob(path)) > 0)


def _read_file(file: Readable, wanted: Wanted) -> Records:
    suffix = suffix_of(file.name)
    if suffix not in FORMATS:
        raise ValueError(
            f"{file.argument}: cannot read {file.name}; the formats are {', '.join(FORMATS)}."
        )
    others = _read_parquet if suffix == ".parquet" else _read_text
    return (_read_arrays if suffix in ARRAYS else others)(file, wanted)


def _read_arrays(file: Readable, wanted: Wanted) -> Records:
    named = [wanted.text_field, wanted.id_column, *wanted.columns]
    if file.suffix == ".npy":
        named.append(wanted.vector_column)
    for name in named:
        if name is not None and wanted.required:
            check_named(name, (), file)
    if wanted.embed is not None:
        raise ValueError(
            f"{file.label} holds vectors, not texts: there is nothing to embed. Drop embed."
        )
    name = None if file.suffix == ".npy" else wanted.vector_column
    return open_array(file, name, lone_vector=wanted.lone_vector, memory=wanted.memory)


def _read_parquet(file: Readable, wanted: Wanted) -> Records:
    table = ParquetTable(file)
    wanted = wanted.among(table.names)
    id_column = _check_names(wanted, table.names, file)
    ids: Shaped[np.ndarray, " n"] = np.arange(len(table))
    if id_column is not None:
        ids = check_ids(table.column(id_column), id_column, file.label, lambda row: f"row {row}")
    records = Records(None, ids, table, id_column, wanted.text_field)
    if wanted.embed is not None:
        return records
    if wanted.vector_column is None:
        what = "column must hold lists of numbers, the vectors"
        name = only_vectors(table.vectors, table.names, file, what)
    elif (name := wanted.vector_column) not in table.vectors:
        raise ValueError(
            f"{file.label}: column {name!r} must hold lists of numbers; it holds "
            f"{table.kinds[name]}."
        )
    vectors = NamedArray(file.place, name, id_column)
    return replace(records, vectors=vectors, features=[name], vector_column=name)


def _read_text(file: Readable, wanted: Wanted) -> Records:
    kind = Delimited if suffix_of(file.name) in CELLS else JsonLines
    source: TextFormat = kind(file, has_gaps=wanted.skip_bad)
    wanted = wanted.among(source.names)
    if not source.has_rows:
        raise ValueError(f"{file.label} has no rows, only a header: {listed(source.names)}.")
    id_column = _check_names(wanted, source.names, file)
    asked = [id_column, wanted.text_field, *wanted.columns]
    keep = list(dict.fromkeys(name for name in asked if name is not None))
    features, read_vector = (
        source.vectors(wanted.vector_column, keep, wanted.features)
        if wanted.embed is None
        else ([], None)
    )
    numbers, kept, vectors = read_body(source, keep, read_vector, wanted.memory)
    unit = "row" if source.is_array else "line"

    def place(row: int) -> str:
        return f"{unit} {numbers[row]}"

    ids: Shaped[np.ndarray, " n"] = np.arange(len(numbers))
    if id_column is not None:
        ids = check_ids(kept[id_column], id_column, file.label, place)
    is_listed = wanted.vector_column is not None or isinstance(source, JsonLines)
    records = Records(
        None,
        ids,
        TextTable(source),
        id_column,
        wanted.text_field,
        features,
        features[0] if is_listed and features else None,
        place=place,
        kept=kept,
    )
    return records if vectors is None else replace(records, vectors=vectors.joined(records.line))


def _check_names(wanted: Wanted, names: Sequence[str], file: Readable) -> str | None:
    """Check that the columns exist and go together. Return the column of ids, if there is one."""
    for name in (wanted.id_column, wanted.text_field, wanted.vector_column, *wanted.columns):
        if name is not None:
            check_named(name, names, file)
    if wanted.embed is not None and wanted.text_field is None:
        raise ValueError(
            f"{file.label}: embed needs the column of texts, text='text'; got none. It has "
            f"{listed(names) or 'no named columns'}."
        )
    if wanted.embed is not None and wanted.vector_column is not None:
        raise ValueError(
            f"{file.label}: vectors are either read from a column or made by embed; got both. "
            f"Drop one."
        )
    return OWN_ID if wanted.id_column is None and OWN_ID in names else wanted.id_column
