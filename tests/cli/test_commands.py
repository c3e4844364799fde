"""check, estimate, compare and report on real files."""

import json

import pytest

# ---- compare


def test_without_labels_the_comparison_says_that_it_is_circular(files, run):
    done = run("compare", "pool.npy", "--targets", "val.npy", "-k", 12, "--seeds", 3)
    for method in ("vtl", "random", "top-k", "nearest-in-turn", "mmr", "flqmi", "k-center"):
        assert method in done.stdout
    assert "CIRCULAR" in done.stdout and "by construction" in done.stdout


def test_with_labels_a_probe_is_tested_and_judged(files, run):
    labels = ["--labels", "y.csv", "--target-labels", "t.csv"]
    more = [*labels, "-k", 12, "--seeds", 3, "--methods", "random"]
    done = run("compare", "pool.npy", "--targets", "val.npy", *more)
    assert "random" in done.stdout and "±" in done.stdout
    assert "After 12 picks" in " ".join(done.stdout.split())
    assert "flatter" in done.stdout
    as_json = run("compare", "pool.npy", "--targets", "val.npy", *more, "--json").json()
    assert as_json["verdict"] and as_json["seeds"] == 3


def test_labels_may_be_columns_of_the_files(files, run, records, target_records):
    for name, some in (("pool", records), ("targets", target_records)):
        lines = "".join(json.dumps(record) + "\n" for record in some)
        (files / f"{name}.jsonl").write_text(lines)
    more = ["--label-column", "label", "-k", 8, "--seeds", 2, "--methods", "random", "--json"]
    done = run("compare", "pool.jsonl", "--targets", "targets.jsonl", *more).json()
    assert done["verdict"]


# ---- check


def test_embeddings_that_carry_the_labels_are_told_so(files, run):
    done = run("check", "pool.npy", "--labels", "y.csv")
    assert "the embeddings carry the labels" in done.stdout
    for word in ("noise ratio", "rank correlation", "duplicates", "effective rank", "norms"):
        assert word in done.stdout


def test_without_labels_the_pool_alone_is_looked_at(files, run):
    done = run("check", "pool.npy")
    assert "effective rank" in done.stdout and "unknown without labels" in done.stdout


def test_check_looks_at_targets_and_asks_a_probe_with_the_kernel(files, run):
    more = ["--labels", "y.csv", "--kernel", "Gaussian(lengthscale=3.0)"]
    done = run("check", "pool.npy", "--targets", "val.npy", *more)
    text = " ".join(done.stdout.split())
    assert "by a probe with Gaussian(lengthscale=3.0)" in text
    assert "predict one another" in text


def test_check_answers_machines_too(files, run):
    done = run("check", "pool.npy", "--labels", "y.csv", "--json").json()
    assert done["verdict"] and done["health"]["rows"] == 120


# ---- estimate


def test_an_estimate_tells_time_memory_device_and_passes(files, run):
    done = run("estimate", "pool.npy", "--targets", "val.npy", "-k", 20)
    for word in ("cpu", "pass", "memory", "held"):
        assert word in done.stdout, done.stdout
    as_json = run("estimate", "pool.npy", "--targets", "val.npy", "-k", 20, "--json").json()
    assert as_json["device"] == "cpu"


def test_an_estimate_refuses_what_select_refuses(files, run):
    more = ["--targets", "val.npy", "-k", 1000]
    assert "larger than the 120 candidates" in run("estimate", "pool.npy", *more, code=1).stderr


# ---- report


def test_a_saved_selection_gets_its_page(files, run):
    pytest.importorskip("plotly")
    run("select", "pool.npy", "-t", "val.npy", "-k", 5, "-o", "picks.tellmost")
    more = ["--pool", "pool.npy", "--targets", "val.npy", "-o", "report.html"]
    done = run("report", "picks.tellmost", *more)
    assert "written: report.html" in done.stdout
    assert "</html>" in (files / "report.html").read_text()


def test_a_page_about_another_pool_is_refused(files, run):
    run("select", "pool.npy", "-t", "val.npy", "-k", 5, "-o", "picks.tellmost")
    more = ["--pool", "val.npy", "--targets", "val.npy", "-o", "report.html"]
    done = run("report", "picks.tellmost", *more, code=1)
    assert "not the one that this selection was made from" in done.stderr
    assert not (files / "report.html").exists()


def test_a_page_needs_a_selection(files, run):
    more = ["--pool", "pool.npy", "--targets", "val.npy", "-o", "report.html"]
    assert "no file 'gone.tellmost'" in run("report", "gone.tellmost", *more, code=2).stderr
    assert "not a saved Selection" in run("report", "y.csv", *more, code=1).stderr
