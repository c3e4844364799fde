"""Rows in object stores and on the web are the same rows as in local files."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tellmost as tm
from tellmost.rows import stores
from tellmost.rows.sources import NamedArray, open_source

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")

ROWS = np.random.default_rng(0).standard_normal((90, 5)).astype(np.float16)
TARGETS = ROWS[:4] + np.float16(0.25)
IDS = np.array([f"doc-{number:03}" for number in range(90)])
CHOSEN = tm.select(ROWS, TARGETS, 5)
PARTS = (slice(0, 20), slice(20, 21), slice(21, 90))


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    """Copies of each test go to a folder of its own."""
    monkeypatch.setenv("TELLMOST_CACHE", str(tmp_path / "copies"))
    stores.copies.cache_clear()
    yield tmp_path / "copies"
    stores.copies.cache_clear()


@pytest.fixture(scope="module")
def endpoint():
    """A server on this machine that answers as S3 does."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        _, port = server.get_host_and_port()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(scope="module")
def bucket(endpoint):
    """A bucket with three parquet shards, and what a job leaves beside them."""
    store = fsspec.filesystem("s3")
    store.mkdir("s3://bucket")
    put_shards(store, "s3://bucket/rows")
    store.pipe("s3://bucket/rows/_SUCCESS", b"")
    store.pipe("s3://bucket/rows/notes.txt", b"about the rows")
    return "s3://bucket/rows"


@pytest.fixture
def changing(bucket):
    """A shard that may be overwritten."""
    fsspec.filesystem("s3").cp(f"{bucket}/part-1.parquet", "s3://bucket/changing/part-1.parquet")
    return "s3://bucket/changing/part-1.parquet"


def put_shards(store, folder):
    for number, part in enumerate(PARTS):
        vectors = arrow.array(list(ROWS[part]), arrow.list_(arrow.float16()))
        table = arrow.table({"id": IDS[part], "other": vectors, "embedding": vectors})
        with store.open(f"{folder}/part-{number}.parquet", "wb") as file:
            parquet.write_table(table, file, row_group_size=7)


def save_npy(store, path, rows):
    with store.open(path, "wb") as file:
        np.save(file, rows)


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    yield store
    for path in store.find("/"):
        store.rm(path)


def read_all(given, **names):
    source = open_source(NamedArray(given, **names), "pool")
    try:
        return source.read(0, source.shape[0]).numpy()
    finally:
        source.close()


@pytest.mark.parametrize("budget", [None, "4MB"])
@pytest.mark.parametrize("pattern", ["", "/part-*.parquet", "/part-?.parquet"])
def test_shards_in_a_bucket_are_one_pool(bucket, pattern, budget, own_copies):
    chosen = tm.select(
        f"{bucket}{pattern}", TARGETS, 5, column="embedding", id_column="id", memory=budget
    )
    np.testing.assert_array_equal(chosen.indices, CHOSEN.indices)
    np.testing.assert_array_equal(chosen.ids, IDS[CHOSEN.indices])
    assert chosen.fingerprint == CHOSEN.fingerprint
    assert chosen.settings["dtype"] == "float16"
    assert sorted(path.stat().st_size for path in own_copies.glob("*.rows")) == [10, 200, 690]


def test_a_list_keeps_its_order(bucket):
    shards = [f"{bucket}/part-{number}.parquet" for number in (2, 0)]
    rows = read_all(shards, name="embedding")
    np.testing.assert_array_equal(rows, np.concatenate([ROWS[21:], ROWS[:20]]))


def test_the_next_run_reads_the_copies(bucket, monkeypatch):
    read_all(bucket, name="embedding")
    stores.copies.cache_clear()  # as in another process
    monkeypatch.setattr(stores.CopiedShard, "_copy", must_not_copy(stores.CopiedShard._copy))
    np.testing.assert_array_equal(read_all(bucket, name="embedding"), ROWS)


def must_not_copy(copy):
    def look(self):
        assert self._path.exists()
        return copy(self)

    return look


def test_a_shard_that_was_written_anew_is_copied_anew(changing):
    np.testing.assert_array_equal(read_all(changing, name="embedding"), ROWS[20:21])
    vectors = arrow.array(list(-ROWS[20:21]), arrow.list_(arrow.float16()))
    with fsspec.filesystem("s3").open(changing, "wb") as file:
        parquet.write_table(arrow.table({"embedding": vectors}), file)
    np.testing.assert_array_equal(read_all(changing, name="embedding"), -ROWS[20:21])


@pytest.mark.parametrize("limit", ["0", "250B"])
def test_copies_take_no_more_than_they_may(bucket, own_copies, monkeypatch, limit):
    monkeypatch.setenv("TELLMOST_CACHE_SIZE", limit)
    np.testing.assert_array_equal(read_all(bucket, name="embedding"), ROWS)
    sizes = sorted(path.stat().st_size for path in own_copies.glob("*.rows"))
    assert sizes == ([] if limit == "0" else [10, 200])


def test_copies_that_were_not_used_lately_make_room(bucket, own_copies, monkeypatch):
    own_copies.mkdir()
    old, new = own_copies / "old.rows", own_copies / "new.rows"
    for path in (old, new):
        path.write_bytes(bytes(300))
    monkeypatch.setenv("TELLMOST_CACHE_SIZE", "1200B")
    stores.os.utime(old, (0, 0))
    stores.os.utime(new, (2**33, 2**33))  # another process reads it
    read_all(bucket, name="embedding")
    assert not old.exists() and new.exists()
    assert sum(path.stat().st_size for path in own_copies.glob("*.rows")) == 300 + 900


def test_a_shard_that_changes_is_refused(changing, monkeypatch):
    monkeypatch.setenv("TELLMOST_CACHE_SIZE", "0")
    source = open_source(NamedArray(changing, "embedding"), "pool")
    fsspec.filesystem("s3").pipe(changing, b"something else")
    with pytest.raises(OSError, match=r"part-1\.parquet changed while it was read"):
        source.read(0, 1)
    source.close()


def test_a_url_of_the_web_may_have_a_query(endpoint, bucket):
    store = fsspec.filesystem("s3")
    save_npy(store, "s3://bucket/other/rows.npy", ROWS)
    store.chmod("s3://bucket/other/rows.npy", acl="public-read")
    url = f"{endpoint}/bucket/other/rows.npy?token=secret"
    np.testing.assert_array_equal(tm.select(url, TARGETS, 5).indices, CHOSEN.indices)
    store.pipe("s3://bucket/other/rows.npy", b"no array", ACL="public-read")
    with pytest.raises(ValueError, match=r"pool: rows\.npy is not an \.npy file") as refused:
        tm.select(url, TARGETS, 5)
    assert "secret" not in str(refused.value)


def test_targets_come_from_a_store_too(memory):
    save_npy(memory, "/targets/a.npy", TARGETS[:1])
    save_npy(memory, "/targets/b.npy", TARGETS[1:])
    chosen = tm.select(ROWS, "memory://targets/*.npy", 5)
    np.testing.assert_array_equal(chosen.indices, CHOSEN.indices)


def test_arrays_in_a_store_are_read_in_parts(memory, own_copies):
    save_npy(memory, "/pool/part-0.npy", ROWS[:50])
    save_npy(memory, "/pool/part-1.npy", np.asfortranarray(ROWS[50:]))
    for given in ("memory://pool", "memory://pool/*.npy", "memory://pool/part-0.npy"):
        expected = ROWS[:50] if "0" in given else ROWS
        np.testing.assert_array_equal(read_all(given), expected)
    source = open_source("memory://pool", "pool")
    np.testing.assert_array_equal(source.read(48, 52).numpy(), ROWS[48:52])
    source.close()
    assert not own_copies.exists() or not [*own_copies.iterdir()]  # it is in memory already


def test_local_folders_and_patterns_are_pools(tmp_path):
    (tmp_path / "more").mkdir()
    np.save(tmp_path / "a.npy", ROWS[:30])
    np.save(tmp_path / "more" / "b.npy", ROWS[30:])
    (tmp_path / "notes.txt").write_text("no rows")
    for given in (
        tmp_path,
        str(tmp_path),
        f"{tmp_path}/**/*.npy",
        [f"{tmp_path}/a*", tmp_path / "more"],
    ):
        np.testing.assert_array_equal(read_all(given), ROWS)
    np.save(tmp_path / "odd[1].npy", ROWS)
    np.testing.assert_array_equal(read_all(tmp_path / "odd[1].npy"), ROWS)


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ("memory://nothing/rows.npy", FileNotFoundError, r"there is no file '/nothing/rows\.npy'"),
        ("memory://nothing/*.npy", FileNotFoundError, "must have or match files of the formats"),
        ("memory://empty/rows.npy", ValueError, r"rows\.npy is empty"),
        ("memory://empty/rows.txt", ValueError, r"cannot read rows\.txt; the formats are"),
        ("nowhere://bucket/rows.npy", ValueError, "Protocol not known: nowhere"),
        (Path("s3://bucket/rows.npy"), ValueError, "is a URL that lost a slash in a Path"),
        ("s3://bucket/none.npy", FileNotFoundError, "there is no file 'bucket/none.npy'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(given, kind, said, memory, endpoint):
    memory.pipe("/empty/rows.npy", b"")
    memory.pipe("/empty/rows.txt", b"text")
    with pytest.raises(kind, match=f"pool: .*{said}"):
        tm.select(given, TARGETS, 5)


def test_a_server_that_does_not_answer_is_no_missing_file(endpoint, monkeypatch):
    store = fsspec.filesystem("s3", skip_instance_cache=True, endpoint_url="http://127.0.0.1:9",
                              config_kwargs={"retries": {"max_attempts": 0}})  # fmt: skip
    store.retries = 1
    with pytest.raises(OSError, match=r"'bucket/x\.npy' cannot be read: .*Credentials, regions"):
        stores.RemoteFile.at(store, "bucket/x.npy", "pool")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        ImportError, match=r"to read s3://bucket/x\.npy takes fsspec .*tellmost\[r"
    ):
        tm.select("s3://bucket/x.npy", TARGETS, 5)
