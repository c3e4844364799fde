"""Commands read every format and write every format."""

import csv
import json

import numpy as np
import pytest

import tellmost as tm
from tellmost.cli.reading import read_records
from tellmost.rows.sources import open_source


@pytest.fixture
def expected(rows):
    return tm.select(rows[0], rows[1], 7).indices.tolist()


def write_npz(path, records):
    np.savez(path, emb=vectors(records), other=np.zeros(3))


def write_npy(path, records):
    np.save(path, vectors(records))


def write_safetensors(path, records):
    pytest.importorskip("safetensors")
    from safetensors.numpy import save_file

    save_file({"emb": vectors(records)}, path)


def write_jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_parquet(path, records):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.Table.from_pylist(records), path)


def write_csv(path, records):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        width = len(records[0]["emb"])
        names = [name for name in records[0] if name not in ("emb", "label", "source", "text")]
        writer.writerow([*names, *(f"x{i}" for i in range(width))])
        for record in records:
            writer.writerow([*(record[name] for name in names), *record["emb"]])


def vectors(records):
    return np.array([record["emb"] for record in records], dtype=np.float32)


FORMATS = {
    "npy": (write_npy, []),
    "npz": (write_npz, ["--vector-column", "emb"]),
    "safetensors": (write_safetensors, []),
    "jsonl": (write_jsonl, ["--vector-column", "emb"]),
    "parquet": (write_parquet, ["--vector-column", "emb"]),
    "csv": (write_csv, ["--cost-column", "n_tokens"]),  # a cost is no feature
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_pool_of_any_format_gives_the_same_picks(
    kind, files, run, records, target_records, expected
):
    write, options = FORMATS[kind]
    write(files / f"pool.{kind}", records)
    write(files / f"targets.{kind}", target_records)
    if kind == "csv":
        options = [*options, "--budget", "1e9"]
        expected = None  # ranked by gain per cost
    more = ["--targets", f"targets.{kind}", "-k", 7, *options, "--json"]
    picks = run("select", f"pool.{kind}", *more).json()["picks"]
    if expected is not None:
        assert [pick["index"] for pick in picks] == expected
    has_ids = kind in ("jsonl", "parquet", "csv")
    for pick in picks:
        assert pick["id"] == (f"doc-{pick['index']}" if has_ids else pick["index"])
        assert str(pick["nearest_target"]).startswith("q-" if has_ids else tuple("0123456789"))


def test_a_csv_of_numbers_alone_needs_no_header(files, run, rows, expected):
    np.savetxt(files / "pool.csv", rows[0], delimiter=",", fmt="%.9g")
    np.savetxt(files / "val.csv", rows[1], delimiter=",", fmt="%.9g")
    done = run("select", "pool.csv", "--targets", "val.csv", "-k", 7, "--json").json()
    assert [pick["index"] for pick in done["picks"]] == expected
    assert [pick["id"] for pick in done["picks"]] == expected  # rows from 0


def test_columns_of_numbers_are_matched_by_name(files, run, rows, expected):
    names = [f"x{i}" for i in range(8)]
    turned = names[::-1]
    for name, header, array in (("p", names, rows[0]), ("t", turned, rows[1][:, ::-1])):
        lines = [",".join(header), *(",".join(map(repr, row.tolist())) for row in array)]
        (files / f"{name}.csv").write_text("\n".join(lines) + "\n")
    done = run("select", "p.csv", "--targets", "t.csv", "-k", 7, "--json").json()
    assert [pick["index"] for pick in done["picks"]] == expected
    text = (files / "t.csv").read_text().replace("x3", "other")
    (files / "t.csv").write_text(text)
    failed = run("select", "p.csv", "--targets", "t.csv", "-k", 7, code=1)
    assert "x3 only in p.csv, and other only in t.csv" in failed.stderr


def test_costs_of_a_column_are_kept_to(files, run, records, target_records):
    write_parquet(files / "data.parquet", records)
    write_parquet(files / "tgt.parquet", target_records)
    options = ["--vector-column", "emb", "--cost-column", "n_tokens", "--budget", "55"]
    run("select", "data.parquet", "--targets", "tgt.parquet", *options, "-o", "picks.parquet")
    import pyarrow.parquet

    picks = pyarrow.parquet.read_table(files / "picks.parquet").to_pylist()
    assert 0 < sum(records[pick["index"]]["n_tokens"] for pick in picks) <= 55
    assert [pick["id"] for pick in picks] == [f"doc-{pick['index']}" for pick in picks]


def test_groups_of_a_column_are_kept_to(files, run, records, target_records):
    write_jsonl(files / "pool.jsonl", records)
    write_jsonl(files / "targets.jsonl", target_records)
    more = ["--targets", "targets.jsonl", "-k", 10, "--group-column", "source"]
    done = run("select", "pool.jsonl", *more, "--max-per-group", 2, "--json").json()
    counts = np.bincount([pick["index"] % 5 for pick in done["picks"]])
    assert counts.tolist() == [2, 2, 2, 2, 2]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv", "npy"])
def test_the_pools_own_records_of_the_picks_can_be_written(
    kind, files, run, records, target_records, expected
):
    write, options = FORMATS[kind]
    options = ["--ignore-column", "n_tokens"] if kind == "csv" else options
    write(files / f"pool.{kind}", records)
    write(files / f"targets.{kind}", target_records)
    more = ["--targets", f"targets.{kind}", "-k", 7, "--records", "-o", f"picked.{kind}"]
    run("select", f"pool.{kind}", *more, *options)
    if kind == "jsonl":
        lines = (files / "picked.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [records[i] for i in expected]
    elif kind == "parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(files / "picked.parquet")
        assert table.to_pylist() == [records[i] for i in expected]
    elif kind == "csv":
        with (files / "picked.csv").open(newline="") as file:
            picked = list(csv.DictReader(file))
        assert len(picked) == 7 and set(picked[0]) >= {"id", "n_tokens", "x0"}
    else:
        np.testing.assert_array_equal(np.load(files / "picked.npy"), vectors(records)[expected])


def test_tasks_for_label_studio_can_be_imported(files, run, records, target_records, expected):
    write_jsonl(files / "pool.jsonl", records)
    write_jsonl(files / "targets.jsonl", target_records)
    more = ["--targets", "targets.jsonl", "--text-field", "text", "-k", 7]
    run("select", "pool.jsonl", *more, "--export", "label-studio", "-o", "tasks.json")
    tasks = json.loads((files / "tasks.json").read_text())
    assert [task["data"]["text"] for task in tasks] == [f"text {i}" for i in expected]
    assert [task["data"]["id"] for task in tasks] == [f"doc-{i}" for i in expected]


EMBEDDER = """
import numpy as np

def embed(texts):
    with open("calls.txt", "a") as file:
        file.write(f"{len(texts)}\\n")
    numbers = np.array([float(text.split()[-1]) for text in texts])
    return np.stack([np.cos(numbers), np.sin(numbers), np.ones_like(numbers)], axis=1)
"""


def test_texts_are_embedded_once_by_a_function_of_the_users(files, run, records):
    write_jsonl(files / "train.jsonl", records)
    write_jsonl(files / "prompts.jsonl", [{"text": "text 3"}, {"text": "text 5"}])
    (files / "mine.py").write_text(EMBEDDER)
    more = ["--targets", "prompts.jsonl", "--text-field", "text", "--embed", "mine:embed"]
    first = run("select", "train.jsonl", *more, "-k", 5, "-o", "picked.jsonl", "--records")
    calls = (files / "calls.txt").read_text()
    assert sum(map(int, calls.split())) == len(records) + 2
    assert first.returncode == 0 and len((files / "picked.jsonl").read_text().splitlines()) == 5
    run("select", "train.jsonl", *more, "-k", 6, "--json")
    assert (files / "calls.txt").read_text() == calls  # nothing was embedded again


def test_texts_are_embedded_by_a_model_of_the_cache(files, run, minilm_home, monkeypatch):
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(minilm_home))
    texts = ["my card was stolen", "someone took my card", "what is the exchange rate", "top up"]
    write_jsonl(files / "train.jsonl", [{"id": i, "text": text} for i, text in enumerate(texts)])
    write_jsonl(files / "prompts.jsonl", [{"text": "I lost my card"}])
    more = ["--targets", "prompts.jsonl", "--text-field", "text", "--embed", "all-minilm"]
    more += ["--kernel", "linear"]  # four texts have no mean that is worth subtracting
    done = run("select", "train.jsonl", *more, "-k", 2, "--json").json()
    assert {pick["id"] for pick in done["picks"]} == {0, 1}
    assert done["settings"]["features"] == 384


@pytest.mark.parametrize("kind", ["npy", "safetensors", "parquet"])
def test_records_of_several_files_are_written_in_their_format(kind, files, run, records, expected):
    write, _ = FORMATS[kind]
    bare = [{"emb": record["emb"]} for record in records]
    for name, some in (("a", bare[:50]), ("b", bare[50:])):
        write(files / f"{name}.{kind}", some)
    more = ["--targets", "val.npy", "-k", 7, "--records", "-o", f"picked.{kind}"]
    run("select", f"a.{kind}", f"b.{kind}", *more)
    source = open_source(read_records(files / f"picked.{kind}").vectors, "pool")
    np.testing.assert_array_equal(source.read(0, 7), vectors(records)[expected])
