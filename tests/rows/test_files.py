"""Embeddings from files, and every kind of array that may stand in their place."""

import json
import pickle
import struct
import warnings

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.rows.sources import read_array

N, D = 20, 4
POOL = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
TARGETS = np.random.default_rng(1).normal(size=(3, D))
PICKS = tm.select(POOL, TARGETS, k=5, kernel="linear").indices


@pytest.fixture
def pyarrow():
    pytest.importorskip("pyarrow.parquet")
    return pytest.importorskip("pyarrow")


def save_npy(path, array):
    np.save(path, array)
    return path


def save_safetensors(path, tensors):
    pytest.importorskip("safetensors.torch").save_file(tensors, path)
    return path


def save_parquet(pyarrow, path, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def refusal(path, name="pool"):
    """The message with which a file is refused."""
    with pytest.raises(ValueError, match=f"^{name}: ") as caught:
        read_array(path, name)
    message = str(caught.value)
    assert path.name in message and message.endswith(".") and not message.endswith("..")
    assert "\n" not in message
    return message


# ---- .npy


LAYOUTS = {
    "float64": POOL.astype(np.float64),
    "float32": POOL,
    "float16": POOL.astype(np.float16),
    "int8": (20 * POOL).astype(np.int8),
    "uint16": np.arange(N * D, dtype=np.uint16).reshape(N, D),
    "bool": POOL > 0,
    "big-endian": POOL.astype(">f4"),
    "big-endian integers": (20 * POOL).astype(">i2"),
    "Fortran order": np.asfortranarray(POOL),
}


@pytest.mark.parametrize("array", LAYOUTS.values(), ids=LAYOUTS)
def test_an_npy_file_is_read_as_it_was_saved(array, tmp_path):
    loaded = read_array(save_npy(tmp_path / "pool.npy", array), "pool")
    assert tuple(loaded.shape) == array.shape
    assert loaded.numpy().dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(loaded.numpy(), array)


def test_writing_to_a_loaded_tensor_leaves_the_file_alone(tmp_path):
    path = save_npy(tmp_path / "pool.npy", POOL)
    before = path.read_bytes()
    read_array(path, "pool").zero_()
    assert path.read_bytes() == before


def test_an_npy_file_without_write_permission_is_read(tmp_path):
    path = save_npy(tmp_path / "pool.npy", POOL)
    path.chmod(0o444)
    np.testing.assert_array_equal(read_array(path, "pool").numpy(), POOL)


class Witness:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_pickled_objects_in_an_npy_file_are_refused_and_not_run(tmp_path):
    objects = np.array([Witness(tmp_path / "ran")], dtype=object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    message = refusal(tmp_path / "objects.npy")
    assert "pickled" in message and "np.save" in message
    assert not (tmp_path / "ran").exists()


def test_a_pickle_named_npy_is_refused_and_not_run(tmp_path):
    (tmp_path / "evil.npy").write_bytes(pickle.dumps(Witness(tmp_path / "ran")))
    assert "not an .npy file" in refusal(tmp_path / "evil.npy")
    assert not (tmp_path / "ran").exists()


def test_an_archive_named_npy_is_refused(tmp_path):
    with (tmp_path / "pool.npy").open("wb") as file:
        np.savez(file, pool=POOL)
    assert ".npz archive" in refusal(tmp_path / "pool.npy")


def test_an_npy_file_cut_short_is_refused(tmp_path):
    path = save_npy(tmp_path / "pool.npy", POOL)
    path.write_bytes(path.read_bytes()[:-5])
    assert "damaged" in refusal(path)


def test_an_npy_header_cut_short_is_refused(tmp_path):
    path = save_npy(tmp_path / "pool.npy", POOL)
    path.write_bytes(path.read_bytes()[:40])
    assert "damaged" in refusal(path)


def test_an_npy_file_of_no_rows_is_refused_as_empty(tmp_path):
    path = save_npy(tmp_path / "pool.npy", POOL[:0])
    with pytest.raises(ValueError, match=r"pool must not be empty; got shape \(0, 4\)"):
        tm.select(path, TARGETS, k=1, kernel="linear")


@pytest.mark.parametrize("rows", [np.array([["a", "b"]]), np.zeros((2, 2), "V8")])
def test_an_npy_file_of_no_numbers_is_refused_like_a_damaged_one(rows, tmp_path):
    path = save_npy(tmp_path / "pool.npy", rows)
    assert "must hold numbers" in refusal(path)


# ---- .safetensors


TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I8": torch.int8,
    "U8": torch.uint8,
}


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
def test_the_tensor_of_a_safetensors_file_is_read_as_it_was_saved(dtype, tmp_path):
    expected = torch.from_numpy(abs(20 * POOL)).to(dtype)
    path = save_safetensors(tmp_path / "pool.safetensors", {"embeddings": expected})
    loaded = read_array(path, "pool")
    assert loaded.dtype == dtype
    assert torch.equal(loaded, expected)


def test_metadata_in_a_safetensors_file_is_no_tensor(tmp_path):
    save = pytest.importorskip("safetensors.torch").save_file
    save({"e": torch.from_numpy(POOL)}, tmp_path / "pool.safetensors", metadata={"by": "us"})
    loaded = read_array(tmp_path / "pool.safetensors", "pool")
    np.testing.assert_array_equal(loaded.numpy(), POOL)


def test_several_tensors_in_a_safetensors_file_are_listed(tmp_path):
    tensors = {"second": torch.ones(2, 2), "first": torch.ones(3, 2)}
    message = refusal(save_safetensors(tmp_path / "pool.safetensors", tensors))
    assert "exactly one tensor" in message and "first, second" in message


def test_a_safetensors_file_without_tensors_is_refused(tmp_path):
    message = refusal(save_safetensors(tmp_path / "pool.safetensors", {}))
    assert "exactly one tensor" in message and "none" in message


def raw_safetensors(path, header, data=b""):
    """A file with any header, a well-formed one or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def describe(dtype="F32", shape=(2, 2), offsets=(0, 16)):
    return {"e": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_an_unaligned_safetensors_file_is_read(tmp_path):
    data = np.arange(4, dtype=np.float32)
    header = json.dumps(describe()).encode()
    header += b" " * (3 - len(header) % 8)
    path = raw_safetensors(tmp_path / "odd.safetensors", header, data.tobytes())
    assert (8 + len(header)) % 4 != 0
    np.testing.assert_array_equal(read_array(path, "pool").numpy(), data.reshape(2, 2))


DAMAGED = {
    "no JSON": (b"\xff\xfe not json", b"", "not a whole .safetensors"),
    "a list": ([1, 2], b"", "not a whole .safetensors"),
    "no entry": ({"e": 3}, b"", "damaged"),
    "no offsets": ({"e": {"dtype": "F32", "shape": [2, 2]}}, bytes(16), "damaged"),
    "three offsets": (describe(offsets=(0, 8, 16)), bytes(16), "damaged"),
    "negative offsets": (describe(offsets=(-16, 0)), bytes(16), "damaged"),
    "words for a shape": (describe(shape=("a", "b")), bytes(16), "damaged"),
    "a negative shape": (describe(shape=(-2, -2)), bytes(16), "damaged"),
    "too small a range": (describe(offsets=(0, 8)), bytes(16), "damaged"),
    "data behind the end": (describe(), bytes(12), "cut short"),
    "an unknown type": (describe(dtype="F4"), bytes(16), "F4"),
}


@pytest.mark.parametrize(("header", "data", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_safetensors_file_is_refused(header, data, said, tmp_path):
    assert said in refusal(raw_safetensors(tmp_path / "pool.safetensors", header, data))


@pytest.mark.parametrize("kept", [3, 8, 20, -7])
def test_a_safetensors_file_cut_short_is_refused(kept, tmp_path):
    path = save_safetensors(tmp_path / "pool.safetensors", {"e": torch.from_numpy(POOL)})
    path.write_bytes(path.read_bytes()[:kept])
    message = refusal(path)
    assert "not a whole .safetensors" in message or "cut short" in message


def test_garbage_named_safetensors_is_refused(tmp_path):
    (tmp_path / "pool.safetensors").write_bytes(b"\x00\xff" * 500)
    assert "not a whole .safetensors" in refusal(tmp_path / "pool.safetensors")


def test_an_empty_tensor_in_a_safetensors_file_is_refused_as_empty(tmp_path):
    path = save_safetensors(tmp_path / "pool.safetensors", {"e": torch.empty(0, D)})
    with pytest.raises(ValueError, match=r"pool must not be empty; got shape \(0, 4\)"):
        tm.select(path, TARGETS, k=1, kernel="linear")


# ---- .parquet


def vectors(pyarrow, rows, kind):
    lists = [None if row is None else list(row) for row in rows]
    return pyarrow.array(lists, type=kind)


@pytest.mark.parametrize("form", ["list", "large list", "fixed-size list"])
@pytest.mark.parametrize("item", ["float64", "float32", "int16"])
def test_the_vectors_of_a_parquet_file_are_read(form, item, tmp_path, pyarrow):
    item_type = getattr(pyarrow, item)()
    kinds = {
        "list": pyarrow.list_(item_type),
        "large list": pyarrow.large_list(item_type),
        "fixed-size list": pyarrow.list_(item_type, D),
    }
    expected = (20 * POOL).astype(item)
    column = vectors(pyarrow, expected.tolist(), kinds[form])
    path = save_parquet(
        pyarrow, tmp_path / "pool.parquet", text=["a"] * N, score=list(range(N)), vector=column
    )
    loaded = read_array(path, "pool").numpy()
    assert loaded.dtype == expected.dtype
    np.testing.assert_array_equal(loaded, expected)


def test_a_parquet_file_of_several_row_groups_is_read_in_order(tmp_path, pyarrow):
    column = vectors(pyarrow, POOL.tolist(), pyarrow.list_(pyarrow.float32()))
    table = pyarrow.table({"vector": column})
    pyarrow.parquet.write_table(table, tmp_path / "pool.parquet", row_group_size=3)
    np.testing.assert_array_equal(read_array(tmp_path / "pool.parquet", "pool").numpy(), POOL)


def test_a_folder_named_like_a_partition_does_not_change_a_parquet_file(tmp_path, pyarrow):
    column = vectors(pyarrow, POOL.tolist(), pyarrow.list_(pyarrow.float32()))
    (tmp_path / "vector=3").mkdir()
    path = save_parquet(pyarrow, tmp_path / "vector=3" / "pool.parquet", vector=column)
    np.testing.assert_array_equal(read_array(path, "pool").numpy(), POOL)


def test_several_vector_columns_are_listed(tmp_path, pyarrow):
    path = save_parquet(
        pyarrow, tmp_path / "pool.parquet", title=[[1.0]], body=[[2.0]], name=["a"]
    )
    message = refusal(path)
    assert "exactly one column of vectors" in message and "body, title" in message
    assert "name" not in message


def test_a_parquet_file_without_vectors_is_refused(tmp_path, pyarrow):
    path = save_parquet(pyarrow, tmp_path / "pool.parquet", text=[["a"]], score=[1.0])
    assert "it has 0: none" in refusal(path)


def test_vectors_of_unequal_length_are_refused(tmp_path, pyarrow):
    path = save_parquet(pyarrow, tmp_path / "pool.parquet", v=[[1.0, 2.0], [1.0], [1.0, 2.0]])
    assert "the first has 2, row 1 has 1" in refusal(path)


@pytest.mark.parametrize("size", [-1, 2])
def test_a_missing_vector_is_refused_by_its_row(size, tmp_path, pyarrow):
    kind = pyarrow.list_(pyarrow.float64(), size)
    column = vectors(pyarrow, [[1.0, 2.0], [1.0, 2.0], None], kind)
    message = refusal(save_parquet(pyarrow, tmp_path / "pool.parquet", v=column))
    assert "row 2 has none" in message and "'v'" in message


@pytest.mark.parametrize("item", ["float64", "int64"])
def test_a_missing_number_in_a_vector_is_refused_by_its_row(item, tmp_path, pyarrow):
    kind = pyarrow.list_(getattr(pyarrow, item)())
    column = vectors(pyarrow, [[1, 2], [1, None], [1, 2]], kind)
    path = save_parquet(pyarrow, tmp_path / "pool.parquet", v=column)
    with pytest.raises(ValueError, match="pool must be finite; row 1 "):
        tm.select(path, np.ones(2), k=1, kernel="linear")


def test_a_parquet_file_without_rows_is_refused(tmp_path, pyarrow):
    column = vectors(pyarrow, [], pyarrow.list_(pyarrow.float64()))
    path = save_parquet(pyarrow, tmp_path / "pool.parquet", v=column)
    assert "has no rows" in refusal(path)


@pytest.mark.parametrize("keep", [slice(100), slice(40, None), slice(0, 3)])
def test_a_parquet_file_cut_short_is_refused(keep, tmp_path, pyarrow):
    column = vectors(pyarrow, POOL.tolist(), pyarrow.list_(pyarrow.float32()))
    path = save_parquet(pyarrow, tmp_path / "pool.parquet", v=column)
    path.write_bytes(path.read_bytes()[keep])
    assert "no readable .parquet" in refusal(path)


def test_garbage_named_parquet_is_refused(tmp_path, pyarrow):
    (tmp_path / "pool.parquet").write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    assert "no readable .parquet" in refusal(tmp_path / "pool.parquet")


# ---- paths


@pytest.mark.parametrize("name", ["pool", "targets", "observed"])
def test_a_missing_file_is_named_with_its_argument(name, tmp_path):
    paths = {"pool": POOL, "targets": TARGETS, name: tmp_path / "gone.npy"}
    with pytest.raises(FileNotFoundError, match=rf"{name}: there is no file .*gone\.npy"):
        tm.select(**paths, k=1)


def test_an_empty_folder_is_no_pool(tmp_path):
    (tmp_path / "pool.npy").mkdir()
    with pytest.raises(FileNotFoundError, match="must have or match files of the formats"):
        read_array(tmp_path / "pool.npy", "pool")


@pytest.mark.parametrize("file", ["pool.pt", "pool", "pool.npy.gz"])
def test_another_format_is_refused_with_those_that_are_known(file, tmp_path):
    (tmp_path / file).write_bytes(b"1,2,3")
    message = refusal(tmp_path / file)
    assert ".npy, .safetensors, .parquet" in message and "pass the array" in message


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_an_empty_file_is_refused(suffix, tmp_path):
    path = tmp_path / f"pool{suffix}"
    path.touch()
    assert "is empty" in refusal(path, "targets")


def test_picks_from_files_equal_picks_from_the_array(tmp_path, pyarrow):
    column = vectors(pyarrow, POOL.tolist(), pyarrow.list_(pyarrow.float32()))
    files = [
        save_npy(tmp_path / "pool.npy", POOL),
        save_safetensors(tmp_path / "pool.safetensors", {"e": torch.from_numpy(POOL)}),
        save_parquet(pyarrow, tmp_path / "pool.parquet", v=column),
    ]
    targets = save_npy(tmp_path / "targets.npy", TARGETS)
    expected = tm.select(POOL, TARGETS, k=5, kernel="linear")
    for file in files:
        chosen = tm.select(file, str(targets), k=5, kernel="linear")
        np.testing.assert_array_equal(chosen.indices, expected.indices)
        np.testing.assert_array_equal(chosen.gains, expected.gains)
        assert chosen.fingerprint == expected.fingerprint
        assert chosen.settings["dtype"] == "float32"


def test_observed_points_may_come_from_a_file(tmp_path):
    points = save_npy(tmp_path / "seen.npy", TARGETS[:2])
    chosen = tm.select(POOL, TARGETS, k=3, observed=points, kernel="linear")
    expected = tm.select(POOL, TARGETS, k=3, observed=TARGETS[:2], kernel="linear")
    np.testing.assert_array_equal(chosen.indices, expected.indices)


# ---- arrays in the place of files


def unaligned(array):
    """A view whose rows start at odd addresses, as fields of packed records do."""
    records = np.zeros(len(array), dtype=[("flag", "i1"), ("vector", "f4", (array.shape[1],))])
    records["vector"] = array
    return records["vector"]


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


ARRAYS = {
    "array": POOL,
    "list": POOL.tolist(),
    "list of arrays": list(POOL),
    "list of tensors": list(torch.from_numpy(POOL)),
    "tensor": torch.from_numpy(POOL),
    "tensor with a gradient": torch.from_numpy(POOL.copy()).requires_grad_(),
    "transposed tensor": torch.from_numpy(POOL.T.copy()).T,
    "read-only": read_only(POOL),
    "reversed rows": POOL[::-1].copy()[::-1],
    "reversed features": POOL[:, ::-1].copy()[:, ::-1],
    "every other row": np.repeat(POOL, 2, axis=0)[::2],
    "Fortran order": np.asfortranarray(POOL),
    "big-endian": POOL.astype(">f4"),
    "unaligned": unaligned(POOL),
    "long double": POOL.astype(np.longdouble),
    "masked array without a mask": np.ma.masked_array(POOL),
}


@pytest.mark.parametrize("pool", ARRAYS.values(), ids=ARRAYS)
def test_any_array_of_the_same_numbers_gives_the_same_picks_without_warnings(pool):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = tm.select(pool, TARGETS, k=4, kernel="linear")
    np.testing.assert_array_equal(chosen.indices, PICKS[:4])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_short_floats_give_the_picks_of_the_same_numbers_in_float64(dtype):
    short = torch.from_numpy(POOL).to(dtype)
    chosen = tm.select(short, TARGETS, k=5, kernel="linear")
    np.testing.assert_array_equal(
        chosen.indices, tm.select(short.to(torch.float64), TARGETS, k=5, kernel="linear").indices
    )
    assert chosen.settings["dtype"] == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", ["i1", "i8", "u1", "u2", "u4", "u8", "?"])
def test_integers_are_numbers_like_others(dtype):
    pool = abs(20 * POOL).astype(dtype)
    np.testing.assert_array_equal(
        tm.select(pool, TARGETS, k=5, kernel="linear").indices,
        tm.select(pool.astype(np.float64), TARGETS, k=5, kernel="linear").indices,
    )


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="no frame in the annotation")
def test_a_frame_is_an_array():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(POOL, index=np.arange(N) * 10)
    np.testing.assert_array_equal(tm.select(frame, TARGETS, k=5, kernel="linear").indices, PICKS)


def test_a_memory_map_is_an_array(tmp_path):
    path = save_npy(tmp_path / "pool.npy", POOL)
    mapped = np.load(path, mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = tm.select(mapped, TARGETS, k=4, kernel="linear")
    np.testing.assert_array_equal(chosen.indices, PICKS[:4])


def test_select_changes_none_of_its_arguments():
    pool, targets, noise = POOL.copy(), TARGETS.copy(), np.full(N, 0.5)
    cost, weights = np.ones(N), np.array([1.0, 2.0, 3.0])
    arrays = (pool, targets, noise, cost, weights)
    before = [array.copy() for array in arrays]
    for normalize in (None, "unit", "center", "center+unit"):
        tm.select(
            pool, targets, k=5, noise_std=noise, cost=cost, target_weights=weights,
            normalize=normalize, observed=[3], floor=True, kernel="linear",
        )  # fmt: skip
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
