"""What the benchmarks share: problems, the machine, timing, results."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import tellmost as tm
from tellmost_reproduction.frame.pages import cpu_model

RESULTS = Path(__file__).parent / "results"
NOISE_STD = 0.1


def clustered(n: int, d: int, m: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Float32 unit rows in 50 clusters; the targets come from five of them."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(50, d, generator=generator)
    return around(centres, n, generator), around(centres[:5], m, generator)


def around(centres: Tensor, count: int, generator: torch.Generator) -> Tensor:
    rows = torch.empty(count, centres.shape[1])
    for start in range(0, count, 10_000):  # in pieces: memory is measured elsewhere
        part = rows[start : start + 10_000]
        part.normal_(generator=generator).mul_(0.7)
        part += centres[torch.randint(len(centres), (len(part),), generator=generator)]
        part /= part.norm(dim=1, keepdim=True)
    return rows


def seconds(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Wall-clock times of a call: the median is reported, the least shows the noise."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return {"median": statistics.median(times), "least": min(times)}


def machine() -> dict[str, object]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tellmost": tm.__version__,
        "load": os.getloadavg()[0],
    }


def save(name: str, result: dict) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")
    print(f"wrote {path.name}")
