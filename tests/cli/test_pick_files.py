"""Picks in files: rows of their own, or the pool's records of them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import oracle
import tellmost as tm
from files_of_points import (
    IDS,
    ROWS,
    TEXTS,
    D,
    write_csv,
    write_npy,
)
from tellmost.cli.labels import match_ids
from tellmost.cli.pick_files import check_picks_path, pick_rows, write_picks
from tellmost.rows.record_files import Wanted, read_records

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
    picks = pick_rows(CHOSEN, records, TARGET_IDS)
    write_picks(path, CHOSEN, records, picks, with_records=False)
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


def test_own_columns_follow_and_ours_win(tmp_path):
    path = write_csv(tmp_path, text=TEXTS, rank=["own"] * 12, more=["=1+2"] * 12)
    records = read_records(path, wanted=Wanted(text_field="text", features=("x0:x2",)))
    for suffix in (".csv", ".jsonl", ".parquet"):
        out = tmp_path / f"picked{suffix}"
        write_picks(out, CHOSEN, records, pick_rows(CHOSEN, records))
        rows = read_rows(out)
        assert list(rows[0])[7:] == ["x0", "x1", "x2", "text", "more"]
        assert [row["text"] for row in rows] == records.items(CHOSEN.indices)
        assert [str(row["rank"]) for row in rows] == ["1", "2", "3", "4"]
        assert {row["more"] for row in rows} == {"=1+2"}
        write_picks(out, CHOSEN, records, pick_rows(CHOSEN, records), with_records=False)
        assert len(read_rows(out)[0]) == 7


def test_records_of_several_shapes_keep_their_fields(tmp_path):
    fields = [{"a": {"b": 1}}, {"c": [1, "x"]}, {"a": "text"}]
    lines = [{"vector": row.tolist(), **fields[i % 3]} for i, row in enumerate(ROWS)]
    path = tmp_path / "pool.jsonl"
    path.write_text("\n\n".join(map(json.dumps, lines)))
    records = read_records(path)
    for suffix in (".csv", ".jsonl", ".parquet"):
        write_picks(tmp_path / f"p{suffix}", CHOSEN, records, pick_rows(CHOSEN, records))
        for row, index in zip(read_rows(tmp_path / f"p{suffix}"), CHOSEN.indices, strict=True):
            own = {name: row[name] for name in ("a", "c") if row.get(name) not in (None, "")}
            if suffix != ".jsonl":
                own = {name: json.loads(v) if v[0] in "[{" else v for name, v in own.items()}
            assert own == fields[index % 3] and "vector" not in row


# ---- what cannot be written


def test_a_name_that_says_no_format_is_refused_before_long_work(tmp_path):
    with pytest.raises(ValueError, match=r"picks\.xlsx; the formats are \.csv.*\.tellmost"):
        check_picks_path(tmp_path / "picks.xlsx")
    with pytest.raises(FileNotFoundError, match="output: there is no folder"):
        check_picks_path(tmp_path / "gone" / "picks.csv")


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
