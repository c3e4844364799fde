"""The machine that an experiment ran on, in words: beside every time that is reported."""

import os
import platform
from pathlib import Path

import torch


def cpu_model() -> str:
    """The model's name, which ``platform`` does not know on Linux."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def describe_machine(threads: int | None = None) -> str:
    """``threads`` of each process that did the work; None: as many as torch has in this one."""
    threads = torch.get_num_threads() if threads is None else threads
    return (
        f"{threads} thread{'s' * (threads != 1)} of {os.cpu_count()} cores, {cpu_model()}, other "
        f"work on the machine not excluded"
    )
