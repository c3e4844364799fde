"""Progress is a line on stderr, for those who asked for it or sit at a terminal."""

import contextlib
import io
import sys
import threading
import time
import types

import numpy as np
import pytest

import tellmost as tm
from tellmost.running import progress

POOL = np.random.default_rng(0).normal(size=(40, 8))
TARGETS = np.random.default_rng(1).normal(size=(5, 8))


def test_progress_goes_to_stderr_only(capfd):
    tm.select(POOL, TARGETS, k=5, progress=True, kernel="linear")
    out, err = capfd.readouterr()
    assert out == "" and "picks" in err
    assert err.endswith("\r")  # the line is cleared


@pytest.mark.parametrize("shown", [False, None])
def test_nothing_is_printed_unless_asked_for_or_on_a_terminal(shown, capfd):
    tm.select(POOL, TARGETS, k=5, progress=shown, kernel="linear")
    assert capfd.readouterr() == ("", "")


def test_a_log_gets_a_line_every_half_minute_and_none_is_rewritten(monkeypatch, capfd):
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("tellmost.running.progress.time", clock)
    with progress.ProgressLine(None, "texts embedded", done_before=0) as line:
        for done, seconds in enumerate((10, 29, 31, 60, 62), start=1):
            now[0] = seconds
            line(done, 10)
    assert capfd.readouterr() == (
        "",
        "tellmost: 3 of 10 texts embedded, 72 s left\n"
        "tellmost: 5 of 10 texts embedded, 62 s left\n",
    )


def test_work_that_cannot_be_counted_gets_lines_in_a_log(monkeypatch, capfd):
    written = threading.Event()
    monkeypatch.setattr(progress, "SLOW_SECONDS", 0.001)
    monkeypatch.setattr(progress, "show_line", lambda *args, **options: written.set() or 0)
    with progress.working(None, "checking"):
        assert written.wait(60)
    assert capfd.readouterr() == ("", "")


def test_a_notebook_gets_a_bar_of_tqdm(monkeypatch, capfd):
    bars = []

    class Bar:
        def __init__(self, **options):
            self.options, self.seen, self.is_open = options, [], True
            bars.append(self)

        def refresh(self):
            self.seen.append((self.n, self.total))

        def close(self):
            self.is_open = False

    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setattr(pytest.importorskip("tqdm.auto"), "tqdm", Bar)
    monkeypatch.setattr("tellmost.selecting.select.QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    tm.select(POOL, TARGETS, k=5, kernel="linear")
    (bar,) = bars
    assert bar.options["desc"] == "tellmost: picks" and not bar.is_open
    assert bar.seen[0][1] == 5 and 1 <= bar.seen[-1][0] <= 5
    tm.select(POOL, TARGETS, k=5, kernel="linear", progress=False)
    assert len(bars) == 1 and capfd.readouterr() == ("", "")


def test_progress_without_k_names_no_impossible_number():
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        tm.select(
            POOL,
            TARGETS,
            cost=np.ones(40),
            budget=3.0,
            replace=True,
            noise_std=5.0,
            progress=True,
            kernel="linear",
        )
    assert f"{sys.maxsize:,}" not in said.getvalue()


def test_work_that_cannot_be_counted_shows_its_seconds(monkeypatch, capfd):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    with progress.working(True, "checking"):
        time.sleep(0.1)
    out, err = capfd.readouterr()
    assert out == "" and "tellmost: checking, 0 s" in err
    assert err.endswith("\r")  # the line is cleared


def test_work_is_quiet_where_nobody_looks(capfd):
    with progress.working(None, "checking"):
        pass
    assert capfd.readouterr() == ("", "")


def test_comparing_many_targets_with_the_rows_shows_its_seconds(monkeypatch, capfd):
    from tellmost.selecting.data import SelectionData

    compare = SelectionData.with_density
    monkeypatch.setattr(
        SelectionData, "with_density", lambda data: time.sleep(0.1) or compare(data)
    )
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    tm.select(POOL, TARGETS, k=2, progress=True)
    assert "comparing rows" not in capfd.readouterr().err
    monkeypatch.setattr("tellmost.selecting.select.MANY_PAIRS", len(POOL) * len(TARGETS))
    tm.select(POOL, TARGETS, k=2, progress=True)
    assert "tellmost: comparing rows with targets, 0 s" in capfd.readouterr().err
    tm.select(POOL, TARGETS, k=2, progress=False)
    assert capfd.readouterr().err == ""
