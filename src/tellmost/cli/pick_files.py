"""Files of picks: with a row for each pick, or with the pool's own records of them."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tellmost.cli.records import Records
from tellmost.rows.parquet import import_pyarrow
from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.selection import Selection

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".tellmost")
COLUMNS = ("rank", "index", "id", "gain", "uncertainty", "nearest_target", "similarity")


def check_picks_path(
    path: Path, of: Path, *, as_records: bool = False, argument: str = "output"
) -> None:
    """Check before long work that picks from pool ``of`` can be written in the path's format."""
    own = "".join(of.suffixes[-2:]) if of.suffix == ".gz" else of.suffix
    if as_records and not path.name.endswith(own):
        raise ValueError(
            f"{argument}: the records of {of.name} are written in its own format, {own}; got "
            f"{path.name}. Give the file this ending."
        )
    if not as_records and path.suffix not in FORMATS:
        raise ValueError(
            f"{argument}: cannot write {path.name}; the formats are {', '.join(FORMATS)}."
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
    as_records: bool = False,
) -> None:
    """Write the picks in their order, whole or not at all. The name's ending says the format.

    ``rows`` are those of ``pick_rows``. ``as_records`` writes the pool's own records of the picks
    instead, in the pool's own format.
    """
    check_picks_path(path, records.path, as_records=as_records)
    if path.suffix == ".tellmost" and not as_records:
        return chosen.save(path)
    with written_whole(path) as unfinished:
        if as_records:
            records.table.write(unfinished, chosen.indices)
        else:
            _write_rows(unfinished, path, rows)


def pick_rows(
    chosen: Selection,
    records: Records,
    target_ids: Sequence[Any] | None = None,
) -> list[dict[str, Any]]:
    """A row per pick in plain values: rank, index, id, gain, uncertainty, nearest target.

    ``target_ids`` name the nearest targets. Without them their numbers do.
    """
    columns = {name: values.tolist() for name, values in chosen.columns().items()}
    columns["id"] = records.ids[chosen.indices].tolist()
    if target_ids is not None and "nearest_target" in columns:
        columns["nearest_target"] = [target_ids[number] for number in columns["nearest_target"]]
    nothing = [None] * len(chosen)
    values = (columns.get(name, nothing) for name in COLUMNS)
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*values, strict=True)]


def _write_rows(unfinished: Path, path: Path, rows: list[dict[str, Any]]) -> None:
    match path.suffix:
        case ".jsonl":
            lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
            text = "".join(f"{line}\n" for line in lines)
            unfinished.write_text(text, encoding="utf-8", errors="replace", newline="")
        case ".parquet":
            _write_parquet(unfinished, rows)
        case suffix:
            with unfinished.open("w", encoding="utf-8", errors="replace", newline="") as file:
                delimiter = "\t" if suffix == ".tsv" else ","
                writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    arrow = import_pyarrow(f"writing {path.name}")
    names = {}
    for name in ("id", "nearest_target"):
        is_whole = all(isinstance(row[name], int | None) for row in rows)
        names[name] = arrow.int64() if is_whole else arrow.string()
    numbers = dict.fromkeys(("gain", "uncertainty", "similarity"), arrow.float64())
    kinds = {"rank": arrow.int64(), "index": arrow.int64(), **names, **numbers}
    columns = {}
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        if kind == arrow.string():  # where one id is no whole number, all ids are text
            values = [None if value is None else str(value) for value in values]
        columns[name] = arrow.array(values, kind)
    arrow.parquet.write_table(arrow.table({name: columns[name] for name in COLUMNS}), path)
