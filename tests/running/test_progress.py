"""Progress is a line on stderr, for those who asked for it or sit at a terminal."""

import contextlib
import io
import sys
import time

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
