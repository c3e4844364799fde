"""Files of picks: a row for each pick, with what the pool's own record of it says."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tellmost.rows.frames import plain_values
from tellmost.rows.parquet import import_pyarrow
from tellmost.rows.records import Records
from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.selection import Selection

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".tellmost")
COLUMNS = ("rank", "index", "id", "gain", "uncertainty", "nearest_target", "similarity")


def check_picks_path(path: Path, argument: str = "output") -> None:
    """Check before long work that picks can be written in the path's format."""
    if path.suffix not in FORMATS:
        stdout = " Without it the picks go to stdout." if str(path) == "-" else ""
        raise ValueError(
            f"{argument}: cannot write {path.name}; the formats are {', '.join(FORMATS)}.{stdout}"
        )
    if path.suffix == ".parquet":
        import_pyarrow(f"{argument}: writing {path.name}")
    check_writable(path, argument)


def write_picks(
    path: Path,
    chosen: Selection,
    records: Records,
    rows: list[dict[str, Any]],
    *,
    with_records: bool = True,
) -> None:
    """Write the picks in their order, whole or not at all. The name's ending says the format.

    ``rows`` are those of ``pick_rows``. The pool's own columns follow, but for its vectors. A
    column of the pool that has the name of one of ours is left out.
    """
    check_picks_path(path)
    if path.suffix == ".tellmost":
        return chosen.save(path)
    own: dict[str, Any] = {}
    if with_records:
        without = (*COLUMNS, records.id_column, records.vector_column)
        own = records.table.some(chosen.indices, without)
    with written_whole(path) as unfinished:
        if path.suffix == ".parquet":
            return _write_parquet(unfinished, rows, own)
        columns = [plain_values(values) for values in own.values()]
        for row, *values in zip(rows, *columns, strict=True):
            row.update(zip(own, values, strict=True))
        _write_rows(unfinished, path, rows, [*COLUMNS, *own])


def pick_rows(
    chosen: Selection,
    records: Records,
    target_ids: Sequence[Any] | None = None,
) -> list[dict[str, Any]]:
    """A row per pick in plain values: rank, index, id, gain, uncertainty, nearest target.

    ``target_ids`` name the nearest targets. Without them their numbers do.
    """
    columns = {name: values.tolist() for name, values in chosen.columns().items()}
    if len(records.ids):  # else the picks know theirs
        columns["id"] = records.ids[chosen.indices].tolist()
    columns.setdefault("id", columns["index"])
    if target_ids is not None and chosen.nearest_target is not None:
        columns["nearest_target"] = [target_ids[n] for n in chosen.nearest_target.tolist()]
    nothing = [None] * len(chosen)
    values = (columns.get(name, nothing) for name in COLUMNS)
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*values, strict=True)]


def _write_rows(
    unfinished: Path, path: Path, rows: list[dict[str, Any]], names: Sequence[str]
) -> None:
    with unfinished.open("w", encoding="utf-8", errors="replace", newline="") as file:
        if path.suffix == ".jsonl":
            for row in rows:
                print(json.dumps(row, ensure_ascii=False, default=str), file=file)
            return
        delimiter = "\t" if path.suffix == ".tsv" else ","
        writer = csv.DictWriter(file, names, delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _write_parquet(path: Path, rows: list[dict[str, Any]], own: Mapping[str, Any]) -> None:
    arrow = import_pyarrow(f"writing {path.name}")
    numbers = dict.fromkeys(("gain", "uncertainty", "similarity"), arrow.float64())

    def column(name: str, values: Any) -> Any:
        """Whole numbers stay so where all ids are; what is of several kinds is text."""
        if not isinstance(values, list):
            return values  # a column of the pool's own file, in its own type
        kind = numbers.get(name, arrow.int64()) if name in COLUMNS else None
        try:
            return arrow.array(values, kind)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            return arrow.array([None if some is None else str(_cell(some)) for some in values])

    ours = {name: [row[name] for row in rows] for name in COLUMNS}
    columns = {name: column(name, values) for name, values in {**ours, **own}.items()}
    arrow.parquet.write_table(arrow.table(columns), path)
