"""The benchmarks run, at a size that takes seconds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


SAID = {
    "limit.py": "itl",
    "million.py": "itl",
    "operations.py": "of_plain",
    "curves.py": "per_pick",
    "gpu.py": "same picks",
    "gpu_equality.py": "12 problems, 0 with other picks",
    "streaming.py": "same picks",
    "dense_rounds.py": "same picks",
    "safe_optimizer.py": "per ask about",
    "unknown_priors.py": "mixture",
    "busy.py": "select_busy",
    "safe_speed.py": "box in 2d",
    "which_targets.py": "regret_3",
    "soak/run.py": "dense picks",
    "retrieval/tuning.py": "no tuning",
}


@pytest.mark.process
@pytest.mark.parametrize("script", SAID)
def test_the_benchmark_runs_at_a_tiny_size(script):
    command = [sys.executable, str(BENCHMARKS / script), "--smoke"]
    one_thread = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
    }  # threads that wait for each other are slow
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
    assert done.returncode == 0, done.stderr
    assert SAID[script] in done.stdout
    assert "OTHER PICKS" not in done.stdout
