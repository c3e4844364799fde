"""Every source gives the same rows as the array behind it, in any pieces."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tellmost.rows.sources import HeldRows, NamedArray, hold, open_source, spans

N, D = 53, 3
ROWS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


class Blocks:
    """Blocks of uneven sizes, made again at each iteration, all in the same memory."""

    def __init__(self, rows, sizes=(10, 1, 30)):
        self.rows, self.sizes = rows, sizes
        self.started = 0

    def __iter__(self):
        self.started += 1
        memory = np.full((max(*self.sizes, len(self.rows)), self.rows.shape[1]), np.nan)
        memory = memory.astype(self.rows.dtype)
        edges = [0, *np.cumsum(self.sizes), len(self.rows)]
        for start, stop in pairwise(edges):
            memory[: stop - start] = self.rows[start:stop]
            yield memory[: stop - start]


def as_npy(folder, rows, name="rows.npy"):
    np.save(folder / name, rows)
    return folder / name


def as_safetensors(folder, rows, name="rows.safetensors"):
    save = pytest.importorskip("safetensors.numpy").save_file
    save({"rows": np.ascontiguousarray(rows)}, folder / name)
    return folder / name


def as_parquet(folder, rows, name="rows.parquet", group=7):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = arrow.array(rows.tolist(), type=arrow.list_(arrow.float32()))
    parquet.write_table(arrow.table({"rows": column}), folder / name, row_group_size=group)
    return folder / name


def as_named_column(folder, rows):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    kind = arrow.list_(arrow.float32(), D)
    columns = {name: arrow.array(list(x), kind) for name, x in (("a", -rows), ("b", rows))}
    ids = [f"row-{number}" for number in range(len(rows))]
    table = arrow.table({"key": ids, **columns})
    parquet.write_table(table, folder / "two.parquet", row_group_size=7)
    return NamedArray(folder / "two.parquet", "b", "key")


def as_named_tensor(folder, rows):
    save = pytest.importorskip("safetensors.numpy").save_file
    save({"a": -rows, "b": rows}, folder / "two.safetensors")
    return NamedArray(folder / "two.safetensors", "b")


def as_shards(folder, rows):
    return [
        as_npy(folder, rows[:20], "a.npy"),
        as_parquet(folder, rows[20:21], "b.parquet"),
        as_safetensors(folder, rows[21:40], "c.safetensors"),
        as_npy(folder, rows[40:40], "d.npy"),
        as_npy(folder, np.asfortranarray(rows[40:]), "e.npy"),
    ]


FORMS = {
    "npy": as_npy,
    "Fortran npy": lambda folder, rows: as_npy(folder, np.asfortranarray(rows)),
    "big-endian npy": lambda folder, rows: as_npy(folder, rows.astype(">f4")),
    "safetensors": as_safetensors,
    "parquet": as_parquet,
    "named column": as_named_column,
    "named tensor": as_named_tensor,
    "shards": as_shards,
    "npy shards": lambda folder, rows: (
        as_npy(folder, rows[:17], "1.npy"),
        str(as_npy(folder, rows[17:], "2.npy")),
    ),
    "blocks": lambda folder, rows: Blocks(rows),
    "tensor": lambda folder, rows: torch.from_numpy(rows),
}


@pytest.fixture(scope="module", params=FORMS)
def source(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    opened = open_source(FORMS[request.param](folder, ROWS), "pool")
    yield opened
    opened.close()


def test_shape_dtype_and_device_are_known_before_anything_is_read(source):
    assert source.shape == (N, D)
    assert source.dtype == torch.float32
    assert source.device == torch.device("cpu")


@given(start=st.integers(0, N - 1), length=st.integers(1, N))
@settings(max_examples=20)
def test_consecutive_rows_are_read(source, start, length):
    stop = min(start + length, N)
    np.testing.assert_array_equal(source.read(start, stop).numpy(), ROWS[start:stop])


@given(indices=st.lists(st.integers(0, N - 1), max_size=30))
@settings(max_examples=20)
def test_rows_come_in_the_order_asked_for(source, indices):
    rows = source.take(torch.tensor(indices, dtype=torch.int64))
    np.testing.assert_array_equal(rows.numpy(), ROWS[indices])


@given(step=st.integers(1, N + 5), drop=st.sets(st.integers(0, N)))
@settings(max_examples=20)
def test_a_stream_gives_the_spans_in_order(source, step, drop):
    wanted = [span for number, span in enumerate(spans(N, step)) if number not in drop]
    seen = []
    for start, stop, rows in source.stream(wanted):
        seen.append((start, stop))
        np.testing.assert_array_equal(rows.numpy(), ROWS[start:stop])
    assert seen == wanted


def test_a_row_is_named(source):
    assert source.where(41).startswith("row ")


@pytest.mark.parametrize("form", ["parquet", "blocks", "npy"])
def test_remembered_rows_need_no_reading_after_a_stream(form, tmp_path):
    source = open_source(FORMS[form](tmp_path, ROWS), "pool")
    wanted = torch.tensor([50, 3, 3, 21])
    source.remember(wanted)
    list(source.stream(list(spans(N, 8))))
    before = source.passes
    np.testing.assert_array_equal(source.take(wanted).numpy(), ROWS[wanted])
    assert source.passes == before
    source.close()


def test_random_access_counts_what_it_reads(tmp_path):
    parquet = open_source(as_parquet(tmp_path, ROWS, group=10), "pool")
    parquet.take(torch.tensor([12, 15, 47]))
    assert parquet.passes == pytest.approx(20 / N)  # two row groups
    parquet.take(torch.tensor([15, 12]))
    assert parquet.passes == pytest.approx(20 / N)  # kept from before
    npy = open_source(as_npy(tmp_path, ROWS), "pool")
    npy.take(torch.tensor([12, 15, 47]))
    assert npy.passes == pytest.approx(3 / N)


def test_an_iterable_is_gone_through_once_to_count_and_once_per_pass():
    blocks = Blocks(ROWS)
    source = open_source(blocks, "pool")
    assert blocks.started == 1 and source.passes == 1.0
    list(source.stream(list(spans(N, 20))))
    assert blocks.started == 2 and source.passes == 2.0
    source.take(torch.tensor([0]))  # in the first block, of ten rows
    assert blocks.started == 3 and source.passes == pytest.approx(2 + 10 / N)
    source.close()


def test_rows_are_named_by_file_and_place(tmp_path):
    source = open_source(as_shards(tmp_path, ROWS), "pool")
    assert source.where(0) == "row 0 of a.npy (row 0 of the pool)"
    assert source.where(20) == "row 0 of b.parquet (row 20 of the pool)"
    assert source.where(41) == "row 1 of e.npy (row 41 of the pool)"
    assert open_source(Blocks(ROWS), "pool").where(12) == "row 1 of block 2 (row 12 of the pool)"
    assert open_source(as_npy(tmp_path, ROWS), "pool").where(12) == "row 12 of rows.npy"
    assert open_source(ROWS, "pool").where(12) == "row 12"


def test_a_tensor_is_not_copied():
    tensor = torch.from_numpy(ROWS)
    source = open_source(tensor, "pool")
    assert source.held.data_ptr() == tensor.data_ptr()
    assert source.read(3, 5).data_ptr() == tensor[3:].data_ptr()


def test_holding_reads_once_and_keeps_the_names(tmp_path):
    source = open_source(as_npy(tmp_path, ROWS), "pool")
    held = hold(source, torch.device("cpu"), 10)
    assert isinstance(held, HeldRows) and held.passes == 1.0
    assert held.where(4) == "row 4 of rows.npy"
    np.testing.assert_array_equal(held.held.numpy(), ROWS)


def readers():
    return {t for t in threading.enumerate() if t.name.startswith("tellmost-read-ahead")}


def test_closing_ends_the_thread_even_in_the_middle_of_a_stream(tmp_path):
    others = readers()  # of earlier tests, whose sources nobody has closed yet
    source = open_source(as_npy(tmp_path, ROWS), "pool")
    stream = source.stream(list(spans(N, 5)))
    next(stream)
    assert len(readers() - others) == 1
    source.close()
    assert not readers() - others


# ---- what is refused


def refused(given, kind=ValueError):
    with pytest.raises(kind) as caught:
        open_source(given, "pool")
    message = str(caught.value)
    assert message.startswith("pool") and message.endswith(".")
    return message


@pytest.mark.parametrize(
    "make", [iter, lambda rows: (row for row in [rows]), lambda r: map(abs, r)]
)
def test_what_can_be_read_only_once_is_refused(make):
    message = refused(make(ROWS), TypeError)
    assert "iterated again" in message and "__iter__" in message and "list of files" in message


def test_files_that_differ_are_refused(tmp_path):
    first = as_npy(tmp_path, ROWS, "first.npy")
    wider = as_npy(tmp_path, np.ones((4, 5), np.float32), "wider.npy")
    longer = as_npy(tmp_path, ROWS.astype(np.float64), "longer.npy")
    flat = as_npy(tmp_path, ROWS[0], "flat.npy")
    message = refused([first, wider])
    assert "same number of features" in message
    assert (
        "first.npy has float32 of shape (53, 3), wider.npy has float32 of shape (4, 5)" in message
    )
    assert "longer.npy has float64" in refused([first, longer])
    assert "flat.npy has shape (3,)" in refused([first, flat])


def test_a_list_of_files_and_other_things_is_refused(tmp_path):
    first = as_npy(tmp_path, ROWS)
    assert "entry 1 is ndarray" in refused([first, ROWS], TypeError)


def test_a_missing_file_in_a_list_is_named(tmp_path):
    first = as_npy(tmp_path, ROWS)
    assert "gone.npy" in refused([first, tmp_path / "gone.npy"], FileNotFoundError)


class Given:
    """An iterable of whatever is given."""

    def __init__(self, *blocks):
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


BAD_BLOCKS = {
    "none": ([], ValueError, "without blocks"),
    "a vector": ([ROWS[0]], ValueError, "block 0 must be rows x features"),
    "no rows at first": ([ROWS[:0], ROWS], ValueError, "block 0 must be rows x features"),
    "another width": (
        [ROWS, ROWS[:, :2]],
        ValueError,
        "block 1 has torch.float32 of shape (53, 2)",
    ),
    "another dtype": ([ROWS, ROWS.astype(float)], ValueError, "block 1 has torch.float64"),
    "words": ([ROWS, np.array([["a"]])], TypeError, "block 1 must be a numeric array"),
}


@pytest.mark.parametrize(("blocks", "kind", "said"), BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_bad_blocks_are_refused(blocks, kind, said):
    assert said in refused(Given(*blocks), kind)


class Changing:
    """Gives other blocks at each later iteration."""

    def __init__(self, later):
        self.now, self.later = [ROWS[:30], ROWS[30:]], later

    def __iter__(self):
        now, self.now = self.now, self.later
        return iter(now)


CHANGES = {
    "ends early": ([ROWS[:30]], "ends after 1, at row 30"),
    "shorter block": ([ROWS[:30], ROWS[30:50]], "block 1 (from row 30 of the pool) had 23 rows"),
    "more blocks": ([ROWS[:30], ROWS[30:], ROWS], "now has more"),
    "another order": (
        [ROWS[:30][::-1], ROWS[30:]],
        "block 0 (from row 0 of the pool) starts with",
    ),
    "another width": ([ROWS[:30], ROWS[30:, :2]], "block 1 has"),
}


@pytest.mark.parametrize(("later", "said"), CHANGES.values(), ids=CHANGES)
def test_an_iterable_that_changes_is_refused_by_block_and_row(later, said):
    source = open_source(Changing(later), "pool")
    with pytest.raises(ValueError, match=r"pool, as an iterable|pool: all blocks") as caught:
        list(source.stream(list(spans(N, 20))))
    assert said in str(caught.value)
    source.close()


def test_a_row_of_a_named_column_is_known_by_its_own_id(tmp_path):
    source = open_source(as_named_column(tmp_path, ROWS), "pool")
    assert source.where(20) == "row 20 of two.parquet, key 'row-20',"
    source.close()
