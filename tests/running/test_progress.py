"""Progress is a line on stderr, for those who asked for it or sit at a terminal."""

import contextlib
import io
import sys
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


def test_a_log_gets_a_line_now_and_then_and_none_of_it_is_rewritten(monkeypatch, capfd):
    monkeypatch.setattr(progress, "SLOW_SECONDS", 0.02)
    with progress.ProgressLine(None, "texts embedded", done_before=0) as line:
        for done in range(1, 6):
            time.sleep(0.015)
            line(done, 1_000)
    with progress.working(None, "checking"):
        time.sleep(0.1)
    out, err = capfd.readouterr()
    counted = [text for text in err.splitlines() if "texts embedded" in text]
    assert out == "" and "\r" not in err and 1 <= len(counted) <= 4
    assert counted[-1].startswith("tellmost: ") and counted[-1].endswith(" s left")
    assert "tellmost: checking, 0 s\n" in err


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
