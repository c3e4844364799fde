"""Every format gives the same vectors, with the file's own ids, columns and records."""

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from files_of_points import (
    ARRAYS,
    IDS,
    ROWS,
    TABLES,
    TEXTS,
    D,
    N,
    write_csv,
    write_jsonl,
    write_npz,
    write_parquet,
)
from tellmost.rows.frames import plain_values
from tellmost.rows.record_files import Wanted, read_records
from tellmost.rows.sources import NamedArray, open_source

TARGETS = np.random.default_rng(1).normal(size=(2, D))
PICKS = tm.select(ROWS, TARGETS, 4).indices


def rows_of(records):
    source = open_source(records.vectors, "pool")
    try:
        return source.read(0, source.shape[0]).numpy()
    finally:
        source.close()


@pytest.mark.parametrize("write", [*ARRAYS.values(), *TABLES.values()])
def test_every_format_gives_the_same_picks(write, tmp_path):
    records = read_records(write(tmp_path))
    assert len(records) == N
    np.testing.assert_array_equal(rows_of(records), ROWS)
    np.testing.assert_array_equal(tm.select(records.vectors, TARGETS, 4).indices, PICKS)


@pytest.mark.parametrize("write", ARRAYS.values(), ids=ARRAYS)
def test_rows_of_an_array_are_known_by_their_numbers(write, tmp_path):
    records = read_records(write(tmp_path))
    assert not records.has_own_ids
    assert records.ids.tolist() == list(range(N))
    assert records.line(7) == "row 7"


@pytest.mark.parametrize("write", TABLES.values(), ids=TABLES)
def test_an_id_column_is_found_by_itself(write, tmp_path):
    records = read_records(write(tmp_path))
    assert records.has_own_ids and records.id_column == "id"
    assert records.ids.tolist() == IDS
    assert "id 'doc-7'" in records.line(7)
    assert records.items(np.array([3, 1])) == ["doc-3", "doc-1"]


@pytest.mark.parametrize("write", TABLES.values(), ids=TABLES)
def test_the_same_rows_have_the_same_ids_in_every_format(write, tmp_path):
    """A row without an id has its number from 0 for one, and not the line that it stands on."""
    numbered = read_records(write(tmp_path, ids=range(50, 50 + N)))
    assert [str(identifier) for identifier in numbered.ids] == [str(50 + row) for row in range(N)]
    records = read_records(write(tmp_path, ids=None))
    assert records.ids.tolist() == list(range(N)) and not records.has_own_ids


def test_files_that_can_be_streamed_are_not_read_here(tmp_path):
    assert read_records(ARRAYS["npy"](tmp_path)).vectors == str(tmp_path / "pool.npy")
    parquet = read_records(write_parquet(tmp_path))
    assert parquet.vectors == NamedArray(str(tmp_path / "pool.parquet"), "vector", "id")


@st.composite
def points(draw):
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    number = st.floats(allow_nan=False, allow_infinity=False, width=32)
    rows = draw(st.lists(st.lists(number, min_size=d, max_size=d), min_size=n, max_size=n))
    word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
    is_word = word.filter(lambda text: text.strip())
    ids = draw(st.lists(is_word, min_size=n, max_size=n, unique=True))
    return np.array(rows, np.float32).reshape(n, d), ids


@pytest.mark.parametrize("write", TABLES.values(), ids=TABLES)
@settings(max_examples=25, deadline=None)
@given(points())
def test_vectors_and_ids_survive_the_file(write, points):
    rows, ids = points
    with tempfile.TemporaryDirectory() as folder:
        records = read_records(write(Path(folder), rows, ids))
        assert records.ids.tolist() == ids
        np.testing.assert_array_equal(rows_of(records), rows)


@pytest.mark.parametrize("write", [write_parquet, write_csv, write_jsonl])
def test_columns_are_read_by_name_on_the_way_or_later(write, tmp_path):
    path = write(tmp_path, cost=list(range(1, N + 1)), topic=["a", "b"] * (N // 2))
    records = read_records(path, wanted=Wanted(columns=["cost"]))
    np.testing.assert_array_equal(records.column("cost"), np.arange(1, N + 1))
    assert records.column("topic").tolist() == ["a", "b"] * (N // 2)
    np.testing.assert_array_equal(rows_of(records), ROWS)


@pytest.mark.parametrize("write", [write_parquet, write_csv, write_jsonl])
def test_texts_are_the_items_to_show(write, tmp_path):
    records = read_records(write(tmp_path, text=TEXTS), wanted=Wanted(text_field="text"))
    assert records.items() == TEXTS
    assert records.items(np.array([2, 0])) == [TEXTS[2], TEXTS[0]]


@pytest.mark.parametrize("write", [write_parquet, write_csv, write_jsonl])
def test_an_unknown_column_lists_those_there_are(write, tmp_path):
    path = write(tmp_path, cost=[1] * N)
    for option in ("vector_column", "text_field", "id_column"):
        with pytest.raises(
            ValueError, match=r"^pool: pool\.\w+ has no column 'no'; it has id, .*cost"
        ):
            read_records(path, wanted=Wanted(**{option: "no"}))
    with pytest.raises(ValueError, match=r"it has id, .*cost"):
        read_records(path).column("no")


def test_an_array_has_no_columns_to_name(tmp_path):
    with pytest.raises(ValueError, match="no column 'cost': it holds rows of numbers"):
        read_records(ARRAYS["npy"](tmp_path), wanted=Wanted(columns=["cost"]))
    with pytest.raises(ValueError, match="no column 'cost'"):
        read_records(ARRAYS["npy"](tmp_path)).column("cost")


SECONDS = 1.7e9 + np.random.default_rng(3).uniform(0, 200, (60, 2))


def write_savetxt(folder, rows):
    np.savetxt(folder / "pool.csv", rows, delimiter=",")
    return folder / "pool.csv"


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_savetxt])
def test_text_gives_the_very_numbers_of_the_array(write, tmp_path):
    """Unix seconds differ by less than float32 can tell."""
    ids = {} if write is write_savetxt else {"ids": list(range(60))}
    vectors = read_records(write(tmp_path, SECONDS, **ids)).vectors
    np.testing.assert_array_equal(vectors, SECONDS)
    assert vectors.dtype == np.float64
    options = {"k": 8, "rule": "k-center", "normalize": "center", "noise_ratio": 0.1}
    chosen, same = tm.select(vectors, **options), tm.select(SECONDS, **options)
    np.testing.assert_array_equal(chosen.indices, same.indices)
    np.testing.assert_array_equal(chosen.gains, same.gains)
    rounded = tm.select(SECONDS.astype(np.float32), **options)
    assert rounded.indices.tolist() != same.indices.tolist()


@pytest.mark.parametrize("number", [0.1, 1e300, 1e-300, 2.0**24 + 1])
def test_float32_is_kept_only_where_it_holds_every_number(number, tmp_path):
    rows = ROWS.astype(np.float64)
    assert read_records(write_csv(tmp_path, rows)).vectors.dtype == np.float32
    rows[-1, -1] = number
    vectors = read_records(write_csv(tmp_path, rows)).vectors
    assert vectors.dtype == np.float64
    np.testing.assert_array_equal(vectors, rows)


# ---- .npz and .safetensors


def test_one_of_several_arrays_is_named(tmp_path):
    np.savez(tmp_path / "pool.npz", first=ROWS, second=2 * ROWS)
    with pytest.raises(ValueError, match="exactly one array; it has 2: first, second"):
        read_records(tmp_path / "pool.npz")
    with pytest.raises(ValueError, match="no array named 'third'; it has first, second"):
        read_records(tmp_path / "pool.npz", wanted=Wanted(vector_column="third"))
    records = read_records(tmp_path / "pool.npz", wanted=Wanted(vector_column="second"))
    np.testing.assert_array_equal(rows_of(records), 2 * ROWS)


def test_one_of_several_tensors_is_named_and_streamed(tmp_path):
    save = pytest.importorskip("safetensors.numpy").save_file
    save({"first": ROWS, "second": 2 * ROWS}, tmp_path / "pool.safetensors")
    records = read_records(tmp_path / "pool.safetensors", wanted=Wanted(vector_column="second"))
    assert isinstance(records.vectors, NamedArray)
    np.testing.assert_array_equal(rows_of(records), 2 * ROWS)
    with pytest.raises(ValueError, match="no tensor named 'third'; it has first, second"):
        read_records(tmp_path / "pool.safetensors", wanted=Wanted(vector_column="third"))


class Witness:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_pickled_objects_are_refused_and_not_run(suffix, tmp_path):
    objects = np.array([Witness(tmp_path / "ran")], dtype=object)
    save = np.save if suffix == "npy" else np.savez
    save(tmp_path / f"pool.{suffix}", objects, allow_pickle=True)
    with pytest.raises(ValueError, match=r"pickled Python objects.*refused"):
        read_records(tmp_path / f"pool.{suffix}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_header_that_promises_no_numbers_is_refused_by_its_file(suffix, tmp_path):
    save = np.save if suffix == "npy" else np.savez
    save(tmp_path / f"pool.{suffix}", np.zeros((2, 2), "V8"))
    with pytest.raises(ValueError, match=rf"pool\.{suffix}.*must hold numbers"):
        read_records(tmp_path / f"pool.{suffix}")


@pytest.mark.parametrize("write", [*ARRAYS.values(), write_parquet])
def test_a_file_cut_short_is_refused(write, tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=rf"^pool: {path.name} is .*\.$") as caught:
        read_records(path)
    assert "\n" not in str(caught.value)


def test_an_array_that_is_no_matrix_is_refused(tmp_path):
    np.save(tmp_path / "pool.npy", ROWS[0])
    with pytest.raises(ValueError, match=r"rows x features, \(n, d\); got shape \(3,\)"):
        read_records(tmp_path / "pool.npy")
    with pytest.raises(ValueError, match=r"got shape \(0, 3\)"):
        read_records(write_npz(tmp_path, ROWS[:0]))


# ---- .parquet


def test_one_of_several_columns_of_vectors_is_named(tmp_path):
    path = write_parquet(tmp_path, other=(2 * ROWS).tolist())
    with pytest.raises(ValueError, match="2 do: vector, other, of the columns id, vector, other"):
        read_records(path)
    records = read_records(path, wanted=Wanted(vector_column="other"))
    np.testing.assert_array_equal(rows_of(records), 2 * ROWS)
    with pytest.raises(ValueError, match="'id' must hold lists of numbers; it holds string"):
        read_records(path, wanted=Wanted(vector_column="id"))


def test_a_row_of_a_parquet_file_that_is_not_finite_is_named_by_its_id(tmp_path):
    rows = ROWS.copy()
    rows[8, 1] = np.nan
    records = read_records(write_parquet(tmp_path, rows))
    with pytest.raises(ValueError, match=r"row 8 of pool.parquet, id 'doc-8', has a NaN"):
        tm.select(records.vectors, TARGETS, 2)


# ---- .csv


def read_csv(folder, text, **options):
    (folder / "pool.csv").write_text(text, encoding="utf-8")
    return read_records(folder / "pool.csv", wanted=Wanted(**options))


def test_a_csv_file_of_numbers_needs_no_header(tmp_path):
    records = read_csv(tmp_path, "1,2\n3,4.5\n")
    np.testing.assert_array_equal(records.vectors, [[1, 2], [3, 4.5]])
    assert records.ids.tolist() == [0, 1] and not records.has_own_ids


def test_ids_are_rows_from_0_and_lines_count_the_header(tmp_path):
    records = read_csv(tmp_path, "a,b\n1,2\n3,4\n")
    assert records.ids.tolist() == [0, 1]
    assert records.line(1) == "line 3"
    assert records.features == ["a", "b"]


def test_columns_of_words_the_id_and_named_columns_are_no_features(tmp_path):
    text = "id,a,note,cost,b\n7,1,x,5,2\n8,3,y,6,4\n"
    records = read_csv(tmp_path, text, columns=["cost"])
    assert records.features == ["a", "b"]
    np.testing.assert_array_equal(records.vectors, [[1, 2], [3, 4]])
    assert records.ids.tolist() == ["7", "8"]


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS.astype(np.float64))
    frame.to_csv(tmp_path / "pool.csv")
    np.testing.assert_array_equal(read_records(tmp_path / "pool.csv").vectors, ROWS)
    frame.to_csv(tmp_path / "pool.csv", index=False)
    np.testing.assert_array_equal(read_records(tmp_path / "pool.csv").vectors, ROWS)


def test_a_first_point_that_counts_is_no_header(tmp_path):
    records = read_csv(tmp_path, "0,1\n1,0\n2,2\n")
    np.testing.assert_array_equal(records.vectors, [[0, 1], [1, 0], [2, 2]])


def test_a_column_may_hold_lists(tmp_path):
    text = 'id,emb,n\na,"[1, 2.5]",3\nb,"[0, 4]",3\n'
    records = read_csv(tmp_path, text, vector_column="emb")
    np.testing.assert_array_equal(records.vectors, [[1, 2.5], [0, 4]])
    with pytest.raises(ValueError, match=r"line 3: column 'emb' must hold a list.*got 'oops'"):
        read_csv(tmp_path, 'id,emb\na,"[1, 2]"\nb,oops\n', vector_column="emb")


def test_cells_over_several_lines_keep_the_line_numbers_right(tmp_path):
    records = read_csv(tmp_path, 'note,x\n"two\nlines",1\nplain,2\n\n"three\n\nlines",3\n')
    assert [records.line(row) for row in range(3)] == ["line 2", "line 4", "line 6"]
    with pytest.raises(ValueError, match="line 4: column 'x' must hold numbers; got 'no'"):
        read_csv(tmp_path, 'note,x\n"two\nlines",1\nplain,no\n')


CSV_FAILURES = {
    "header only": ("a,b\n", "has no rows, only a header: a, b"),
    "blank lines only": ("\n\n", "has no rows"),
    "a word": ("a,b\n1,2\n3,x\n", "line 3: column 'b' must hold numbers; got 'x'"),
    "a word, no header": ("1,2\n3,x\n", "line 2: column 2 must hold numbers; got 'x'"),
    "an empty cell": ("a,b\n1,\n3,4\n", "line 2: column 'b' must hold numbers; it is empty"),
    "a cell too few": ("a,b\n1,2\n3\n", "as many cells as line 1, 2; line 3 has 1"),
    "a cell too many": ("a,b\n1,2\n3,4,5\n", "as many cells as line 1, 2; line 3 has 3"),
    "words only": ("a,b\nx,y\n", "no column of numbers; it has a, b"),
    "a NaN": ("id,a,b\nu,1,2\nv,nan,2\n", "line 3 \\(id 'v'\\) of pool.csv has a NaN"),
    "an infinity": ("a,b\n1,2\n3,inf\n", "line 3 of pool.csv has a NaN, an infinity"),
    "too large": ("a,b\n1,2\n3,1e999\n", "line 3 of pool.csv has .* too large for float64"),
    "an underscore": ("a,b\n1,2\n3,1_000\n", "line 3: column 'b' must .* got '1_000'"),
    "an underscore first": ("a,b\n1,1_000\n3,4\n", "line 2: column 'b' must .* got '1_000'"),
    "no header": ("1,1_000\n3,4\n", "line 1: column 2 must .* got '1_000'"),
    "wide digits": ("a,b\n1,2\n3,\uff11\uff12\n", "line 3: column 'b' must .* plain digits"),
    "equal ids": ("id,a\nu,1\nv,2\nu,3\n", "line 2 and line 4 both have id 'u'"),
    "no id": ("id,a\nu,1\n,2\n", "every row must have an id in 'id'; line 3 has none"),
    "equal names": ("a,a\n1,2\n", "two columns named 'a'"),
    "a label": (
        "a,Target,b\n1,2,3\n",
        "'Target' is named .*column=.'a', 'b'., or .* column=.'a:b'",
    ),
    "old lines": ("a,b\r1,2\r", "line 1: lines must end in LF or CR LF; one ends in CR alone"),
    "bars": ("a|b\n1|2\n", r"no column of numbers; it has a\|b. Separate cells by commas"),
    "another id": ("ID,a\n1,2\n", "'ID' is named like one.*Leave it out, column=.'a'"),
    "an open quote": ('a,b\n1,"2\n3,4\n', "line 3: unexpected end of data"),
}


@pytest.mark.parametrize(("text", "message"), CSV_FAILURES.values(), ids=CSV_FAILURES)
def test_a_csv_file_that_cannot_be_read_says_where(text, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(tmp_path, text)
    assert "pool" in str(caught.value) and str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


# ---- .jsonl


def read_jsonl(folder, text, **options):
    (folder / "pool.jsonl").write_text(text, encoding="utf-8")
    return read_records(folder / "pool.jsonl", wanted=Wanted(**options))


JSONL_FAILURES = {
    "blank": ("\n \n", "has no rows"),
    "bad JSON": ('{"v": [1]}\n{"v": [2}\n', "line 2 is not valid JSON: .* at column 9"),
    "no object": ('{"v": [1]}\n[2]\n', r"line 2 must be a JSON object .*; got \[2\]"),
    "ragged": ('{"v": [1, 2]}\n\n{"v": [3]}\n', "line 1 has 2, that of line 3 has 1"),
    "a word": ('{"v": [1, 2]}\n{"v": [3, "x"]}\n', "line 2: entry 1 of the vector is no number"),
    "a null": ('{"v": [1, 2]}\n{"v": [null, 3]}\n', "line 2: entry 0 .* got None"),
    "nested": ('{"v": [1, 2]}\n{"v": [[3], 3]}\n', "line 2: entry 0 of the vector is no number"),
    "a NaN": ('{"id": 5, "v": [NaN, 2]}\n', r"line 1 \(id 5\) of pool.jsonl has a NaN"),
    "a huge integer": (f'{{"v": [1{"0" * 400}, 2]}}\n', "line 1 of pool.jsonl has a NaN, an inf"),
    "no list": ('{"v": [1]}\n{"v": 2}\n', "line 2: 'v' must be a list of numbers; got 2"),
    "empty vector": ('{"v": []}\n', "one field must hold the vectors; none does"),
    "a field lacks": (
        '{"v": [1]}\n{"w": [2]}\n',
        "line 2: every record must have the field 'v'; this one has w",
    ),
    "two vectors": ('{"v": [1], "w": [2]}\n', "2 do: v, w"),
    "equal ids": (
        '{"id": 7, "v": [1]}\n{"id": "7", "v": [2]}\n',
        "line 1 and line 2 both have id",
    ),
}


@pytest.mark.parametrize(("text", "message"), JSONL_FAILURES.values(), ids=JSONL_FAILURES)
def test_a_jsonl_file_that_cannot_be_read_says_where(text, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        read_jsonl(tmp_path, text)
    assert "pool.jsonl" in str(caught.value) and str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_texts_without_a_model_say_so(tmp_path):
    with pytest.raises(ValueError, match="text='text', embed='all-minilm'"):
        read_jsonl(tmp_path, '{"text": "words"}\n', text_field="text")
    with pytest.raises(ValueError, match=r"embed needs the column of texts.*It has text"):
        read_jsonl(tmp_path, '{"text": "words"}\n', embed="all-minilm")
    text = '{"text": "words", "v": [1]}\n'
    with pytest.raises(ValueError, match="a column or made by embed; got both"):
        read_jsonl(tmp_path, text, text_field="text", embed="all-minilm", vector_column="v")
    with pytest.raises(ValueError, match="nothing to embed"):
        read_records(ARRAYS["npy"](tmp_path), wanted=Wanted(embed="all-minilm"))


# ---- any file


def test_a_mark_at_the_beginning_and_windows_lines_do_no_harm(tmp_path):
    (tmp_path / "pool.csv").write_bytes(b"\xef\xbb\xbfid,a\r\nu,1\r\nv,2\r\n")
    records = read_records(tmp_path / "pool.csv")
    assert records.ids.tolist() == ["u", "v"]
    np.testing.assert_array_equal(records.vectors, [[1], [2]])


@pytest.mark.parametrize("name", ["pool.csv", "pool.jsonl"])
def test_text_that_is_not_utf8_names_its_line(name, tmp_path):
    line = b"1,2\n" if name == "pool.csv" else b'{"v": [1, 2]}\n'
    (tmp_path / name).write_bytes(line + b"\xff\xfe" + line)
    with pytest.raises(ValueError, match="must be text in UTF-8; line 2 is not"):
        read_records(tmp_path / name)


@pytest.mark.parametrize("write", [write_csv, write_jsonl])
def test_gzipped_text_is_read_as_well(write, tmp_path):
    plain = write(tmp_path)
    path = plain.with_name(plain.name + ".gz")
    path.write_bytes(gzip.compress(plain.read_bytes()))
    np.testing.assert_array_equal(read_records(path).vectors, ROWS)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"not a complete \.gz file"):
        read_records(path)


def test_missing_empty_and_unknown_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"targets: there is no file .*gone.npy"):
        read_records(tmp_path / "gone.npy", argument="targets")
    with pytest.raises(FileNotFoundError, match=r"must have or match files of the formats"):
        read_records(tmp_path)
    (tmp_path / "pool.xlsx").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"the formats are \.npy, .*\.parquet, \.csv, .*\.jsonl"):
        read_records(tmp_path / "pool.xlsx")
    for suffix in ("npy", "npz", "safetensors", "parquet", "csv", "jsonl"):
        (tmp_path / f"empty.{suffix}").touch()
        with pytest.raises(ValueError, match=f"^pool: empty.{suffix} is empty"):
            read_records(tmp_path / f"empty.{suffix}")


def test_a_file_that_changed_since_is_not_read_again(tmp_path):
    path = write_jsonl(tmp_path, cost=[1] * N)
    records = read_records(path)
    path.write_text(json.dumps({"id": 1, "vector": [1.0], "cost": 2}) + "\n")
    with pytest.raises(OSError, match="changed while it was read"):
        records.column("cost")


@pytest.mark.parametrize("write", [write_parquet, write_csv, write_jsonl])
def test_records_come_in_the_order_asked_for(write, tmp_path):
    path = write(tmp_path, text=TEXTS)
    own = read_records(path).table.some(np.array([9, 0, 4]), {"text", "vector"})
    assert next(iter(own)) == "id" and not {"text", "vector"} & set(own)
    assert plain_values(own["id"]) == ["doc-9", "doc-0", "doc-4"]


@pytest.mark.parametrize("write", [write_parquet, write_csv, write_jsonl])
def test_a_column_of_numbers_names_the_row_that_has_none(write, tmp_path):
    costs = [str(row) for row in range(1, N + 1)]
    records = read_records(write(tmp_path, cost=costs))
    np.testing.assert_array_equal(records.numbers("cost"), np.arange(1.0, N + 1))
    costs[3] = "dear"
    records = read_records(write(tmp_path, cost=costs), wanted=Wanted(columns=["cost"]))
    with pytest.raises(ValueError, match=r"id 'doc-3'\): column 'cost' must hold numbers; got 'd"):
        records.numbers("cost")


def test_a_lone_vector_is_one_row_where_that_is_allowed(tmp_path):
    np.save(tmp_path / "query.npy", ROWS[0])
    targets = read_records(
        tmp_path / "query.npy", argument="targets", wanted=Wanted(lone_vector=True)
    )
    assert len(targets) == 1
    assert tm.select(ROWS, targets.vectors, 2).indices.tolist() == (
        tm.select(ROWS, ROWS[:1], 2).indices.tolist()
    )


def test_a_cell_may_be_as_long_as_a_document(tmp_path):
    text = "word " * 50_000
    records = read_csv(tmp_path, f'text,x\n"{text}",1\n', text_field="text")
    assert records.items() == [text]


def test_half_a_character_is_no_id(tmp_path):
    with pytest.raises(ValueError, match=r"line 1 has .* half a character"):
        read_jsonl(tmp_path, '{"id": "a\\ud800", "v": [1]}\n')
