"""Real files, and a way to run commands on them."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

N, D, M = 120, 8, 6


@pytest.fixture(scope="session")
def rows():
    """Three clusters. The targets and the rows 0, 3, 6, ... are of the first."""
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((3, D))
    kind = np.arange(N) % 3
    pool = centres[kind] + 0.3 * generator.standard_normal((N, D))
    targets = centres[0] + 0.3 * generator.standard_normal((M, D))
    return pool.astype(np.float32), targets.astype(np.float32), kind


@pytest.fixture
def files(rows, tmp_path):
    """A folder with pool.npy, val.npy, y.csv and t.csv."""
    pool, targets, kind = rows
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "val.npy", targets)
    (tmp_path / "y.csv").write_text("label\n" + "".join(f"kind {c}\n" for c in kind))
    (tmp_path / "t.csv").write_text("label\n" + "kind 0\n" * M)
    return tmp_path


@pytest.fixture(scope="session")
def records(rows):
    """The pool's rows as records with an id, a text, a vector, a cost and a group each."""
    pool, _, kind = rows
    return [
        {
            "id": f"doc-{i}",
            "text": f"text {i}",
            "emb": vector.tolist(),
            "n_tokens": 10 + i % 7,
            "source": f"s{i % 5}",
            "label": f"kind {c}",
        }
        for i, (vector, c) in enumerate(zip(pool, kind, strict=True))
    ]


@pytest.fixture(scope="session")
def target_records(rows):
    return [{"id": f"q-{i}", "emb": v.tolist(), "label": "kind 0"} for i, v in enumerate(rows[1])]


@dataclass
class Ended:
    """A command that has ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str

    def json(self):
        return json.loads(self.stdout)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run ``tellmost`` in the folder of the files, in this process."""
    pytest.importorskip("typer")
    from tellmost.cli import ending
    from tellmost.cli.app import app

    monkeypatch.chdir(tmp_path)
    imported = set(sys.modules)

    def call(*arguments, code=0):
        capsys.readouterr()
        returncode = ending.run(app, list(map(str, arguments)))
        done = Ended(returncode, *capsys.readouterr())
        assert done.returncode == code, f"{done.returncode}: {done.stderr}"
        return done

    yield call
    for name in set(sys.modules) - imported:  # modules of the test's own folder
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def environment(more=None):
    quiet = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **quiet, **(more or {})}


def leftovers(folder: Path) -> list[str]:
    """The files that a run should have cleaned up."""
    return [path.name for path in folder.iterdir() if ".part" in path.name]
