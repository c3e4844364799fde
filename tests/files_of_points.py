"""The same points in a file of every format that can be read."""

import csv
import json

import numpy as np
import pytest

N, D = 12, 3
ROWS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
IDS = [f"doc-{number}" for number in range(N)]
TEXTS = [f'sentence {number}, with "quotes"\nand <b>lines</b>' for number in range(N)]


def write_npy(folder, rows=ROWS):
    np.save(folder / "pool.npy", rows)
    return folder / "pool.npy"


def write_npz(folder, rows=ROWS):
    np.savez(folder / "pool.npz", vectors=rows)
    return folder / "pool.npz"


def write_safetensors(folder, rows=ROWS):
    pytest.importorskip("safetensors.numpy").save_file(
        {"vectors": rows}, folder / "pool.safetensors"
    )
    return folder / "pool.safetensors"


def write_parquet(folder, rows=ROWS, ids=IDS, name="pool.parquet", **columns):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    vectors = arrow.array(list(rows), type=arrow.list_(arrow.float32()))
    named = {} if ids is None else {"id": list(ids)}
    table = arrow.table({**named, "vector": vectors, **columns})
    parquet.write_table(table, folder / name, row_group_size=5)
    return folder / name


def write_csv(folder, rows=ROWS, ids=IDS, name="pool.csv", **columns):
    delimiter = "\t" if name.endswith(".tsv") else ","
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        named = {} if ids is None else {"id": ids}
        writer.writerow([*named, *(f"x{place}" for place in range(rows.shape[1])), *columns])
        for number, row in enumerate(rows.tolist()):
            others = [values[number] for values in columns.values()]
            writer.writerow([*(some[number] for some in named.values()), *row, *others])
    return folder / name


def write_tsv(folder, rows=ROWS, ids=IDS):
    return write_csv(folder, rows, ids, "pool.tsv")


def write_jsonl(folder, rows=ROWS, ids=IDS, name="pool.jsonl", **columns):
    with (folder / name).open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows.tolist()):
            named = {} if ids is None else {"id": ids[number]}
            others = {key: values[number] for key, values in columns.items()}
            file.write(json.dumps({**named, "vector": row, **others}) + "\n")
    return folder / name


ARRAYS = {"npy": write_npy, "npz": write_npz, "safetensors": write_safetensors}
TABLES = {"parquet": write_parquet, "csv": write_csv, "tsv": write_tsv, "jsonl": write_jsonl}
