"""``tellmost doctor`` says what is installed, what it runs on, and whether it works here.

The self-check selects from a random pool by several rules on each device, with one thread and with
all. The picks must be those of a float64 selection that keeps the whole covariance matrix.
"""

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import numpy as np
import torch

from tellmost import __version__
from tellmost.running.memory import available, in_words
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Float, Int

NOT_FOR_USERS = {"test", "docs", "release"}
REQUIREMENT = re.compile(r"([\w.-]+)(\[[^]]*\])?.*extra == [\"']([\w-]+)[\"']")
ROWS, FEATURES, TARGETS, PICKS = 1_500, 32, 20, 30
NOISE_STD = 0.3

Rows = Float[np.ndarray, "n d"]
Picks = Int[np.ndarray, " k"]


def examine() -> tuple[str, bool]:
    """All that there is to say, and whether the self-check found nothing."""
    lines, is_well = [*versions(), "", *machine(), "", *extras(), ""], True
    for said, is_right in self_check():
        lines.append(f"{'ok' if is_right else 'WRONG':6}{said}")
        is_well &= is_right
    return "\n".join(lines), is_well


def versions() -> list[str]:
    return [
        f"tellmost {__version__}",
        *(f"{name:9}{installed(name)}" for name in ("torch", "numpy", "triton")),
        f"python   {platform.python_version()} on {platform.platform()}",
    ]


def machine() -> list[str]:
    """Processors, threads, memory and GPUs, as a selection would find them."""
    cpu = torch.device("cpu")
    lines = [
        f"cpu: {os.cpu_count()} processors, {torch.get_num_threads()} threads for a selection, "
        f"{in_words(available(cpu))} of memory free"
    ]
    for device in devices()[1:]:
        name = torch.cuda.get_device_name(device)
        lines.append(f"{device}: {name}, {in_words(available(device))} of memory free")
    if len(lines) == 1:
        lines.append("no GPU that torch can use")
    return lines


def devices() -> list[torch.device]:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.device("cpu"), *(torch.device("cuda", number) for number in range(count))]


def extras() -> list[str]:
    """Each extra with its packages, and how to install what is missing."""
    packages: dict[str, list[str]] = {}
    if installed("tellmost") == "-":
        return ["tellmost runs from its source and is not installed: its extras are not known"]
    for requirement in requires("tellmost") or []:
        if found := REQUIREMENT.match(requirement):
            name, _, extra = found.groups()
            if extra not in NOT_FOR_USERS and name != "tellmost":
                packages.setdefault(extra, []).append(name)
    lines = []
    for extra, names in packages.items():
        is_whole = all(installed(name) != "-" for name in names)
        state = "installed" if is_whole else f'pip install "tellmost[{extra}]"'
        listed = ", ".join(f"{name} {installed(name)}" for name in names)
        lines.append(f"{extra:10}{state}: {listed}")
    return lines


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


def self_check() -> Iterator[tuple[str, bool]]:
    """What was compared, and whether it agreed."""
    generator = np.random.default_rng(0)
    pool = generator.standard_normal((ROWS, FEATURES), dtype=np.float32)
    targets = generator.standard_normal((TARGETS, FEATURES), dtype=np.float32)
    threads = torch.get_num_threads()
    for rule in ("vtl", "itl-y"):
        expected = dense_picks(pool, targets, rule)
        for device in devices():
            for count in {1, threads} if device.type == "cpu" else {threads}:
                torch.set_num_threads(count)
                picks = chosen_picks(pool, targets, rule, device)
                torch.set_num_threads(threads)
                said = f"{rule} on {device}, threads: {count}"
                yield f"{said}, picks as by the dense method", np.array_equal(picks, expected)


def chosen_picks(pool: Rows, targets: Rows, rule: str, device: torch.device) -> Picks:
    meant: dict[str, Any] = {
        "rule": rule,
        "kernel": "linear",
        "noise_std": NOISE_STD,
        "device": device,
    }
    return select_quietly(pool, targets, PICKS, **meant).indices


def dense_picks(pool: Rows, targets: Rows, rule: str) -> Picks:
    r"""Greedy picks from the covariance matrix K of pool and targets, in float64.

    .. math:: \sum_a \frac{K_{xa}^2}{K_{xx} + \rho^2}
        \quad\text{or}\quad \tfrac12 \log \frac{K_{xx} + \rho^2}{K_{xx \mid y_A} + \rho^2}
    """
    points, n, noise = np.vstack([pool, targets]).astype(float), len(pool), NOISE_STD**2
    K, picks = points @ points.T, np.empty(0, dtype=np.int64)
    for _ in range(PICKS):
        variance, across = K.diagonal()[:n] + noise, K[:n, n:]
        if rule == "vtl":
            gains = (across**2).sum(axis=1) / variance
        else:
            noisy = K[n:, n:] + noise * np.eye(len(targets))
            known = (across * np.linalg.solve(noisy, across.T).T).sum(axis=1)
            gains = 0.5 * np.log(variance / (variance - known))
        gains[picks] = -np.inf
        best = int(gains.argmax())
        picks = np.append(picks, best)
        K -= np.outer(K[:, best], K[best]) / (K[best, best] + noise)
    return picks
