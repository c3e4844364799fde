"""A command that fails says why in one line, has the right exit code, and leaves no half file."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from conftest import environment, leftovers
from files_of_points import write_csv
from tellmost.cli.ending import main

BASIC = ["select", "pool.npy", "--targets", "val.npy", "-k", 5]


def assert_one_line(done, *words):
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("tellmost: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---- usage: exit code 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["select", "nowhere.npy", "--targets", "val.npy", "-k", 5], "no file 'nowhere.npy'"),
        (["select", "pool.npy", "--targets", "gone.npy", "-k", 5], "no file 'gone.npy'"),
        (["select", "pool.npy", "-k", 5], "targets"),
        (["select"], "Missing argument"),
        (["select", "pool.npy", "--targets", "val.npy"], "say how much to pick"),
        ([*BASIC, "--rule", "vlt"], "Did you mean vtl?"),
        ([*BASIC, "--report", "r.pdf"], ".html"),
        (["compare", "pool.npy", "-t", "val.npy", "--budgets", "1,two"], "by commas"),
        ([*BASIC, "--fast"], "--fast"),
        ([*BASIC, "--normalize", "zscore"], "center+unit"),
        ([*BASIC, "--noise-ratio", 1, "--noise-std", 1], "not both"),
        ([*BASIC, "--noise-ratio", "nan"], "--noise-ratio must be a positive finite number"),
        ([*BASIC, "--noise-std", "0"], "--noise-std, where it is no file, must be a positive"),
        ([*BASIC, "--noise-ratio", "0"], "--noise-ratio must be a positive finite number"),
        (["report", "pool.npy", "--pool", "pool.npy", "-o", "r.pdf"], ".html"),
        ([*BASIC, "--budget", 5], "--cost-column"),
        ([*BASIC, "--memory", "much"], "much"),
        ([*BASIC, "--rule", "MMR(relevance=7)"], "relevance"),
        ([*BASIC, "--kernel", "rbf"], "Gaussian(lengthscale=1.0)"),
        ([*BASIC, "--export", "label-studio"], "-o"),
        ([*BASIC, "--observed", "round0.csv"], "no file 'round0.csv'"),
        ([*BASIC, "-o", "-"], "Without it the picks go to stdout"),
        (["compare", "pool.npy", "--targets", "val.npy", "--labels", "y.csv"], "--target-labels"),
        (["choose"], "No such command"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_bad_usage_is_said_in_one_line(arguments, word, files, run):
    assert_one_line(run(*arguments, code=2), word)


# ---- bad files: exit code 1


def break_pool(files, kind):
    pool = np.load(files / "pool.npy")
    path = files / "pool.npy"
    match kind:
        case "a NaN":
            pool[37, 2] = np.nan
            np.save(path, pool)
        case "another width":
            np.save(path, pool[:, :5])
        case "empty":
            path.write_bytes(b"")
        case "truncated":
            path.write_bytes(path.read_bytes()[:-100])
        case "pickled":
            np.save(path, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
        case "text":
            path.write_text("not an array")
        case "no rows":
            np.save(path, pool[:0])


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("a NaN", "row 37"),
        ("another width", "(120, 5)"),
        ("empty", "pool.npy is empty"),
        ("truncated", "pool.npy"),
        ("pickled", "pickle"),
        ("text", "pool.npy"),
        ("no rows", "(0, 8)"),
    ],
)
def test_a_bad_pool_is_named(kind, word, files, run):
    break_pool(files, kind)
    assert_one_line(run(*BASIC, "-o", "picks.csv", code=1), word)
    assert not (files / "picks.csv").exists() and leftovers(files) == []


TABLES = {
    "unknown column": ('{"id": 1, "emb": [1, 2]}\n', ["--vector-column", "v"], "id, emb"),
    "a NaN": ('{"emb": [1, 2]}\n{"emb": [1, NaN]}\n', [], "line 2"),
    "ragged": ('{"emb": [1, 2]}\n{"emb": [1]}\n', [], "line 2"),
    "bad JSON": ('{"emb": [1, 2]}\n{"emb": [1, \n', [], "line 2"),
    "empty": ("", [], "empty"),
    "same ids": ('{"id": 1, "emb": [1, 2]}\n{"id": 1, "emb": [3, 4]}\n', [], "line 1 and line 2"),
    "text without a model": ('{"text": "a"}\n', ["--text-field", "text"], "--embed"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_bad_table_is_named_by_line_or_column(kind, tmp_path, run):
    text, options, word = TABLES[kind]
    (tmp_path / "pool.jsonl").write_text(text)
    np.save(tmp_path / "val.npy", np.ones((1, 2)))
    more = ["--targets", "val.npy", "-k", 1, *options]
    assert_one_line(run("select", "pool.jsonl", *more, code=1), word)


def test_an_id_that_the_pool_does_not_have_is_named(files, run):
    (files / "rejected.csv").write_text("id\n3\n999\n")
    assert_one_line(run(*BASIC, "--exclude", "rejected.csv", code=1), "999", "rejected.csv")


def test_picks_of_another_pool_are_refused(files, run, rows):
    """Ids that count from 1 would be taken for row numbers from 0, and all would be wrong."""
    write_csv(files, rows[0], range(1, 1 + len(rows[0])))
    run("select", "pool.csv", "-t", "val.npy", "-k", 5, "-o", "picks.csv")
    assert_one_line(run(*BASIC, "--observed", "picks.csv", code=1), "picks of another pool")


def test_an_output_that_cannot_be_written_is_told_before_the_work(files, run):
    assert_one_line(
        run(*BASIC, "-o", "nowhere/picks.csv", code=1), "there is no folder", "nowhere'"
    )
    (files / "folder.csv").mkdir()
    assert_one_line(run(*BASIC, "-o", "folder.csv", code=1), "is a folder")
    assert_one_line(run(*BASIC, "-o", "picks.xlsx", code=2), ".csv", ".parquet")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(files, run):
    (files / "locked").mkdir(mode=0o500)
    assert_one_line(run(*BASIC, "-o", "locked/picks.csv", code=1), "locked")


@pytest.mark.parametrize(
    "more",
    [
        ["-o", "pool.npy"],
        ["-o", "seen.csv", "--observed", "seen.csv"],
        ["-o", "./seen.csv", "--exclude", "seen.csv"],
        ["-o", "link.csv", "--observed", "seen.csv"],
        ["-o", "hard.csv", "--observed", "seen.csv"],
        ["--report", "page.html", "--observed", "page.html"],
        ["-o", "new.csv", "--checkpoint", "new.csv"],
        ["-o", "ahead.csv", "--checkpoint", "new.csv"],
        ["--checkpoint", "pool.npy"],
        ["--checkpoint", "seen.csv", "--candidates", "seen.csv"],
        ["--checkpoint", "noise.csv", "--noise-std", "noise.csv"],
        ["--report", "same.html", "-o", "page.csv"],
        ["-o", "sub/../seen.csv", "--exclude", "seen.csv"],
    ],
    ids=" ".join,
)
def test_no_two_paths_of_a_command_are_one_file(more, files, run):
    """Whether it exists or not: what is written last would overwrite the other."""
    (files / "sub").mkdir()
    (files / "seen.csv").write_text("id\n1\n")
    (files / "noise.csv").write_text("1\n" * 120)
    (files / "page.html").write_text("kept")
    (files / "link.csv").symlink_to(files / "seen.csv")
    (files / "page.csv").symlink_to(files / "same.html")
    (files / "ahead.csv").symlink_to(files / "new.csv")
    (files / "hard.csv").hardlink_to(files / "seen.csv")
    before = {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}
    assert_one_line(run(*BASIC, *more, code=2), "name the same file")
    assert before == {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}


def test_a_file_may_be_read_twice(files, run):
    (files / "seen.csv").write_text("id\n1\n")
    run("select", "pool.npy", "-t", "pool.npy", "-k", 1, *["--exclude", "seen.csv"] * 2)


def test_a_page_does_not_overwrite_what_it_is_about(files, run):
    run(*BASIC, "-o", "picks.tellmost")
    (files / "page.html").symlink_to(files / "picks.tellmost")
    done = run("report", "picks.tellmost", "--pool", "pool.npy", "-o", "page.html", code=2)
    assert_one_line(done, "--output and selection name the same file")


@pytest.mark.parametrize(
    "more", [["-o", "circle.csv"], ["--observed", "circle.csv"], ["--noise-std", "circle.csv"]]
)
def test_links_in_a_circle_name_no_file(more, files, run):
    (files / "circle.csv").symlink_to(files / "other.csv")
    (files / "other.csv").symlink_to(files / "circle.csv")
    assert_one_line(run(*BASIC, *more, code=2), "'circle.csv' is a link in a circle of links")


def test_a_wrong_ending_is_told_before_anything_is_read(files, run):
    (files / "pool.npy").write_text("no array")  # reading it would fail first
    more = ["--export", "label-studio", "-o", "tasks.csv"]
    assert_one_line(
        run(*BASIC, "--text-field", "t", *more, code=2), "--output: tools for labelling"
    )
    assert_one_line(run(*BASIC, "-o", "picks.npy", code=2), "cannot write picks.npy")


def test_the_folder_where_one_is_may_be_the_pool(files, run):
    (files / "val.npy").rename(files.parent / "val.npy")
    done = run("select", ".", "-t", "../val.npy", "-k", 3, "-o", "picks.csv")
    assert "of 120 by vtl" in done.stdout


def test_notes_name_options_and_usage_errors_end_before_the_advice(files, run):
    np.save(files / "copies.npy", np.ones((9, 3)))
    done = run("select", "copies.npy", "--rule", "k-center", "-k", 5)
    assert "Pass --dedupe 0.98 to pick" in done.stderr
    assert_one_line(run(*BASIC, "--fast", code=2), ". Try 'tellmost select --help'.")


def test_an_empty_cell_may_be_left_out_and_a_word_may_not(files, run):
    for cell, way_out in (
        ("", "--on-bad-row skip. Or leave the column"),
        ("x", "Repair the cell"),
    ):
        (files / "gap.csv").write_text(f"a,b\n1,2\n{cell},4\n")
        done = run("select", "gap.csv", "--rule", "k-center", "-k", 1, code=1)
        assert_one_line(done, way_out)


def test_a_file_that_happens_to_be_called_so_is_left_alone(files, run):
    (files / "picks.csv.part").write_text("precious")
    run(*BASIC, "-o", "picks.csv")
    assert (files / "picks.csv.part").read_text() == "precious"
    assert (files / "picks.csv").exists()


def test_a_link_stays_a_link(files, run):
    (files / "real.csv").write_text("old")
    (files / "link.csv").symlink_to(files / "real.csv")
    run(*BASIC, "-o", "link.csv")
    assert (files / "link.csv").is_symlink()
    assert (files / "real.csv").read_text().startswith("rank,index")


@pytest.fixture
def foreign(files, rows):
    """The arguments of a selection from a pool whose ids are not ASCII."""
    write_csv(files, rows[0], [f"\u00e9{row}" for row in range(120)])
    return ["select", "pool.csv", "--targets", "val.npy", "-k", "5"]


@contextmanager
def ascii_stdout():
    """Let stdout hold 128 characters only."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        yield stdout.buffer


def test_ids_that_stdout_cannot_hold_are_told_before_the_work(foreign, run):
    with ascii_stdout():
        done = run(*foreign, code=1)
    assert "stdout is written in ascii, which must hold every id; that of line 2" in done.stderr
    with ascii_stdout() as stdout:
        run(*foreign, "--json")
        pick = json.loads(stdout.getvalue())["picks"][0]
    assert pick["id"] == f"\u00e9{pick['index']}"


def test_words_that_stdout_cannot_hold_are_no_failure(foreign, files, run):
    before = signal.getsignal(signal.SIGTERM)
    with ascii_stdout() as stdout:
        with pytest.raises(SystemExit) as ended:
            main([*foreign, "-o", "picks.csv"])
        assert ended.value.code == 0 and b"\\xe9" in stdout.getvalue()
    signal.signal(signal.SIGTERM, before)
    assert "\u00e9" in (files / "picks.csv").read_text(encoding="utf-8")


def test_debug_shows_where_it_happened(files, run):
    break_pool(files, "a NaN")
    with pytest.raises(ValueError, match="row 37"):
        run(*BASIC, "--debug")


# ---- processes, pipes and signals


@pytest.mark.process
def test_bad_usage_is_an_exit_code_of_the_process():
    command = [sys.executable, "-m", "tellmost", "choose"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 2
    assert_one_line(done, "No such command 'choose'")


@pytest.mark.process
def test_a_closed_pipe_ends_cleanly(files):
    command = f"'{sys.executable}' -m tellmost select pool.npy -t val.npy -k 100 | head -n 1"
    script = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(
        script, cwd=files, capture_output=True, text=True, env=environment(), check=False
    )
    assert done.stdout.startswith("rank,index") and done.returncode == 0
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.process
def test_a_pipe_that_nobody_reads_ends_cleanly(files):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "tellmost", *map(str, BASIC), "--json"]
    done = subprocess.run(
        command, cwd=files, stdout=writer, stderr=subprocess.PIPE, env=environment(), check=False
    )
    os.close(writer)
    assert done.returncode == 0 and done.stderr == b""


@pytest.mark.process
@pytest.mark.parametrize("arguments", ["--help", "select --help", "--version"])
def test_help_that_nobody_reads_is_no_failure(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "tellmost", *arguments.split()]
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, env=environment(), check=False
    )
    os.close(writer)
    assert done.returncode == 0 and done.stderr == b""


@pytest.mark.process
def test_a_closed_stdout_is_no_failure(files):
    command = f"'{sys.executable}' -m tellmost select pool.npy -t val.npy -k 3 >&-"
    done = subprocess.run(
        ["bash", "-c", command], cwd=files, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr


def hear_interrupts() -> None:
    """Deliver Ctrl-C to the command also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_no_half_file(number, code, files):
    """A slow model of the user's is interrupted in the midst of its work."""
    (files / "slow.py").write_text(
        "import pathlib, time\n"
        "def embed(texts):\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(60)\n"
    )
    (files / "pool.jsonl").write_text('{"text": "a"}\n')
    command = [
        sys.executable,
        "-m",
        "tellmost",
        "select",
        "pool.jsonl",
        "--targets",
        "pool.jsonl",
    ]
    command += ["--text-field", "text", "--embed", "slow:embed", "-k", "1", "-o", "picks.csv"]
    process = subprocess.Popen(
        command,
        cwd=files,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=hear_interrupts,
    )
    deadline = time.monotonic() + 60
    while not (files / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said
    assert ("tellmost: interrupted" in said) == (number == signal.SIGINT)
    assert not (files / "picks.csv").exists() and leftovers(files) == []
