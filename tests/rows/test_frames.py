"""Frames, datasets, columns of vectors and sparse matrices are pools and targets like arrays."""

import numpy as np
import pytest
import scipy.sparse
import torch

import oracle
import tellmost as tm
from tellmost.rows.sources import NamedArray, open_source, read_array

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow")
datasets = pytest.importorskip("datasets")

RNG = np.random.default_rng(0)
N, D = 120, 12
ROWS = RNG.standard_normal((N, D)).astype(np.float32)
TARGETS = RNG.standard_normal((4, D))
IDS = [f"doc-{number}" for number in range(N)]
TEXTS = [f"text {number}" for number in range(N)]
EXPECTED = tm.select(ROWS, TARGETS, 9)
COLUMNS = {"key": IDS, "text": TEXTS}


def fixed(rows=ROWS):
    return arrow.FixedSizeListArray.from_arrays(arrow.array(rows.ravel()), rows.shape[1])


def listed(rows=ROWS):
    return arrow.array(rows.tolist(), arrow.list_(arrow.float32()))


def shuffled():
    """A Dataset with a map of indices over rows that lie in another order."""
    order = RNG.permutation(N)
    back = {"key": [IDS[i] for i in order], "text": [TEXTS[i] for i in order]}
    made = datasets.Dataset.from_dict(back | {"emb": ROWS[order]})
    return made.select(np.argsort(order))


FRAMES = {
    "pandas, another index": lambda: pandas.DataFrame(
        COLUMNS | {"emb": list(ROWS)}, index=range(N, 0, -1)
    ),
    "pandas, lists": lambda: pandas.DataFrame(COLUMNS | {"emb": ROWS.tolist()}),
    "polars, arrays": lambda: polars.DataFrame(COLUMNS | {"emb": ROWS}),
    "polars, lists": lambda: polars.DataFrame(COLUMNS | {"emb": list(ROWS)}),
    "arrow, fixed": lambda: arrow.table(COLUMNS | {"emb": fixed()}),
    "arrow, in chunks": lambda: arrow.concat_tables(
        arrow.table(COLUMNS | {"emb": listed()})[i : i + 50] for i in (0, 50, 100)
    ),
    "arrow, a batch": lambda: arrow.record_batch(COLUMNS | {"emb": fixed()}),
    "dataset": lambda: datasets.Dataset.from_dict(COLUMNS | {"emb": ROWS.tolist()}),
    "dataset, shuffled": shuffled,
}


@pytest.fixture(params=FRAMES, scope="module")
def frame(request):
    return FRAMES[request.param]()


def columns_of(frame):
    return frame.column_names if hasattr(frame, "column_names") else list(frame.columns)


def plain(frame, name):
    column = frame[name]
    for method in ("to_pylist", "to_list"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)


def test_the_vectors_of_a_frame_are_found_and_its_ids_are_kept(frame):
    chosen = tm.select(frame, TARGETS, 9, id_column="key")
    np.testing.assert_array_equal(chosen.indices, EXPECTED.indices)
    assert chosen.ids.tolist() == [IDS[row] for row in EXPECTED.indices]
    again = tm.select(frame, frame, 3, column="emb", kernel="linear", candidates=[5, 6, 9])
    assert set(again.indices) == {5, 6, 9} and again.ids is None


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(lambda: pandas.Series(list(ROWS), index=range(N, 0, -1)), id="pandas"),
        pytest.param(lambda: polars.Series("emb", ROWS), id="polars arrays"),
        pytest.param(lambda: polars.Series("emb", ROWS.tolist()), id="polars lists"),
        pytest.param(lambda: arrow.chunked_array([fixed(ROWS[:7]), fixed(ROWS[7:])]), id="arrow"),
        pytest.param(lambda: listed()[:], id="arrow array"),
        pytest.param(lambda: shuffled()["emb"], id="dataset"),
        pytest.param(lambda: pandas.DataFrame(ROWS), id="columns of numbers"),
        pytest.param(
            lambda: polars.DataFrame(ROWS, schema=list("abcdefghijkl")), id="polars numbers"
        ),
        pytest.param(
            lambda: arrow.table(list(ROWS.T), names=list("abcdefghijkl")), id="arrow numbers"
        ),
        pytest.param(lambda: scipy.sparse.csr_matrix(ROWS), id="csr"),
        pytest.param(lambda: scipy.sparse.coo_array(ROWS), id="coo"),
    ],
)
def test_a_column_of_vectors_is_a_pool_and_is_targets(column):
    given = column()
    np.testing.assert_allclose(read_array(given, "targets").numpy(), ROWS, rtol=1e-7)
    chosen = tm.select(given, TARGETS, 9)
    np.testing.assert_array_equal(chosen.indices, EXPECTED.indices)
    source = open_source(given, "pool")
    found = source.take(
        np.array([7, 3, 118]) if False else __import__("torch").tensor([7, 3, 118])
    )
    np.testing.assert_allclose(found.numpy(), ROWS[[7, 3, 118]], rtol=1e-7)
    source.close()
    assert tm.Retriever(given).search(TARGETS, 3)[1].shape == (4, 3)
    assert tm.near(given, ROWS[:2]).sum() == 2
    assert tm.check(given, progress=False).to_dict()["health"]["rows"] == N


def test_wide_sparse_rows_are_made_dense_block_by_block():
    wide = scipy.sparse.random_array((5_000, 300), density=0.02, rng=RNG, format="csc")
    chosen = tm.select(wide, wide[:3], 5, memory="8MB")
    assert chosen.settings["pool"] == "streamed"
    dense = tm.select(wide.toarray(), wide[:3].toarray(), 5)
    np.testing.assert_array_equal(chosen.indices, dense.indices)


def test_several_columns_of_numbers_are_named_in_a_list():
    frame = pandas.DataFrame(ROWS, columns=list("abcdefghijkl")).assign(y=1.0, word="w")
    for made in (frame, polars.from_pandas(frame), arrow.Table.from_pandas(frame)):
        chosen = tm.select(made, TARGETS[:, :2], 2, column=["d", "a"])
        expected = tm.select(ROWS[:, [3, 0]], TARGETS[:, :2], 2)
        np.testing.assert_array_equal(chosen.indices, expected.indices)


def test_the_result_has_the_rows_and_columns_of_its_frame(frame):
    chosen = tm.select(frame, TARGETS, 9)
    nearest = oracle.cosines(*(rows - ROWS.mean(0) for rows in (ROWS[chosen.indices], TARGETS)))
    for picked, count in ((chosen.to_frame(), 9), (chosen[:4].to_frame(), 4)):
        assert type(picked) in (type(frame), type(picked[:0]))
        assert plain(picked, "rank") == list(range(1, count + 1))
        assert plain(picked, "key") == [IDS[row] for row in chosen.indices[:count]]
        assert plain(picked, "text") == [TEXTS[row] for row in chosen.indices[:count]]
        assert plain(picked, "gain") == chosen.gains[:count].tolist()
        assert plain(picked, "nearest_target") == nearest[:count].argmax(1).tolist()
        np.testing.assert_allclose(plain(picked, "similarity"), nearest[:count].max(1), rtol=1e-5)
    taken = chosen.take(frame)
    assert columns_of(taken) == [*columns_of(frame), "rank", "gain"]
    assert plain(taken, "key") == [IDS[row] for row in chosen.indices]
    with pytest.raises(ValueError, match="as many as the pool has, 120"):
        chosen.take(taken)


def test_arrays_tensors_and_lists_are_taken_as_they_are():
    frame = EXPECTED.to_frame()
    assert list(frame) == [
        *("rank", "index", "gain", "uncertainty", "nearest_target", "similarity")
    ]
    np.testing.assert_array_equal(EXPECTED.take(ROWS), ROWS[EXPECTED.indices])
    assert torch.equal(
        EXPECTED.take(torch.from_numpy(ROWS)), torch.from_numpy(EXPECTED.take(ROWS))
    )
    assert EXPECTED.take(TEXTS) == [TEXTS[row] for row in EXPECTED.indices]
    for kind in ("csr", "coo", "dia"):
        sparse = EXPECTED.take(scipy.sparse.csr_array(ROWS).asformat(kind))
        assert sparse.format == kind
        np.testing.assert_array_equal(sparse.toarray(), ROWS[EXPECTED.indices])


@pytest.fixture
def embed(tmp_path, monkeypatch):
    """A model: a function in the folder where the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "lengths_of_words.py").write_text(
        "def embed(texts):\n    return [[len(t), t.count('1'), t.count('2')] for t in texts]\n"
    )
    return "lengths_of_words:embed"


def test_targets_are_named_by_their_ids_or_else_by_their_texts(embed):
    frame = pandas.DataFrame(COLUMNS)
    chosen = tm.select(frame, frame[:5], 4, text="text", embed=embed, id_column="key")
    ids = [IDS[target] for target in chosen.nearest_target]
    assert chosen.to_frame()["nearest_target"].tolist() == ids
    assert chosen.take(frame)["nearest_target"].tolist() == ids
    of_texts = tm.select(frame, frame["text"][:5], 4, text="text", embed=embed, id_column="key")
    assert of_texts.to_frame()["nearest_target"].tolist() == [
        TEXTS[target] for target in chosen.nearest_target
    ]
    long = tm.select(TEXTS, ["1" * 300, "2" * 300], 4, embed=embed)
    assert set(long.to_frame()["nearest_target"]) <= {"1" * 80, "2" * 80}
    alike = tm.select(TEXTS, ["a" * 80 + "1", "a" * 80 + "2"], 4, embed=embed)
    assert alike.to_frame()["nearest_target"].tolist() == alike.nearest_target.tolist()


def test_a_page_about_texts_takes_what_the_selection_took(embed, tmp_path):
    pytest.importorskip("plotly")
    frame = pandas.DataFrame(COLUMNS)
    named = {"text": "text", "embed": embed, "id_column": "key"}
    chosen = tm.select(frame, frame[:5], 4, **named)
    chosen.report(tmp_path / "page.html", frame, frame[:5], **named)
    page = (tmp_path / "page.html").read_text()
    for row in chosen.indices:
        assert f"{IDS[row]}: {TEXTS[row]}" in page
    frame.to_csv(tmp_path / "pool.csv")
    named = {"text": "text", "embed": embed}
    chosen = tm.select(tmp_path / "pool.csv", TEXTS[0], 4, **named)
    chosen.report(tmp_path / "page.html", tmp_path / "pool.csv", TEXTS[0], **named)
    page = (tmp_path / "page.html").read_text()
    assert all(f">{TEXTS[row]}<" in page for row in chosen.indices) and "pool.csv" in page


def test_texts_are_embedded_in_pool_and_targets(embed):
    vectors = tm.embed(TEXTS, embed)
    expected = tm.select(vectors, vectors[:2], 3)
    frame = pandas.DataFrame(COLUMNS)
    chosen = tm.select(frame, frame[:2], 3, text="text", embed=embed, id_column="key")
    np.testing.assert_array_equal(chosen.indices, expected.indices)
    assert chosen.ids.tolist() == chosen.to_frame()["key"].tolist()
    plain_lists = tm.select(TEXTS, TEXTS[:2], 3, embed=embed)
    np.testing.assert_array_equal(plain_lists.indices, expected.indices)
    of_texts = tm.select(frame, TEXTS[:2], 3, text="text", embed=embed)
    np.testing.assert_array_equal(of_texts.indices, expected.indices)
    np.testing.assert_array_equal(tm.embed(TEXTS[0], embed), vectors[:1])
    one = tm.select(TEXTS, TEXTS[1], 3, embed=embed)
    of_one = tm.select(frame, TEXTS[1], 3, text="text", embed=embed)
    of_list = tm.select(TEXTS, TEXTS[1:2], 3, embed=embed)
    np.testing.assert_array_equal(one.indices, of_list.indices)
    np.testing.assert_array_equal(of_one.indices, of_list.indices)
    with pytest.raises(FileNotFoundError, match=r"gone\.csv"):
        tm.select(frame, "gone.csv", 3, text="text", embed=embed)
    for options, said in (
        ({"text": "text"}, "say by which model: embed="),
        ({"embed": embed}, "embed needs text, the column of texts in pool"),
        ({"embed": embed, "text": "text", "column": "key"}, "read from column or made by embed"),
        ({"embed": embed, "text": "gone"}, "pool has no column 'gone'; it has key, text"),
    ):
        with pytest.raises(ValueError, match=said):
            tm.select(frame, frame[:2], 3, **options)


FRAME = pandas.DataFrame(COLUMNS | {"emb": list(ROWS)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (FRAME.assign(two=list(ROWS)), r"emb \(vectors\), two \(vectors\)\. Name what is meant"),
        (FRAME[["text"]], r"it has text \(str\)\. Name what is meant by column='emb'"),
        (pandas.DataFrame({"a": [1.0], "label": [2.0]}), "'label' is named like one"),
        (FRAME.assign(emb=[*ROWS[:-1], ROWS[0, :2]]), "row 119 has a vector of 2, row 0 has 12"),
        (FRAME.assign(emb=[*ROWS[:-1], None]), "row 119 has no vector, row 0 has 12"),
        (polars.DataFrame({"v": [[1.0], None]}), "row 1 has no vector"),
        (arrow.table({"v": [[1.0], None]}), "column 'v' must have a vector in every row; row 1"),
        (arrow.table({"v": [[1.0], [2.0, 3.0]]}), "the first has 1, row 1 has 2"),
        (arrow.table({"v": [[1.0], [None]]}), "row 1 lacks a number"),
        (polars.DataFrame({"v": [[1.0], [np.nan]]}), "pool must be finite; row 1"),
        (FRAME[:0], "pool must have one column of vectors"),
        (NamedArray(FRAME, "gone"), "pool has no column 'gone'; it has key, text, emb"),
        (NamedArray(FRAME["emb"], "emb"), "pool is a single column, which has no names"),
        (NamedArray(scipy.sparse.eye(3), None, "id"), "is a sparse matrix, which has no names"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_column_of_vectors_is_refused_with_the_way_out(given, said):
    named = given if isinstance(given, NamedArray) else NamedArray(given)
    with pytest.raises(ValueError, match=said):
        tm.select(named.given, k=1, rule="k-center", column=named.name, id_column=named.id_column)


def test_frames_that_cannot_be_read_anywhere_and_ids_that_are_none_are_refused():
    with pytest.raises(TypeError, match="a LazyFrame cannot be read at any place"):
        tm.select(polars.DataFrame({"v": ROWS}).lazy(), TARGETS, 3)
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_pandas(FRAME)})
    with pytest.raises(TypeError, match=r"rows in splits, .*such as ds\['train'\]; it has train"):
        tm.select(splits, TARGETS, 3)
    with pytest.raises(TypeError, match="a DatasetDict has rows in splits"):
        EXPECTED.take(splits)
    with pytest.raises(TypeError, match=r"a LazyFrame cannot be read at any place.*Collect"):
        EXPECTED.take(polars.DataFrame({"v": ROWS}).lazy())
    with pytest.raises(ValueError, match="id_column must hold a whole number or a text"):
        tm.select(FRAME.assign(n=0.5), TARGETS, 3, column="emb", id_column="n")
    twice = FRAME.assign(key=[*IDS[:-1], IDS[0]])
    with pytest.raises(ValueError, match=f"pool: ids must differ; row 0 and row {N - 1} both"):
        tm.select(twice, TARGETS, 3, column="emb", id_column="key")
