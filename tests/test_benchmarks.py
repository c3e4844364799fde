"""The benchmarks run, at a size that takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.process
@pytest.mark.parametrize("script", ["limit.py", "million.py", "curves.py"])
def test_the_benchmark_runs_at_a_tiny_size(script):
    command = [sys.executable, str(BENCHMARKS / script), "--smoke"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "itl" in done.stdout or "per_pick" in done.stdout
