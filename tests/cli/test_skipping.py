"""Rows that no selection can use are skipped, and the others keep their numbers and ids."""

import csv
import json

import numpy as np
import pytest

import tellmost as tm
from files_of_points import TABLES, write_csv, write_jsonl, write_npy, write_npz, write_parquet

BAD = [0, 7, 30, 31, 119]
GOOD = np.setdiff1d(np.arange(120), BAD)
SKIP = ["--on-bad-row", "skip"]
BASIC = ["--targets", "val.npy", "-k", 9, *SKIP]
IDS = [f"p{row}" for row in range(120)]


@pytest.fixture
def damaged(rows):
    """The pool with rows that are not finite, among them the best one."""
    pool = rows[0].copy()
    pool[BAD[:-1], 2] = [np.nan, np.inf, np.nan, -np.inf]
    pool[BAD[-1]] = np.nan
    return pool


@pytest.fixture
def expected(rows):
    return tm.select(rows[0][GOOD], rows[1], 9, normalize="center")


@pytest.mark.parametrize("write", [write_npy, write_npz, *TABLES.values()])
def test_the_picks_are_those_of_a_file_without_the_bad_rows(write, files, run, damaged, expected):
    has_ids = write in TABLES.values()
    path = write(files, damaged, IDS) if has_ids else write(files, damaged)
    more = [*BASIC, "--normalize", "center"]
    done = run("select", path.name, *more, "--json").json()
    picks = done["picks"]
    assert [pick["index"] for pick in picks] == GOOD[expected.indices].tolist()
    assert [pick["gain"] for pick in picks] == expected.gains.tolist()
    assert [pick["id"] for pick in picks] == [
        IDS[pick["index"]] if has_ids else pick["index"] for pick in picks
    ]
    assert done["skipped_rows"] == {"pool": BAD, "targets": []}
    said = run("select", path.name, *more, "-o", "picks.jsonl").stdout
    assert f"skipped: 5 of 120 rows of {path.name}, " in said
    assert ("row 7" if path.suffix in (".npy", ".npz", ".parquet") else "line ") in said
    run("select", path.name, "-t", "val.npy", "-k", 9, code=1)  # the default is to fail


def test_several_files_are_skipped_in_alike(files, run, damaged, expected):
    np.save(files / "a.npy", damaged[:50])
    np.save(files / "b.npy", damaged[50:])
    assert (
        "leave them out: --on-bad-row skip" in run("select", "b.npy", *BASIC[:-2], code=1).stderr
    )
    done = run("select", "a.npy", "b.npy", *BASIC, "--normalize", "center", "--json").json()
    assert [p["index"] for p in done["picks"]] == GOOD[expected.indices].tolist()


def test_cells_that_are_missing_are_skipped_and_words_are_not(files, run, rows):
    """pandas writes a NaN as nothing at all."""
    path = write_csv(files, rows[0], IDS)
    lines = path.read_text().splitlines()
    lines[3] = ",".join(["p2", "", *lines[3].split(",")[2:]])
    path.write_text("\n".join(lines))
    assert run("select", "pool.csv", *BASIC, "--json").json()["skipped_rows"]["pool"] == [2]
    path.write_text("\n".join(lines).replace("p4,", "p4,x", 1))
    assert (
        "line 6: column 'x0' must hold numbers" in run("select", "pool.csv", *BASIC, code=1).stderr
    )
    write_jsonl(files, rows[0], IDS)
    lines = (files / "pool.jsonl").read_text().splitlines()
    record = json.loads(lines[5])
    record["vector"][1] = None
    for row in (0, 5):
        lines[row] = json.dumps(record | {"id": row})
    (files / "pool.jsonl").write_text("\n".join(lines))
    assert run("select", "pool.jsonl", *BASIC, "--json").json()["skipped_rows"]["pool"] == [0, 5]


def test_targets_are_skipped_too(files, run, rows):
    targets = rows[1].copy()
    targets[[0, 3], 1] = np.nan
    write_csv(files, targets, [f"t{row}" for row in range(6)], "val.csv")
    (files / "weights.csv").write_text("weight\n" + "1\n2\n3\n4\n5\n6\n")
    more = ["-t", "val.csv", "-k", 9, *SKIP, "--target-weights", "weights.csv", "--json"]
    done = run("select", "pool.npy", *more).json()
    kept = [1, 2, 4, 5]
    chosen = tm.select(rows[0], rows[1][kept], 9, target_weights=[2, 3, 5, 6])
    assert [pick["index"] for pick in done["picks"]] == chosen.indices.tolist()
    assert {pick["nearest_target"] for pick in done["picks"]} <= {f"t{row}" for row in kept}
    assert done["skipped_rows"]["targets"] == [0, 3]


def test_files_about_rows_speak_of_all_rows_of_the_file(files, run, rows, damaged):
    """Costs, noise, what is excluded and what is observed belong to the file's rows."""
    np.save(files / "pool.npy", damaged)
    cost = 1.0 + np.arange(120) % 7
    np.savetxt(files / "cost.csv", cost)
    np.savetxt(files / "noise.csv", 1 + cost)
    (files / "out.txt").write_text("7\n1\n2\n")  # 7 is skipped anyway
    np.save(files / "seen.npy", np.array([3, 118]))
    more = ["--cost", "cost.csv", "--noise-std", "noise.csv", "--exclude", "out.txt"]
    more += ["--observed", "seen.npy", "--budget", 30, "--json"]
    done = run("select", "pool.npy", *BASIC, *more).json()
    chosen = tm.select(
        rows[0][GOOD],
        rows[1],
        9,
        cost=cost[GOOD],
        noise_std=1 + cost[GOOD],
        candidates=~np.isin(GOOD, [1, 2]),
        observed=np.searchsorted(GOOD, [3, 118]),
        budget=30,
    )
    assert [pick["index"] for pick in done["picks"]] == GOOD[chosen.indices].tolist()
    np.save(files / "seen.npy", np.array([3, 30]))
    said = run("select", "pool.npy", *BASIC, "--observed", "seen.npy", code=1).stderr
    assert "--observed must name rows that are finite and not empty; row 30 of pool.npy" in said


@pytest.mark.parametrize("option", ["--cost", "--noise-std"])
def test_a_bad_value_is_named_by_the_row_of_the_file(option, files, run, damaged):
    np.save(files / "pool.npy", damaged)
    values = np.ones(120)
    values[[7, 50]] = -1  # row 7 is skipped, so that nothing is asked of it
    np.savetxt(files / "values.csv", values)
    said = run("select", "pool.npy", *BASIC, option, "values.csv", code=1).stderr
    assert f"{option} must be positive; row 50 has -1" in said


def test_records_of_the_picks_are_those_of_the_file(files, run, damaged, expected):
    write_csv(files, damaged, IDS)
    run("select", "pool.csv", *BASIC, "--normalize", "center", "-o", "out.csv")
    with (files / "out.csv").open(newline="") as file:
        picked = [record["id"] for record in csv.DictReader(file)]
    assert picked == [IDS[row] for row in GOOD[expected.indices]]


def test_a_next_round_goes_on_from_the_picks(files, run, damaged, expected):
    write_csv(files, damaged, IDS)
    more = ["--normalize", "center", *SKIP]
    basic = ["select", "pool.csv", "--targets", "val.npy", "-k"]
    run(*basic, 4, *more, "-o", "picks.csv")
    done = run(*basic, 5, *more, "--observed", "picks.csv", "--json").json()
    assert [p["index"] for p in done["picks"]] == GOOD[expected.indices[4:]].tolist()


def test_a_saved_selection_would_number_other_rows_and_is_refused(files, run, damaged):
    np.save(files / "pool.npy", damaged)
    done = run("select", "pool.npy", *BASIC, "-o", "picks.tellmost", code=2)
    assert "skipped: 5 of 120 rows of pool.npy, row 0, row 7" in done.stderr
    assert not (files / "picks.tellmost").exists()


def test_the_page_numbers_rows_and_targets_as_the_files_do(files, run, rows, damaged):
    pytest.importorskip("plotly")
    np.save(files / "pool.npy", damaged)
    targets = rows[1].copy()
    targets[[0, 3]] = np.nan
    np.save(files / "val.npy", targets)
    run("select", "pool.npy", *BASIC, "-o", "picks.jsonl", "--report", "page.html")
    picks = [json.loads(line) for line in (files / "picks.jsonl").read_text().splitlines()]
    page = (files / "page.html").read_text(encoding="utf-8")
    payload = page[page.index('type="application/json"') :]
    about = json.loads(payload[payload.index(">") + 1 : payload.index("</script>")])
    columns = {column["name"]: column["cells"] for column in about["picks"]["columns"]}
    assert columns["row"] == about["map"]["picks"]["numbers"] == [p["index"] for p in picks]
    assert columns["nearest target"] == [p["nearest_target"] for p in picks]
    assert {row for some in columns["serves most"] for row in some} <= {1, 2, 4, 5}
    assert about["map"]["targets"]["numbers"] == [1, 2, 4, 5]
    assert about["map"]["pool"]["numbers"] == GOOD.tolist()
    assert sorted(about["targets"]["numbers"]) == [1, 2, 4, 5]


def test_empty_texts_are_skipped(files, run, rows, monkeypatch):
    (files / "model_of_lengths.py").write_text(
        "import numpy as np\n"
        "def embed(texts):\n"
        "    return np.array([[len(text), text.count('a')] for text in texts], np.float32)\n"
    )
    monkeypatch.syspath_prepend(files)
    texts = ["aab", "", None, "bb", " ", "abba", "\ud800"]
    write_lines(files / "pool.jsonl", [{"id": f"p{n}", "text": t} for n, t in enumerate(texts)])
    write_lines(files / "val.jsonl", [{"text": "aa"}, {"text": ""}])
    more = [
        "-t",
        "val.jsonl",
        "-k",
        3,
        "--text-field",
        "text",
        "--embed",
        "model_of_lengths:embed",
    ]
    done = run("select", "pool.jsonl", *more, *SKIP, "--json").json()
    assert {pick["id"] for pick in done["picks"]} == {"p0", "p3", "p5"}
    assert done["skipped_rows"] == {"pool": [1, 2, 4, 6], "targets": [1]}
    assert "line 2 (id 'p1')" in run("select", "pool.jsonl", *more, code=1).stderr


def write_lines(path, records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


@pytest.mark.parametrize("write", [write_npy, write_csv, write_parquet])
def test_the_other_commands_skip_alike(write, files, run, damaged, rows):
    path = write(files, damaged) if write is write_npy else write(files, damaged, IDS)
    np.save(files / "good.npy", rows[0][GOOD])
    kind = [f"kind {row % 3}\n" for row in range(120)]
    (files / "good.csv").write_text("label\n" + "".join(kind[row] for row in GOOD))
    check = run("check", path.name, "--labels", "y.csv", *SKIP, "--json").json()
    same = run("check", "good.npy", "--labels", "good.csv", "--json").json()
    assert check["skipped_rows"]["pool"] == BAD
    assert same | {name: check[name] for name in ("feature_columns", "skipped_rows")} == check
    basic = ["-t", "val.npy", "-k", 4]
    assert "skipped: 5 of 120" in run("estimate", path.name, *basic, *SKIP).stdout
    more = [
        *basic,
        "--seeds",
        2,
        "--methods",
        "random",
        "--target-labels",
        "t.csv",
        "--json",
        "--labels",
    ]
    compared = run("compare", path.name, *more, "y.csv", *SKIP).json()
    alike = run("compare", "good.npy", *more, "good.csv").json()
    assert compared["verdict"] == alike["verdict"]


def test_nothing_usable_and_another_word_are_errors(files, run):
    np.save(files / "pool.npy", np.full((3, 8), np.nan))
    assert "at least one row must be usable" in run("select", "pool.npy", *BASIC, code=1).stderr
    more = ["-t", "val.npy", "-k", 1, "--on-bad-row", "drop"]
    assert "must be fail or skip; got 'drop'" in run("select", "pool.npy", *more, code=2).stderr
