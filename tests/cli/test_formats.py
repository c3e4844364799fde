"""Commands read every format and write every format."""

import csv
import gzip
import json

import numpy as np
import pytest

import tellmost as tm


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


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("into", ["jsonl", "parquet", "csv"])
def test_a_pick_says_what_its_record_says_but_for_the_vector(
    kind, into, files, run, records, target_records, expected
):
    write, options = FORMATS[kind]
    options = ["--ignore-column", "n_tokens"] if kind == "csv" else options
    write(files / f"pool.{kind}", records)
    write(files / f"targets.{kind}", target_records)
    more = ["--targets", f"targets.{kind}", "-k", 7, *options, "-o"]
    run("select", f"pool.{kind}", *more, f"picked.{into}")
    picked = read_picks(files / f"picked.{into}")
    for pick, index in zip(picked, expected, strict=True):
        kept = ("id", "n_tokens") if kind == "csv" else records[index].keys() - {"emb"}
        own = {name: records[index][name] for name in kept}
        is_text = "csv" in (kind, into)
        assert str(pick["index"]) == str(index) and "emb" not in pick
        assert {name: pick[name] for name in own} == {
            name: str(value) if is_text else value for name, value in own.items()
        }
    run("select", f"pool.{kind}", *more, f"bare.{into}", "--no-records")
    assert list(read_picks(files / f"bare.{into}")[0]) == list(picked[0])[:7]
    (files / "labelled.csv").write_text("id,label\n" + f"doc-{expected[0]},spam\n")
    seen = ["--observed", f"picked.{into}"] * 2 + ["--observed", "labelled.csv"]
    done = run("select", f"pool.{kind}", *more, "next.csv", *seen)
    assert "7 observed before" in done.stdout


def read_picks(path):
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_parquet_file_of_picks_keeps_the_types_of_its_columns(files, run, records):
    import pyarrow

    times = pyarrow.array(range(len(records)), pyarrow.timestamp("s"))
    table = pyarrow.Table.from_pylist(records).append_column("time", times)
    pyarrow.parquet.write_table(table.append_column("rank", times), files / "pool.parquet")
    run("select", "pool.parquet", "-t", "val.npy", "-k", 5, "-o", "picks.parquet")
    picked = pyarrow.parquet.read_table(files / "picks.parquet")
    assert picked.schema.field("time").type == pyarrow.timestamp("ms") and picked[
        "rank"
    ].to_pylist() == [1, 2, 3, 4, 5]
    assert [moment.timestamp() for moment in picked["time"].to_pylist()] == [
        pytest.approx(index, abs=86_400) for index in picked["index"].to_pylist()
    ]


def test_json_arrays_and_semicolons_are_read(files, run, records, target_records, expected):
    (files / "pool.json").write_text(json.dumps(records, indent=1))
    (files / "targets.json").write_text(json.dumps(target_records))
    columns = [f"x{place}" for place in range(8)]
    with (files / "pool.csv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["id", "text", *columns])
        for record in records:
            numbers = (repr(number).replace(".", ",") for number in record["emb"])
            writer.writerow([record["id"], "one, two, three", *numbers])
    for pool in ("pool.json", "pool.csv"):
        done = run("select", pool, "-t", "targets.json", "-k", 7, "--json").json()
        assert [pick["index"] for pick in done["picks"]] == list(expected), pool
        assert done["picks"][0]["id"] == f"doc-{expected[0]}"
    for text, said in (
        ("{}", "pool.json must be a JSON array of objects; got {}"),
        ('[{"emb": [1]}, 3]', "pool.json, row 1 must be a JSON object"),
        ('[{"emb": [1]},\n {"emb": }]', "is not valid JSON: Expecting value at line 2, column 10"),
        ("[]", "pool.json has no rows"),
    ):
        (files / "pool.json").write_text(text)
        assert said in run("select", "pool.json", "-t", "val.npy", "-k", 2, code=1).stderr


@pytest.mark.parametrize(
    "kind", ["jsonl", "json", "csv", "npy", "npz", "parquet", "csv.gz", "json.gz"]
)
def test_rows_come_from_stdin(kind, files, run, records, expected, monkeypatch):
    is_gzipped, kind = kind.endswith(".gz"), kind.removesuffix(".gz")
    path = files / f"pool.{kind}"
    if kind == "json":
        path.write_text(json.dumps(records))
    else:
        FORMATS[kind][0](path, records)
    options = ["--ignore-column", "n_tokens"] if kind == "csv" else FORMATS.get(kind, (0, []))[1]
    if is_gzipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        done = run("select", "-", "-t", "val.npy", "-k", 7, "--json", *options).json()
    assert [pick["index"] for pick in done["picks"]] == list(expected)
    assert "only one file can come from stdin" in run("select", "-", "-t", "-", code=2).stderr


def test_what_is_near_to_evaluation_data_is_not_picked(files, run, rows, expected):
    first = rows[0][expected[0]]
    np.save(files / "test.npy", np.stack([2 * first, np.ones(8)]))
    more = ["-k", 7, "--avoid", "test.npy", "--json"]
    done = run("select", "pool.npy", "-t", "val.npy", *more)
    assert "1 of 120 rows are near to one of the 2 rows of test.npy (cosine 0.98)" in done.stderr
    assert expected[0] not in [pick["index"] for pick in done.json()["picks"]]
    wide = run("select", "pool.npy", "-t", "val.npy", *more, "--avoid-cosine", 0.8)
    mask = tm.near(rows[0], np.stack([first, np.ones(8)]), 0.8)
    assert f"{mask.sum()} of 120 rows are near" in wide.stderr
    assert not mask[[pick["index"] for pick in wide.json()["picks"]]].any()
    assert (
        "leave none"
        in run("select", "pool.npy", "-t", "val.npy", *more, "--avoid", "pool.npy", code=1).stderr
    )


def test_tasks_for_label_studio_can_be_imported(files, run, records, target_records, expected):
    write_jsonl(files / "pool.jsonl", records)
    write_jsonl(files / "targets.jsonl", target_records)
    more = ["--targets", "targets.jsonl", "--text-field", "text", "-k", 7]
    run("select", "pool.jsonl", *more, "--export", "label-studio", "-o", "tasks.json")
    tasks = json.loads((files / "tasks.json").read_text())
    assert [task["data"]["text"] for task in tasks] == [f"text {i}" for i in expected]
    assert [task["data"]["pool_id"] for task in tasks] == [f"doc-{i}" for i in expected]


def test_pick_label_import_pick_again(files, run, records, target_records):
    """What Label Studio and Argilla export counts as observed, where somebody has labelled it."""
    write_jsonl(files / "pool.jsonl", records)
    write_jsonl(files / "targets.jsonl", target_records)
    basic = ["select", "pool.jsonl", "-t", "targets.jsonl", "--text-field", "text", "-k", 6]
    run(*basic, "--export", "label-studio", "-o", "tasks.json")
    run(*basic, "--export", "argilla", "-o", "records.json")
    tasks = json.loads((files / "tasks.json").read_text())
    for number, task in enumerate(tasks, start=500):  # the tool's own numbers
        result = [{"value": {"choices": ["spam"]}, "type": "choices", "from_name": "label"}]
        skipped = {"result": [], "was_cancelled": True}
        answers = [[skipped], [], [skipped, {"result": result}]][min(number - 500, 2)]
        task.update(id=number, annotations=answers)
    (files / "studio.json").write_text(json.dumps(tasks))
    argilla = json.loads((files / "records.json").read_text())
    assert [record["fields"] for record in argilla] == [
        {"text": task["data"]["text"]} for task in tasks
    ]
    for number, record in enumerate(argilla):  # as Argilla writes them
        given = {"label": [{"value": "spam", "user_id": "7"}]} if number > 1 else {}
        record.update(metadata={}, suggestions={}, responses=given, vectors={}, _server_id="x")
    (files / "argilla.json").write_text(json.dumps(argilla))
    ids = [task["data"]["pool_id"] for task in tasks]
    (files / "ids.txt").write_text("\n".join(ids[2:]))
    (files / "all.txt").write_text("\n".join(ids))
    expected = picks_of(run(*basic, "--observed", "ids.txt", "--json"))
    for name in ("studio.json", "argilla.json"):
        done = run(*basic, "--observed", name, "--json")
        assert picks_of(done) == expected
        assert f"2 of the 6 records of {name} are not labelled" in done.stderr
    flat = [{**task["data"], "id": task["id"], "sentiment": "spam"} for task in tasks]
    (files / "flat.json").write_text(json.dumps(flat))
    for name in ("flat.json", "tasks.json", "records.json"):
        done = run(*basic, "--observed", name, "--json")
        assert picks_of(done) == picks_of(run(*basic, "--observed", "all.txt", "--json"))


STUDIO = """annotation_id,annotator,created_at,id,index,lead_time,pool_id,sentiment,text,updated_at
1000,a@b.c,2026-01-01,1,0,1.5,{0},yes,some,2026-01-01
1001,d@e.f,2026-01-02,1,0,2.5,{0},no,some,2026-01-02
1002,a@b.c,2026-01-01,2,1,0.5,{1},,some,2026-01-01
,,,3,2,,{2},,some,
"""


def test_flat_exports_of_label_studio_and_the_status_of_argillas_records_count(
    files, run, records
):
    """These are the columns and fields that label-studio-sdk 2.1.2 and argilla 2.8.0 write."""
    write_jsonl(files / "pool.jsonl", records)
    basic = ["select", "pool.jsonl", "--rule", "k-center", "-k", 3, "--json"]
    ids = [records[row]["id"] for row in range(4)]
    (files / "ids.txt").write_text("\n".join(ids[:2]))
    expected = picks_of(run(*basic, "--observed", "ids.txt"))
    (files / "studio.csv").write_text(STUDIO.format(*ids))
    lines = list(csv.DictReader(STUDIO.format(*ids).splitlines()))
    minimal = [{name: cell or None for name, cell in line.items()} for line in lines]
    (files / "studio.json").write_text(json.dumps(minimal))
    states = ["completed", "completed", "pending", "pending"]
    answers = [{"label": [{"value": "yes", "user_id": "7"}]}] * 3 + [{}]  # one is a draft
    argilla = [
        {"id": key, "fields": {"text": "some"}, "metadata": {}, "suggestions": {}}
        | {"responses": given, "vectors": {}, "status": state, "_server_id": None}
        for key, given, state in zip(ids, answers, states, strict=True)
    ]
    (files / "argilla.json").write_text(json.dumps(argilla))
    for name, said in (
        ("studio.csv", "1 of the 4"),
        ("studio.json", "1 of the 4"),
        ("argilla.json", "2 of the 4"),
    ):
        done = run(*basic, "--observed", name)
        assert f"{said} records of {name} are not labelled" in done.stderr
        assert picks_of(done) == expected


def picks_of(done):
    return [pick["id"] for pick in done.json()["picks"]]


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
    first = run("select", "train.jsonl", *more, "-k", 5, "-o", "picked.jsonl")
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
