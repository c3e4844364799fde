"""Picks come with the ids of their rows, where a column of ids is named."""

import numpy as np
import pytest

import tellmost as tm

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
TARGETS = ROWS[:4] + np.float32(0.1)
IDS = np.array([f"doc-{number:03}" for number in range(60)])
PICKS = tm.select(ROWS, TARGETS, 6).indices


def write_parts(folder, ids=IDS, name="id"):
    """Three files with two columns of vectors, in row groups of seven."""
    paths = [folder / f"part-{part}.parquet" for part in range(3)]
    for path, rows, own in zip(
        paths, np.array_split(ROWS, 3), np.array_split(ids, 3), strict=True
    ):
        vectors = arrow.array(list(rows), arrow.list_(arrow.float32()))
        other = arrow.array(list(-rows), arrow.list_(arrow.float32()))
        table = arrow.table({name: own, "embedding": vectors, "other": other})
        parquet.write_table(table, path, row_group_size=7)
    return paths


@pytest.mark.parametrize("ids", [IDS, np.arange(60) * 10**12], ids=["texts", "numbers"])
@pytest.mark.parametrize("memory", [None, "4MB"])
def test_ids_are_those_of_the_picked_rows(tmp_path, ids, memory):
    paths = write_parts(tmp_path, ids)
    chosen = tm.select(paths, TARGETS, 6, column="embedding", id_column="id", memory=memory)
    np.testing.assert_array_equal(chosen.indices, PICKS)
    np.testing.assert_array_equal(chosen.ids, ids[PICKS])
    np.testing.assert_array_equal(chosen[:2].ids, ids[PICKS[:2]])
    chosen.save(tmp_path / "picks.tellmost")
    np.testing.assert_array_equal(tm.Selection.load(tmp_path / "picks.tellmost").ids, chosen.ids)
    assert chosen.to_frame()["id"].tolist() == ids[PICKS].tolist()


def test_other_ids_are_texts(tmp_path):
    paths = write_parts(tmp_path, np.arange(60) + 0.5)
    chosen = tm.select(paths, TARGETS, 6, column="embedding", id_column="id")
    assert chosen.ids.tolist() == [f"{row}.5" for row in PICKS]


def test_a_column_is_that_of_pool_and_targets(tmp_path):
    paths = write_parts(tmp_path)
    chosen = tm.select(paths[:1], paths[1], 3, column="other")
    expected = tm.select(-ROWS[:20], -ROWS[20:40], 3)
    np.testing.assert_array_equal(chosen.indices, expected.indices)
    assert chosen.ids is None


def test_a_table_of_targets_may_lack_the_column(tmp_path):
    table = arrow.table({"vector": arrow.array(list(TARGETS), arrow.list_(arrow.float32()))})
    parquet.write_table(table, tmp_path / "targets.parquet")
    chosen = tm.select(write_parts(tmp_path), tmp_path / "targets.parquet", 6, column="embedding")
    np.testing.assert_array_equal(chosen.indices, PICKS)


def test_names_that_are_not_there_are_refused(tmp_path):
    paths = write_parts(tmp_path)
    with pytest.raises(ValueError, match="has no column of vectors named 'vector'; it has emb"):
        tm.select(paths, TARGETS, 3, column="vector")
    with pytest.raises(ValueError, match="has no column 'key'; it has id, embedding, other"):
        tm.select(paths, TARGETS, 3, column="other", id_column="key")
    with pytest.raises(ValueError, match="must hold numbers or texts; 'other' holds list"):
        tm.select(paths, TARGETS, 3, column="embedding", id_column="other")
    with pytest.raises(ValueError, match="pool is a ndarray, which has no names"):
        tm.select(ROWS, TARGETS, 3, column="embedding")
    np.save(tmp_path / "rows.npy", ROWS)
    with pytest.raises(ValueError, match=r"pool is an array in rows\.npy, which has no names"):
        tm.select(tmp_path / "rows.npy", TARGETS, 3, id_column="id")


def test_a_row_without_an_id_is_refused(tmp_path):
    ids = [None if row == 25 else str(row) for row in range(60)]
    paths = write_parts(tmp_path, np.array(ids, dtype=object))
    with pytest.raises(ValueError, match=r"part-1.parquet: every row must have.*; row 5 has none"):
        tm.select(paths, TARGETS, 6, column="embedding", id_column="id")
    with pytest.raises(ValueError, match=r"targets: part-1.parquet: .*row 5 has none"):
        tm.select(paths[0], paths[1], 6, column="embedding", id_column="id")


@pytest.mark.parametrize(
    "ids", [IDS, np.arange(60), np.arange(60) + 0.5], ids=["texts", "numbers", "floats"]
)
def test_two_rows_of_one_id_are_refused_in_one_file_and_in_several(tmp_path, ids):
    ids = ids.copy()
    ids[27] = ids[21]
    paths = write_parts(tmp_path, ids)
    said = "ids must differ; row 1 of part-1.parquet and row 7 of part-1.parquet both have id"
    for given in (paths[1], paths):
        with pytest.raises(ValueError, match=said):
            tm.select(given, TARGETS, 6, column="embedding", id_column="id")
    ids[27], ids[41] = ids[50], ids[0]
    said = "row 0 of part-0.parquet and row 1 of part-2.parquet both have id"
    with pytest.raises(ValueError, match=said):
        tm.select(write_parts(tmp_path, ids), TARGETS, 6, column="embedding", id_column="id")


def test_equal_hashes_of_other_ids_are_no_copies(tmp_path):
    assert hash(-1) == hash(-2)
    paths = write_parts(tmp_path, np.arange(60) - 3)
    chosen = tm.select(paths, TARGETS, 6, column="embedding", id_column="id")
    np.testing.assert_array_equal(chosen.ids, PICKS - 3)


def test_the_nearest_target_is_named_by_its_id(tmp_path):
    own = np.array(["north", "south", "east", "west"])
    vectors = arrow.array(list(TARGETS), arrow.list_(arrow.float32()))
    table = arrow.table({"id": own, "embedding": vectors})
    parquet.write_table(table, tmp_path / "targets.parquet")
    table.to_pandas().to_json(tmp_path / "targets.jsonl", orient="records", lines=True)
    paths = write_parts(tmp_path)
    for targets in (table, tmp_path / "targets.parquet", tmp_path / "targets.jsonl"):
        chosen = tm.select(paths, targets, 6, column="embedding", id_column="id")
        names = own[chosen.nearest_target].tolist()
        assert chosen.to_frame()["nearest_target"].tolist() == names
        assert chosen[:3].to_frame()["nearest_target"].tolist() == names[:3]
        assert chosen.take(table.take([0] * 60))["nearest_target"].to_pylist() == names
        chosen.save(tmp_path / "picks.tellmost")
        again = tm.Selection.load(tmp_path / "picks.tellmost")
        assert again.nearest_target_name.tolist() == names
        assert names[0] in again._repr_html_()
    twice = table.set_column(0, "id", [["north", "south", "south", "west"]])
    with pytest.raises(ValueError, match="targets: ids must differ; row 1 and row 2 both"):
        tm.select(paths, twice, 6, column="embedding", id_column="id")
