"""Files that name pool rows, and labels that belong to them."""

import json
import warnings

import numpy as np
import pytest

import tellmost as tm
from files_of_points import IDS, ROWS, N, write_csv, write_jsonl, write_npy, write_parquet
from tellmost.cli.labels import match_ids, read_labels, read_observed
from tellmost.rows.record_files import Wanted, read_records

WANTED = [7, 0, 3]
NAMES = [IDS[row] for row in WANTED]


@pytest.fixture
def pool(tmp_path):
    return read_records(write_csv(tmp_path))


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_ids_are_found_in_every_format(pool, tmp_path):
    lines = "\n".join(NAMES)
    records = "".join(json.dumps({"score": 1, "id": name}) + "\n" for name in NAMES)
    files = [
        write(tmp_path, "ids.txt", f"{lines}\n\n"),
        write(tmp_path, "headless.csv", lines),
        write(tmp_path, "lone.csv", f"id\n{lines}\n"),
        write(tmp_path, "wide.csv", "score,id\n" + "".join(f"1,{name}\n" for name in NAMES)),
        write(tmp_path, "wide.tsv", "score\tid\n" + "".join(f"1\t{name}\n" for name in NAMES)),
        write(tmp_path, "ids.jsonl", records),
        write_parquet(tmp_path, ROWS[WANTED], NAMES, "ids.parquet"),
    ]
    for path in files:
        assert match_ids(path, pool, "exclude").tolist() == WANTED, path.name


def test_the_pools_own_id_column_comes_first(tmp_path):
    pool = read_records(
        write_csv(tmp_path, key=[f"k{row}" for row in range(N)]), wanted=Wanted(id_column="key")
    )
    path = write(tmp_path, "ids.csv", "id,key\ndoc-1,k5\ndoc-2,k6\n")
    assert match_ids(path, pool, "observed").tolist() == [5, 6]


@pytest.mark.parametrize(
    ("columns", "cells", "wanted"),
    [
        ("rank,label", ["1,", "2,yes", "3,"], [0]),
        ("rank,label", ["1,", "2,", "3,"], WANTED),  # as select wrote it
        ("rank,gain", ["1,", "2,1.0", "3,"], WANTED),
        ("status,label.responses", ["pending,", "completed,['yes']", "pending,[]"], [0]),
        ("status,label.responses", ["pending,", "pending,", "pending,"], []),
        ("status,text", ["discarded,a", "submitted,b", "draft,c"], [0]),
        ("status,text", ["draft,a", "printed,b", "draft,c"], WANTED),  # the pool's own word
        (
            "label.responses,label.responses.status",
            ["['a'],['draft']", "['a'],['submitted']", ","],
            [0],
        ),
    ],
)
def test_rows_of_a_table_that_nobody_has_labelled_are_not_observed(
    pool, tmp_path, columns, cells, wanted
):
    lines = [f"{name},{cell}" for name, cell in zip(NAMES, cells, strict=True)]
    path = write(tmp_path, "round1.csv", "\n".join([f"id,{columns}", *lines]))
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        assert read_observed(path, pool).tolist() == wanted
    told = [f"{3 - len(wanted)} of the 3 records of round1.csv are not labelled and do not count."]
    assert [str(note.message) for note in notes] == told * (len(wanted) < 3)
    assert match_ids(path, pool, "exclude").tolist() == WANTED


def test_responses_of_argilla_may_be_a_list_of_people(pool, tmp_path):
    answers = [
        [{"values": {"label": {"value": "yes"}}, "status": "submitted"}],
        [{"values": {"label": {"value": "no"}}, "status": "draft"}],
        [],
    ]
    records = [
        {"id": name, "fields": {"text": "t"}, "metadata": None, "responses": answer}
        for name, answer in zip(NAMES, answers, strict=True)
    ]
    path = write(tmp_path, "export.json", json.dumps(records))
    with pytest.warns(UserWarning, match="2 of the 3 records of export.json are not labelled"):
        assert read_observed(path, pool).tolist() == WANTED[:1]
    path = write(tmp_path, "words.json", json.dumps([records[0] | {"responses": ["yes"]}]))
    with pytest.raises(ValueError, match=r"must be objects with values; got \['yes'\]"):
        read_observed(path, pool)


def test_numbers_and_their_texts_are_the_same_id(tmp_path):
    pool = read_records(write_jsonl(tmp_path, ids=list(range(100, 100 + N))))
    assert match_ids(write(tmp_path, "a.csv", "id\n103\n101\n"), pool, "exclude").tolist() == [
        3,
        1,
    ]
    assert match_ids(write(tmp_path, "a.jsonl", '{"id": "104"}\n'), pool, "exclude").tolist() == [
        4
    ]
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"id": [105.0]}), tmp_path / "a.parquet")
    assert match_ids(tmp_path / "a.parquet", pool, "exclude").tolist() == [5]


def test_a_number_with_zeros_before_it_is_another_id(tmp_path):
    pool = read_records(write_csv(tmp_path, ROWS[:2], ["7", "007"]))
    assert match_ids(write(tmp_path, "ids.txt", "007\n"), pool, "exclude").tolist() == [1]


def test_rows_without_ids_are_named_by_their_numbers_from_0(tmp_path):
    array = read_records(write_npy(tmp_path))
    assert match_ids(write(tmp_path, "ids.txt", "0\n5\n"), array, "exclude").tolist() == [0, 5]
    text = read_records(write(tmp_path, "plain.csv", "a,b\n1,2\n3,4\n5,7\n"))
    assert match_ids(write(tmp_path, "ids.txt", "0\n2\n"), text, "exclude").tolist() == [0, 2]


def test_a_header_without_ids_names_no_rows(pool, tmp_path):
    assert match_ids(write(tmp_path, "none.csv", "rank,id\n"), pool, "exclude").tolist() == []


def test_unknown_ids_are_counted_and_named(pool, tmp_path):
    path = write(tmp_path, "ids.txt", "\n".join(["doc-1", *(f"no-{i}" for i in range(7))]))
    message = (
        "exclude: ids.txt must name ids of pool.csv; 7 of 8 are unknown there: 'no-0', .* 2 more"
    )
    with pytest.raises(ValueError, match=message):
        match_ids(path, pool, "exclude")
    with pytest.raises(ValueError, match="1 of 2 are unknown there: 'name'"):
        match_ids(write(tmp_path, "lone.csv", "name\ndoc-1\n"), pool, "exclude")


def test_a_file_without_ids_lists_its_columns(pool, tmp_path):
    with pytest.raises(ValueError, match=r"must have a column of ids; it has a, b. Name it 'id'"):
        match_ids(write(tmp_path, "ids.csv", "a,b\n1,2\n"), pool, "exclude")
    with pytest.raises(ValueError, match="has 2 columns without names"):
        match_ids(write(tmp_path, "ids.csv", "1,2\n"), pool, "exclude")


def test_other_files_are_refused(pool, tmp_path):
    with pytest.raises(FileNotFoundError, match="exclude: there is no file"):
        match_ids(tmp_path / "gone.csv", pool, "exclude")
    with pytest.raises(ValueError, match=r"formats are \.tellmost, \.npy, \.csv.*\.txt"):
        match_ids(write(tmp_path, "ids.xml", "x"), pool, "exclude")


def test_row_numbers_come_from_an_npy_file(pool, tmp_path):
    np.save(tmp_path / "rows.npy", np.array(WANTED))
    assert match_ids(tmp_path / "rows.npy", pool, "exclude").tolist() == WANTED
    np.save(tmp_path / "rows.npy", np.array([0, N]))
    with pytest.raises(
        ValueError, match=f"exclude must name rows of the pool, 0 to {N - 1}; got {N}"
    ):
        match_ids(tmp_path / "rows.npy", pool, "exclude")
    np.save(tmp_path / "rows.npy", ROWS)
    with pytest.raises(TypeError, match="exclude must be a vector of integers"):
        match_ids(tmp_path / "rows.npy", pool, "exclude")
    np.testing.assert_array_equal(read_observed(tmp_path / "rows.npy", pool).numpy(), ROWS)


def test_a_saved_selection_names_its_picks_of_the_same_pool_only(pool, tmp_path):
    chosen = tm.select(pool.vectors, ROWS[:2], 3)
    chosen.save(tmp_path / "round1.tellmost")
    rows = match_ids(tmp_path / "round1.tellmost", pool, "exclude")
    np.testing.assert_array_equal(rows, chosen.indices)
    observed = read_observed(tmp_path / "round1.tellmost", pool)
    assert not set(tm.select(pool.vectors, ROWS[:2], 3, observed=observed).indices) & set(rows)
    other = read_records(write_csv(tmp_path, 2 * ROWS, name="other.csv"))
    with pytest.raises(
        ValueError, match=r"exclude is a Selection from another pool than other.csv"
    ):
        match_ids(tmp_path / "round1.tellmost", other, "exclude")


# ---- labels


def test_labels_are_matched_by_id_where_there_are_ids(pool, tmp_path):
    lines = [f"{name},{2 * row}" for row, name in enumerate(IDS)]
    path = write(tmp_path, "y.csv", "\n".join(["id,label", "other,99", *reversed(lines)]))
    np.testing.assert_array_equal(read_labels(path, "labels", pool), 2 * np.arange(N))


def test_shuffled_row_numbers_are_ids_too(tmp_path):
    pool = read_records(write_npy(tmp_path))
    order = np.random.default_rng(3).permutation(N)
    path = write(tmp_path, "y.csv", "id,y\n" + "".join(f"{row},{row}.5\n" for row in order))
    np.testing.assert_array_equal(read_labels(path, "labels", pool), np.arange(N) + 0.5)


def test_labels_without_ids_are_in_order(tmp_path):
    pool = read_records(write_npy(tmp_path))
    words = ["cat", "dog"] * (N // 2)
    files = {
        "y.txt": "\n".join(words),
        "y.csv": "\n".join(["kind", *words]),
        "y.jsonl": "".join(json.dumps({"label": word, "more": 1}) + "\n" for word in words),
    }
    for name, text in files.items():
        assert read_labels(write(tmp_path, name, text), "labels", pool).tolist() == words
    np.save(tmp_path / "y.npy", np.array(words))
    assert read_labels(tmp_path / "y.npy", "labels", pool).tolist() == words
    np.save(tmp_path / "y.npy", np.arange(N)[:, None])
    assert read_labels(tmp_path / "y.npy", "labels", pool).tolist() == list(range(N))


def test_numbers_stay_numbers_and_words_words(tmp_path):
    pool = read_records(write_npy(tmp_path, ROWS[:2]))
    for text, kind in {"1\n2": "i", "1.5\n2": "f", "1\nx": "O"}.items():
        assert read_labels(write(tmp_path, "y.txt", text), "labels", pool).dtype.kind == kind


def test_a_column_of_labels_is_named_where_there_are_several(tmp_path):
    pool = read_records(write_npy(tmp_path, ROWS[:2]))
    path = write(tmp_path, "y.csv", "a,b\n1,3\n2,4\n")
    assert read_labels(path, "labels", pool, column="b").tolist() == [3, 4]
    with pytest.raises(ValueError, match="must have a column of labels; it has a, b"):
        read_labels(path, "labels", pool)
    with pytest.raises(ValueError, match=r"labels: y.csv has no column 'c'; it has a, b"):
        read_labels(path, "labels", pool, column="c")


def test_labels_must_be_there_for_every_row(pool, tmp_path):
    array = read_records(write_npy(tmp_path))
    with pytest.raises(ValueError, match=f"one label per row of pool.npy, {N}; it has 2"):
        read_labels(write(tmp_path, "y.txt", "1\n2\n"), "labels", array)
    with pytest.raises(ValueError, match=f"{N - 1} ids have none: 'doc-1', 'doc-2'"):
        read_labels(write(tmp_path, "y.csv", "id,y\ndoc-0,1\n"), "labels", pool)
    twice = write(tmp_path, "y.csv", "id,y\ndoc-0,1\ndoc-0,2\n")
    with pytest.raises(ValueError, match="two labels for id 'doc-0'"):
        read_labels(twice, "labels", pool)
    empty = write(tmp_path, "y.csv", "n,y\n" + "1,\n" * N)
    with pytest.raises(ValueError, match=r"that of row 0 of pool.npy is empty"):
        read_labels(empty, "labels", array, column="y")
    gap = write(tmp_path, "y.txt", "\n".join(["nan", *"1" * (N - 1)]))
    with pytest.raises(ValueError, match="must have a label for every row; that of row 0"):
        read_labels(gap, "labels", array)


def test_a_damaged_or_pickled_array_of_labels_is_refused(pool, tmp_path):
    np.save(tmp_path / "y.npy", np.array([{}] * N, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"^labels: y\.npy is not a complete .npy file"):
        read_labels(tmp_path / "y.npy", "labels", pool)
    np.save(tmp_path / "y.npy", ROWS)
    with pytest.raises(ValueError, match=r"one label per row, \(n,\); got float32 of shape"):
        read_labels(tmp_path / "y.npy", "labels", pool)
