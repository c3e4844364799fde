"""Damaged files of every kind end in a ValueError, whatever their bytes have become.

Bytes are changed, lost and cut off at random, by fixed seeds. A file whose damage nobody can
tell, such as another digit in a number, is read.
"""

import gzip
import json
import re

import numpy as np
import pytest

import tellmost as tm
from tellmost.rows.record_files import Wanted, read_records
from tellmost.rows.sources import open_source
from tellmost.rows.text_embeddings import load_kept

ROUNDS = 25
RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(40, 5))
TARGETS = POOL[:3] + 0.1


def write_npy(path):
    np.save(path, POOL)


def write_npz(path):
    np.savez(path, rows=POOL)


def write_compressed(path):
    np.savez_compressed(path, rows=POOL)


def write_safetensors(path):
    about = {"dtype": "F64", "shape": POOL.shape, "data_offsets": [0, POOL.nbytes]}
    header = json.dumps({"rows": about}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + POOL.tobytes())


def write_parquet(path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"id": [f"a{i}" for i in range(len(POOL))], "rows": list(POOL)})
    parquet.write_table(table, path, row_group_size=15)


def in_csv():
    lines = (f'{i},{x[0]},{x[1]},"{x[2]}"\n' for i, x in enumerate(POOL))
    return f"id,a,b,c\n{''.join(lines)}".encode()


def in_jsonl():
    return "".join(f"{json.dumps({'rows': x.tolist()})}\n" for x in POOL).encode()


def choose(**options):
    return tm.select(POOL, TARGETS, 6, candidates=np.arange(35), observed=[1], **options)


def learner():
    return tm.ActiveLearner(tm.kernels.Gaussian(1.0), pool=POOL, targets=TARGETS, noise_std=0.1)


def optimizer():
    return tm.SafeOptimizer(
        POOL, objective=tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1), safe_seed=[3], beta=1.5
    )


def write_learner(path):
    told = learner()
    told.tell([1, 2, 3], [1.0, 2.0, 3.0])
    told.save(path)


def write_optimizer(path):
    told = optimizer()
    told.tell(row=3, objective=1.0)
    told.tell(row=4, objective=1.2)
    told.save(path)


def read_table(path):
    read_all(read_records(path).vectors)


def read_all(rows):
    source = open_source(rows, "pool")
    source.read(0, source.shape[0])


FILES = {
    "a.npy": (write_npy, read_all),
    "a.npz": (write_npz, read_table),
    "compressed.npz": (write_compressed, read_table),
    "a.safetensors": (write_safetensors, read_all),
    "a.parquet": (write_parquet, read_table),
    "a.csv": (lambda path: path.write_bytes(in_csv()), read_table),
    "a.jsonl": (lambda path: path.write_bytes(in_jsonl()), read_table),
    "a.csv.gz": (lambda path: path.write_bytes(gzip.compress(in_csv())), read_table),
    "a.jsonl.gz": (lambda path: path.write_bytes(gzip.compress(in_jsonl())), read_table),
    "a.tellmost": (lambda path: choose(floor=True).save(path), tm.Selection.load),
    "checkpoint": (
        lambda path: choose(checkpoint=path),
        lambda path: choose(checkpoint=path),
    ),
    "learner": (write_learner, lambda path: learner().load(path)),
    "optimizer": (write_optimizer, lambda path: optimizer().load(path)),
}


def damaged(content, rng):
    """The content with some bytes changed, lost, or cut off at the end."""
    data = bytearray(content)
    match rng.integers(4):
        case 0:
            return bytes(data[: rng.integers(len(data))])
        case 1:
            start = rng.integers(len(data))
            del data[start : start + rng.integers(1, 30)]
        case 2:
            for place in rng.integers(len(data), size=10):
                data[place] = rng.integers(256)
        case 3:  # where most formats say what follows
            data[rng.integers(min(len(data), 200))] ^= 1 << rng.integers(8)
    return bytes(data)


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_of_every_kind_end_in_one_error(name, tmp_path):
    write, read = FILES[name]
    path, rng, refused = tmp_path / name, np.random.default_rng(1), []
    write(path)
    content = path.read_bytes()
    read(path)
    for _ in range(ROUNDS):
        path.write_bytes(damaged(content, rng))
        try:
            read(path)
        except ValueError as error:
            refused.append(type(error))
    assert len(refused) >= ROUNDS // 4
    assert set(refused) == {ValueError}  # and none of its kinds, such as UnicodeDecodeError


SHAPES = {"negative": (-40, 5), "huge": (2**62, 5), "both": (-1, -(10**9))}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_that_cannot_be_is_refused(shape, tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(POOL.tobytes())
    with pytest.raises(ValueError, match=r"pool: a\.npy is damaged: (sizes|it has)"):
        read_all(tmp_path / "a.npy")


def test_links_in_a_circle_are_no_file(tmp_path):
    one, other = tmp_path / "one.npy", tmp_path / "other.npy"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(OSError, match=r"pool: .*one\.npy' is a link in a circle of links"):
        tm.select(one, TARGETS, 3, kernel="linear")
    with pytest.raises(OSError, match=r"cannot be written: .*symbolic links"):
        choose().save(one)
    with pytest.raises(OSError, match=r"checkpoint: .* is a link in a circle of links"):
        choose(checkpoint=one)


def test_a_line_without_end_is_read_no_further_than_a_line_can_be_long(tmp_path, monkeypatch):
    for module in ("text_tables", "text_formats"):
        monkeypatch.setattr(f"tellmost.rows.{module}.LONGEST_LINE", 2**16)
    for name, content in (("a.jsonl", in_jsonl()), ("a.csv", in_csv())):
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(content + b"1" * 2**20))
        with pytest.raises(ValueError, match=rf"{re.escape(name)}\.gz: a line must be shorter"):
            read_table(path)
    path.write_bytes(gzip.compress(in_csv() + b'"' + b"1,2\n" * 2**12))
    with pytest.raises(ValueError, match=r"a row must be shorter .* line 42 is not. Close its"):
        read_table(path)


def test_kept_embeddings_that_claim_more_than_there_is_are_made_again(tmp_path):
    header = {"descr": "<f4", "fortran_order": False, "shape": (3, 10**12)}
    with (tmp_path / "kept.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    assert len(load_kept(tmp_path / "kept.npy", 3)) == 0


def test_an_array_that_memory_has_no_room_for_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", rows=np.zeros((1000, 1000)))
    monkeypatch.setattr("tellmost.running.reading.available", lambda device: 10**6)
    with pytest.raises(ValueError, match=r"rows\.npy takes 8 MB, and memory has room for 1 MB"):
        read_table(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"too large: rows\.npy .* has room for 2 MB"):
        read_records(tmp_path / "a.npz", wanted=Wanted(memory=2 * 10**6))


def test_rows_of_text_that_memory_has_no_room_for_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"0,1\n" * 1000))
    monkeypatch.setattr("tellmost.rows.text_tables.available", lambda device: 16 * 100)
    with pytest.raises(ValueError, match=r"a\.csv\.gz: the numbers up to line 53 take half"):
        read_table(tmp_path / "a.csv.gz")
    with pytest.raises(ValueError, match=r"the numbers up to line 103 take half of the memory"):
        read_records(tmp_path / "a.csv.gz", wanted=Wanted(memory=16 * 200))
