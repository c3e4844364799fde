"""Picks in files: rows of their own, or the pool's records of them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import oracle
import tellmost as tm
from files_of_points import (
    ARRAYS,
    IDS,
    ROWS,
    TABLES,
    TEXTS,
    D,
    write_csv,
    write_jsonl,
    write_npy,
    write_parquet,
)
from tellmost.cli.labels import match_ids
from tellmost.cli.pick_files import check_picks_path, pick_rows, write_picks
from tellmost.cli.reading import Wanted, read_records
from tellmost.rows.sources import open_source

TARGETS = np.random.default_rng(1).normal(size=(3, D))
TARGET_IDS = ["one", "two", "three"]
CHOSEN = tm.select(ROWS, TARGETS, 4, kernel="linear")


def read_rows(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_row_per_pick_in_every_format(suffix, tmp_path):
    records = read_records(write_csv(tmp_path))
    path = tmp_path / f"picks{suffix}"
    write_picks(path, CHOSEN, records, pick_rows(CHOSEN, records, TARGET_IDS))
    rows = read_rows(path)
    cosine = oracle.cosines(ROWS, TARGETS)
    for place, row in enumerate(rows):
        index = int(CHOSEN.indices[place])
        assert list(row) == [
            *("rank", "index", "id", "gain", "uncertainty", "nearest_target", "similarity")
        ]
        assert (int(row["rank"]), int(row["index"]), row["id"]) == (place + 1, index, IDS[index])
        assert float(row["gain"]) == CHOSEN.gains[place]  # all digits
        assert float(row["uncertainty"]) == CHOSEN.uncertainty[place + 1]
        assert row["nearest_target"] == TARGET_IDS[cosine[index].argmax()]
        assert float(row["similarity"]) == pytest.approx(cosine[index].max(), rel=1e-9)
    assert len(rows) == 4 and sorted(p.name for p in tmp_path.iterdir()) == [path.name, "pool.csv"]
    np.testing.assert_array_equal(match_ids(path, records, "observed"), CHOSEN.indices)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_ids_that_are_numbers_stay_numbers_and_no_target_is_left_empty(suffix, tmp_path):
    records = read_records(write_npy(tmp_path))
    aimless = tm.select(ROWS, k=4, rule="k-center")
    write_picks(tmp_path / f"picks{suffix}", aimless, records, pick_rows(aimless, records))
    rows = read_rows(tmp_path / f"picks{suffix}")
    empty = "" if suffix == ".csv" else None
    indices = [str(i) if suffix == ".csv" else i for i in aimless.indices.tolist()]
    assert [row["id"] for row in rows] == indices
    assert all(row["nearest_target"] == row["similarity"] == empty for row in rows)


def test_a_saved_selection_is_one_of_the_formats(tmp_path):
    write_picks(tmp_path / "picks.tellmost", CHOSEN, read_records(write_npy(tmp_path)), [])
    loaded = tm.Selection.load(tmp_path / "picks.tellmost")
    np.testing.assert_array_equal(loaded.indices, CHOSEN.indices)


def test_no_picks_are_a_file_without_rows(tmp_path):
    records = read_records(write_npy(tmp_path))
    none = tm.select(ROWS, TARGETS, 4, min_gain=1e9, kernel="linear")
    for suffix in (".csv", ".jsonl", ".parquet"):
        write_picks(tmp_path / f"picks{suffix}", none, records, pick_rows(none, records))
        assert read_rows(tmp_path / f"picks{suffix}") == []


# ---- the pool's own records


@pytest.mark.parametrize("write", [*ARRAYS.values(), *TABLES.values()])
def test_records_of_the_picks_are_a_pool_of_the_same_format(write, tmp_path):
    records = read_records(write(tmp_path))
    path = tmp_path / f"picked{records.path.suffix}"
    write_picks(path, CHOSEN, records, [], as_records=True)
    picked = read_records(path)
    source = open_source(picked.vectors, "pool")
    np.testing.assert_array_equal(source.read(0, 4).numpy(), ROWS[CHOSEN.indices])
    if records.has_own_ids:
        assert picked.ids.tolist() == records.ids[CHOSEN.indices].tolist()


def test_lines_of_a_jsonl_file_are_kept_as_they_are(tmp_path):
    lines = [f'{{ "vector":{row.tolist()},"z": 1.0e0, "é":"\\u00e9"}}' for row in ROWS]
    (tmp_path / "pool.jsonl").write_text("\n\n".join(lines), encoding="utf-8")  # no end of line
    records = read_records(tmp_path / "pool.jsonl")
    write_picks(tmp_path / "picked.jsonl", CHOSEN, records, [], as_records=True)
    written = (tmp_path / "picked.jsonl").read_text(encoding="utf-8")
    assert written == "".join(f"{lines[index]}\n" for index in CHOSEN.indices)


def test_rows_of_a_csv_file_are_kept_as_they_are(tmp_path):
    path = write_csv(tmp_path, text=TEXTS)
    records = read_records(path, wanted=Wanted(text_field="text"))
    write_picks(tmp_path / "picked.csv", CHOSEN, records, [], as_records=True)
    written = (tmp_path / "picked.csv").read_bytes().decode()
    assert written.startswith("id,x0,x1,x2,text\r\ndoc-")
    assert read_records(
        tmp_path / "picked.csv", wanted=Wanted(text_field="text")
    ).items() == records.items(CHOSEN.indices)


def test_the_schema_of_a_parquet_file_is_kept(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    records = read_records(write_parquet(tmp_path, text=TEXTS))
    write_picks(tmp_path / "picked.parquet", CHOSEN, records, [], as_records=True)
    before, after = (parquet.read_table(tmp_path / n) for n in ("pool.parquet", "picked.parquet"))
    assert after.schema.equals(before.schema)
    assert after.equals(before.take(CHOSEN.indices))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_arrays_keep_their_dtype(dtype, tmp_path):
    rows = (10 * ROWS).astype(dtype)
    write_picks(
        tmp_path / "picked.npy",
        CHOSEN,
        read_records(write_npy(tmp_path, rows)),
        [],
        as_records=True,
    )
    picked = np.load(tmp_path / "picked.npy")
    assert picked.dtype == dtype
    np.testing.assert_array_equal(picked, rows[CHOSEN.indices])


def test_gzipped_records_are_written_gzipped(tmp_path):
    import gzip

    plain = write_jsonl(tmp_path)
    (tmp_path / "pool.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    records = read_records(tmp_path / "pool.jsonl.gz")
    write_picks(tmp_path / "picked.jsonl.gz", CHOSEN, records, [], as_records=True)
    assert read_records(tmp_path / "picked.jsonl.gz").ids.tolist() == [
        IDS[index] for index in CHOSEN.indices
    ]
    with pytest.raises(ValueError, match=r"its own format, \.jsonl\.gz; got picked\.jsonl"):
        write_picks(tmp_path / "picked.jsonl", CHOSEN, records, [], as_records=True)


# ---- what cannot be written


def test_a_name_that_says_no_format_is_refused_before_long_work(tmp_path):
    pool = tmp_path / "pool.npy"
    with pytest.raises(ValueError, match=r"picks\.xlsx; the formats are \.csv.*\.tellmost"):
        check_picks_path(tmp_path / "picks.xlsx", pool)
    with pytest.raises(ValueError, match=r"in its own format, \.npy; got picks\.csv"):
        check_picks_path(tmp_path / "picks.csv", pool, as_records=True)
    with pytest.raises(FileNotFoundError, match="output: there is no folder"):
        check_picks_path(tmp_path / "gone" / "picks.csv", pool)


def test_an_interrupted_run_leaves_no_half_file(tmp_path, monkeypatch):
    records = read_records(write_csv(tmp_path))
    (tmp_path / "picks.jsonl").write_text("older picks\n")

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)  # Ctrl-C at the last moment
    with pytest.raises(KeyboardInterrupt):
        write_picks(tmp_path / "picks.jsonl", CHOSEN, records, pick_rows(CHOSEN, records))
    assert (tmp_path / "picks.jsonl").read_text() == "older picks\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picks.jsonl", "pool.csv"]
