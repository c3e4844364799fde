"""``tellmost select`` on real files."""

import csv
import json

import numpy as np
import pytest

import tellmost as tm
from files_of_points import write_csv, write_jsonl

PICKS = ["rank", "index", "id", "gain", "uncertainty", "nearest_target", "similarity"]


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def expected(rows):
    return tm.select(rows[0], rows[1], 12)


def test_picks_go_to_a_csv_file(files, run, expected):
    done = run("select", "pool.npy", "--targets", "val.npy", "-k", 12, "-o", "picks.csv")
    picks = read_csv(files / "picks.csv")
    assert list(picks[0]) == PICKS
    assert [int(pick["rank"]) for pick in picks] == list(range(1, 13))
    assert [int(pick["index"]) for pick in picks] == expected.indices.tolist()
    assert [pick["id"] for pick in picks] == [pick["index"] for pick in picks]
    np.testing.assert_allclose([float(p["gain"]) for p in picks], expected.gains, rtol=1e-9)
    left = [float(pick["uncertainty"]) for pick in picks]
    np.testing.assert_allclose(left, expected.uncertainty[1:], rtol=1e-9)
    assert str(expected) in done.stdout and "written: picks.csv" in done.stdout
    assert "12 picks exceed the 8 features" in done.stderr
    assert done.stderr.count("\n") == 1  # quiet otherwise: it is no terminal


def test_the_nearest_target_is_the_one_of_largest_cosine(files, run, rows):
    more = ["--kernel", "linear", "-o", "picks.csv"]
    run("select", "pool.npy", "--targets", "val.npy", "-k", 12, *more)
    pool, targets, _ = (np.asarray(part, dtype=np.float64) for part in rows)
    for pick in read_csv(files / "picks.csv"):
        row = pool[int(pick["index"])]
        cosines = targets @ row / np.linalg.norm(row) / np.linalg.norm(targets, axis=1)
        assert int(pick["nearest_target"]) == cosines.argmax()
        assert float(pick["similarity"]) == pytest.approx(cosines.max())


def test_without_a_file_picks_go_to_stdout_and_words_to_stderr(files, run, expected):
    done = run("select", "pool.npy", "-t", "val.npy", "-k", 12)
    lines = list(csv.DictReader(done.stdout.splitlines()))
    assert [int(line["index"]) for line in lines] == expected.indices.tolist()
    assert str(expected) in done.stderr


def test_json_is_one_object_with_the_picks(files, run, expected):
    done = run("select", "pool.npy", "-t", "val.npy", "-k", 12, "--floor", "--json").json()
    assert [pick["index"] for pick in done["picks"]] == expected.indices.tolist()
    assert done["picked"] == 12 and done["stop_reason"] == "k reached"
    assert done["ended_early"] is False
    assert done["uncertainty_after"] == pytest.approx(expected.uncertainty[-1])
    assert done["floor"] <= done["whole_pool"] < done["uncertainty_after"]
    assert done["settings"]["noise_ratio"] == pytest.approx(expected.settings["noise_ratio"])
    assert done["settings"]["normalize"] == "center+unit"


def test_json_with_a_file_names_it(files, run):
    done = run("select", "pool.npy", "-t", "val.npy", "-k", 3, "-o", "a.jsonl", "--json").json()
    assert done["written"] == ["a.jsonl"] and "picks" not in done
    first = json.loads((files / "a.jsonl").read_text().splitlines()[0])
    assert list(first) == PICKS and first["rank"] == 1


def test_a_saved_selection_holds_everything(files, run, expected):
    run("select", "pool.npy", "-t", "val.npy", "-k", 12, "-o", "picks.tellmost")
    again = tm.Selection.load(files / "picks.tellmost")
    np.testing.assert_array_equal(again.indices, expected.indices)
    np.testing.assert_array_equal(again.target_variance, expected.target_variance)


def test_options_mean_what_they_mean_in_python(files, run, rows):
    noise = np.linspace(0.1, 2.0, len(rows[0]))
    np.save(files / "noise.npy", noise)
    (files / "weights.csv").write_text("weight\n" + "\n".join("123456") + "\n")
    options = ["--rule", "mm-itl", "--normalize", "center+unit", "--noise-std", "noise.npy"]
    options += ["--target-weights", "weights.csv", "--kernel", "Matern(nu=1.5, lengthscale=2.0)"]
    done = run("select", "pool.npy", "-t", "val.npy", "-k", 9, *options, "--json").json()
    chosen = tm.select(
        rows[0],
        rows[1],
        9,
        rule="mm-itl",
        normalize="center+unit",
        noise_std=noise,
        target_weights=[1, 2, 3, 4, 5, 6],
        kernel=tm.kernels.Matern(nu=1.5, lengthscale=2.0),
    )
    assert [pick["index"] for pick in done["picks"]] == chosen.indices.tolist()


def test_a_rule_without_targets_needs_none(files, run, rows):
    done = run("select", "pool.npy", "-k", 5, "--rule", "k-center", "--json").json()
    chosen = tm.select(rows[0], k=5, rule="k-center")
    assert [pick["index"] for pick in done["picks"]] == chosen.indices.tolist()
    assert done["picks"][0]["nearest_target"] is None


def test_several_files_are_one_pool(files, run, rows, expected):
    np.save(files / "a.npy", rows[0][:50])
    np.save(files / "b.npy", rows[0][50:])
    run("select", "a.npy", "b.npy", "--targets", "val.npy", "-k", 12, "-o", "picks.csv")
    picks = read_csv(files / "picks.csv")
    assert [int(pick["index"]) for pick in picks] == expected.indices.tolist()


def test_rounds_go_on_where_the_last_one_ended(files, run, expected):
    """Two rounds of six are one of twelve; what is excluded is never picked."""
    run("select", "pool.npy", "-t", "val.npy", "-k", 6, "-o", "round1.csv")
    two = run("select", "pool.npy", "-t", "val.npy", "-k", 6, "--observed", "round1.csv", "--json")
    assert [p["index"] for p in two.json()["picks"]] == expected.indices[6:].tolist()
    (files / "rejected.csv").write_text(f"id\n{expected.indices[6]}\n{expected.indices[8]}\n")
    more = ["--observed", "round1.csv", "--exclude", "rejected.csv"]
    three = run("select", "pool.npy", "-t", "val.npy", "-k", 6, *more, "--json").json()
    picked = {pick["index"] for pick in three["picks"]}
    assert not picked & {*expected.indices[:7].tolist(), int(expected.indices[8])}


def test_several_rounds_may_be_observed(files, run, expected):
    for number, part in enumerate((expected.indices[:4], expected.indices[4:8])):
        (files / f"r{number}.txt").write_text("".join(f"{i}\n" for i in part))
    more = ["--observed", "r0.txt", "--observed", "r1.txt"]
    done = run("select", "pool.npy", "-t", "val.npy", "-k", 4, *more, "--json").json()
    assert [pick["index"] for pick in done["picks"]] == expected.indices[8:].tolist()


def test_an_earlier_selection_is_observed_with_what_it_knew(files, run, expected):
    run("select", "pool.npy", "-t", "val.npy", "-k", 4, "-o", "1.tellmost")
    more = ["-k", 4, "--observed", "1.tellmost", "-o", "2.tellmost"]
    run("select", "pool.npy", "-t", "val.npy", *more)
    done = run(
        "select", "pool.npy", "-t", "val.npy", "-k", 4, "--observed", "2.tellmost", "--json"
    )
    assert [p["index"] for p in done.json()["picks"]] == expected.indices[8:].tolist()


def test_only_candidates_are_picked(files, run):
    (files / "may.txt").write_text("7\n8\n9\n")
    more = ["-k", 3, "--candidates", "may.txt", "--json"]
    done = run("select", "pool.npy", "-t", "val.npy", *more).json()
    assert {pick["index"] for pick in done["picks"]} == {7, 8, 9}


def test_a_run_that_finds_nothing_more_to_gain_says_so_by_its_exit_code(files, run):
    more = ["-k", 100, "--min-gain-share", 0.2, "--json"]
    done = run("select", "pool.npy", "-t", "val.npy", *more, code=3).json()
    assert done["ended_early"] and 0 < done["picked"] < 100
    assert "min_gain_share" in done["stop_reason"]


def test_the_cost_is_told_and_nothing_affordable_is_no_success(files, run, rows):
    (files / "cost.csv").write_text("cost\n" + "20\n" * len(rows[0]))
    more = ["--cost", "cost.csv", "-o", "picks.csv", "--budget"]
    done = run("select", "pool.npy", "-t", "val.npy", *more, 90)
    assert "cost 80 of 90" in done.stdout
    done = run("select", "pool.npy", "-t", "val.npy", *more, 10, code=3)
    assert "cost 0 of 10; the cheapest row costs 20" in done.stdout
    assert (files / "picks.csv").read_text() == ",".join(PICKS) + "\n"


def test_rounds_and_columns_are_told(files, run, rows):
    np.savetxt(
        files / "pool.csv", rows[0], delimiter=",", header=",".join("abcdefgh"), comments=""
    )
    (files / "seen.txt").write_text("2\n3\n")
    (files / "bad.txt").write_text("9\n")
    more = ["-k", 2, "--observed", "seen.txt", "--exclude", "bad.txt", "-o", "picks.csv"]
    done = run("select", "pool.csv", "-t", "val.npy", *more)
    assert "2 observed before, 1 rows left out" in done.stdout
    assert "features: the 8 columns a:h" in done.stdout


@pytest.fixture
def labelled(files, rows):
    """The pool in a file with the columns id, a to h, and numbers as labels. val.csv has none."""
    pool, targets, kind = rows
    columns = {"y": kind.tolist(), "cost": [2] * len(kind)}
    for name, some, more in (("pool.csv", pool, columns), ("val.csv", targets, {})):
        path = write_csv(files, some, range(100, 100 + len(some)), name, **more)
        header, body = path.read_text().split("\n", 1)
        for place, letter in enumerate("abcdefgh"):
            header = header.replace(f"x{place}", letter)
        path.write_text(f"{header}\n{body}")
    return files


@pytest.mark.parametrize(
    "options",
    [
        ["--exclude-columns", "y"],
        ["--ignore-column", "y"],
        ["--exclude-columns", "y,b:c", "--features", "a:h", "--features", "b,c"],
        ["--features", "a:h"],
        ["--label-column", "y"],
        ["--features", "h,a:g"],
    ],
    ids=" ".join,
)
def test_features_are_what_is_named_or_what_is_left(options, labelled, run, expected):
    more = ["-k", 12, "--cost-column", "cost", "--json", *options]
    done = run("select", "pool.csv", "-t", "val.csv", *more).json()
    has_all = "y,b:c" not in options
    columns = list("abcdefgh" if has_all else "adefgh")
    assert sorted(done["feature_columns"]) == columns
    assert ([pick["index"] for pick in done["picks"]] == expected.indices.tolist()) == has_all


def test_what_is_named_like_a_label_is_no_feature_unless_one_says_so(labelled, run):
    """The error shows two ways out, and both of them work."""
    for command in (
        ["select", "pool.csv", "-t", "val.csv", "-k", 3],
        ["estimate", "pool.csv", "-t", "val.csv", "-k", 3],
        ["compare", "pool.csv", "-t", "val.csv", "-k", 3, "--seeds", 1],
        ["check", "pool.csv"],
    ):
        said = run(*command, "--exclude-columns", "cost", code=1).stderr
        assert "column 'y' is named like one" in said
        assert "Leave it out, --features a:h, or" in said and "--features a:y." in said
    check = ["check", "pool.csv"]
    assert "the 8 columns a:h\n" in run(*check, "--exclude-columns", "y,cost").stdout
    assert "the 9 columns a:y\n" in run(*check, "--features", "a:h,y").stdout
    (labelled / "y.csv").write_text("y\n" + "1\n2\n" * 60)
    done = run(*check, "--labels", "y.csv", "--label-column", "y", "--exclude-columns", "cost")
    assert "the 8 columns a:h\n" in done.stdout  # the pool's own column of this name, too


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--features", "a:z"], "pool.csv has no column 'a:z'; it has id, a, b"),
        (["--features", "h:a"], "pool.csv has no column 'h:a'"),
        (["--features", "cost", "--cost-column", "cost"], "at least one column must be a feature"),
        (["--exclude-columns", "y,z"], "no file has a column 'z'"),
        (["--features", "a:g"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_columns_that_no_file_has_are_named(options, word, labelled, run):
    more = ["-k", 3, *options]
    if "--features" not in options:
        more += ["--cost-column", "cost"]
    done = run("select", "pool.csv", "-t", "val.csv", *more, code=0 if word == "" else 1)
    assert word in done.stderr


def test_features_are_columns_of_cells(files, run):
    done = run("select", "pool.npy", "-t", "val.npy", "-k", 3, "--features", "a:h", code=2)
    assert "--features names columns of .csv and .tsv files" in done.stderr


def test_a_report_is_written_too(files, run):
    pytest.importorskip("plotly")
    more = ["-k", 5, "-o", "picks.csv", "--report", "report.html"]
    done = run("select", "pool.npy", "-t", "val.npy", *more)
    assert "written: picks.csv, report.html" in done.stdout
    assert (files / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_checkpoint_is_resumed(files, run):
    more = ["-k", 6, "--checkpoint", "run.jsonl", "--json"]
    first = run("select", "pool.npy", "-t", "val.npy", *more).json()
    more[1] = 8
    second = run("select", "pool.npy", "-t", "val.npy", *more).json()
    assert second["settings"]["resumed_picks"] == 6
    assert second["picks"][:6] == first["picks"]


@pytest.mark.parametrize("has_ids", [False, True])
def test_the_page_and_the_picks_name_the_same_rows_and_targets(has_ids, files, run, rows):
    pytest.importorskip("plotly")
    ids = [f"t{row}" for row in range(len(rows[1]))] if has_ids else None
    write_csv(files, rows[0], ids and [f"p{row}" for row in range(len(rows[0]))])
    write_jsonl(files, rows[1], ids, "val.jsonl")
    more = ["-k", 5, "-o", "picks.csv", "--report", "page.html"]
    run("select", "pool.csv", "-t", "val.jsonl", *more)
    picks = read_csv(files / "picks.csv")
    page = (files / "page.html").read_text(encoding="utf-8")
    table = page[page.index('id="picks-table"') :]
    for pick in picks:
        name = "tp"[0] if has_ids else ""
        assert pick["nearest_target"] in {f"{name}{row}" for row in range(len(rows[1]))}
        assert f">{pick['nearest_target']}<" in table and f">{pick['id']}<" in table


@pytest.fixture
def shards(files, records):
    """The pool's records in three .parquet files of a folder, and in a store in memory."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    store = pytest.importorskip("fsspec").filesystem("memory")
    (files / "shards").mkdir()
    for part in range(3):
        table = arrow.Table.from_pylist(records[40 * part : 40 * part + 40])
        parquet.write_table(table, files / "shards" / f"part-{part}.parquet")
        store.put(f"{files}/shards/part-{part}.parquet", f"/shards/part-{part}.parquet")
    yield files / "shards"
    store.rm("/shards", recursive=True)


@pytest.mark.parametrize(
    "pool", ["shards", "shards/part-*.parquet", "memory://shards/part-*.parquet"]
)
def test_shards_are_a_pool_with_ids(pool, shards, files, run, expected):
    naming = ("--vector-column", "emb", "--id-column", "id")
    run("select", pool, "--targets", "val.npy", "-k", 12, *naming, "-o", "picks.csv")
    assert [pick["id"] for pick in read_csv(files / "picks.csv")] == [
        f"doc-{index}" for index in expected.indices
    ]


def test_targets_may_be_shards(shards, files, run, expected):
    np.save(files / "shards" / "val.npy", np.load(files / "val.npy"))
    run("select", "pool.npy", "--targets", "shards/v*.npy", "-k", 12, "-o", "picks.csv")
    picks = read_csv(files / "picks.csv")
    assert [int(pick["index"]) for pick in picks] == expected.indices.tolist()


@pytest.mark.parametrize(
    ("place", "suffix"),
    [
        ("parts", "parquet"),
        ("parts", "jsonl"),
        ("parts/part-*", "csv"),
        ("memory://parts", "jsonl"),
        ("memory://parts/part-*", "parquet"),
    ],
)
def test_texts_and_columns_of_several_files_are_as_in_one(place, suffix, files, records, run):
    """A folder, a pattern and a URL give the very picks, ids and records that one file gives."""
    (files / "words.py").write_text(WORDS)
    kept = [{name: record[name] for name in KEPT} for record in records]
    write_table(files / f"pool.{suffix}", kept)
    write_table(files / f"targets.{suffix}", [{"text": f"text {7 * i}"} for i in range(4)])
    store = pytest.importorskip("fsspec").filesystem("memory")
    (files / "parts").mkdir()
    for part in range(3):
        path = files / "parts" / f"part-{part}.{suffix}"
        write_table(path, kept[40 * part : 40 * part + 40])
        store.put(str(path), f"/parts/{path.name}")
    naming = ["--targets", f"targets.{suffix}", "-k", 4, "--text-field", "text"]
    naming += ["--embed", "words:embed", "--group-column", "source", "--max-per-group", 2]
    run("select", f"pool.{suffix}", *naming, "-o", "one.csv", "--report", "one.html")
    run("select", place, *naming, "-o", "all.csv", "--report", "all.html")
    store.rm("/parts", recursive=True)
    assert (files / "all.csv").read_text() == (files / "one.csv").read_text()
    assert len({pick["text"] for pick in read_csv(files / "all.csv")}) == 4
    page = (files / "all.html").read_text()
    assert all(pick["text"] in page for pick in read_csv(files / "all.csv"))
    again = run("select", "parts", *naming, "--observed", "all.csv", "--json").json()
    ids = [pick["id"] for pick in [*again["picks"], *read_csv(files / "all.csv")]]
    assert len(set(ids)) == 8


KEPT = ("id", "text", "source")
WORDS = """
import numpy as np


def embed(texts):
    seeds = [int(text.split()[1]) for text in texts]
    return np.stack([np.random.default_rng(seed).standard_normal(6) for seed in seeds])
"""


def write_table(path, rows):
    if path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "auto"), "--cluster and --workers go together"),
        (("--workers", 2), "--cluster and --workers go together"),
        (("--cluster", "x", "--workers", 2), "--cluster: address must be None, 'auto'"),
        (("--cluster", "auto", "--workers", 2, "--report", "r.html"), "there is no --report"),
    ],
)
def test_options_of_a_cluster_are_checked(options, said, shards, run):
    naming = ("--vector-column", "emb", "--id-column", "id")
    done = run("select", "shards", "--targets", "val.npy", "-k", 12, *naming, *options, code=2)
    assert said in done.stderr
