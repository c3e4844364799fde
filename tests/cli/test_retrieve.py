"""``tellmost retrieve`` writes for each query what the Retriever picks."""

import json

import numpy as np

import tellmost as tm


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def test_each_query_gets_a_line_with_the_picks_of_the_retriever(files, run, rows):
    pool, queries, _ = rows
    done = run("retrieve", "pool.npy", "--queries", "val.npy", "-k", 7, "-o", "picks.jsonl")
    assert "6 queries" in done.stdout
    lines = lines_of((files / "picks.jsonl").read_text())
    gains, indices = tm.Retriever(pool).search(queries, 7)
    assert [line["query"] for line in lines] == list(range(6))
    assert [line["ids"] for line in lines] == indices.tolist()
    assert [line["gains"] for line in lines] == gains.tolist()


def test_ids_texts_and_rows_that_may_be_picked_are_those_of_the_files(
    files, run, records, target_records
):
    for name, some in (("pool.jsonl", records), ("q.jsonl", target_records)):
        (files / name).write_text("".join(f"{json.dumps(record)}\n" for record in some))
    (files / "not.txt").write_text("doc-0\ndoc-3\n")
    options = ["--vector-column", "emb", "--text-field", "text", "--exclude", "not.txt", "-k", 4]
    done = run("retrieve", "pool.jsonl", "-q", "q.jsonl", *options, "--rule", "MMR(relevance=0.9)")
    pool = np.array([record["emb"] for record in records], dtype=np.float32)
    queries = np.array([record["emb"] for record in target_records], dtype=np.float32)
    allowed = np.setdiff1d(np.arange(len(pool)), [0, 3])
    r = tm.Retriever(pool, rule=tm.rules.MMR(relevance=0.9))
    _, indices = r.search(queries, 4, allowed=allowed)
    for line, query, picks in zip(lines_of(done.stdout), target_records, indices, strict=True):
        assert line["query"] == query["id"]
        assert line["ids"] == [f"doc-{row}" for row in picks]
        assert line["texts"] == [f"text {row}" for row in picks]


def test_a_query_that_stops_has_fewer_rows_and_mistakes_are_about_usage(files, run):
    done = run("retrieve", "pool.npy", "-q", "val.npy", "--min-gain-share", 0.5, "--nearest", 0)
    assert all(0 < len(line["ids"]) < 10 for line in lines_of(done.stdout))
    done = run("retrieve", "pool.npy", "-q", "val.npy", "--rule", "k-center", code=2)
    assert "rule must be one that compares rows with a query" in done.stderr
    done = run("retrieve", "pool.npy", "-q", "val.npy", "-o", "picks.csv", code=2)
    assert "--output writes .jsonl" in done.stderr
