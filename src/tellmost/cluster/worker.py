"""A worker of a cluster: a process that calls ``select`` with its own files, and answers."""

import os
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch._C._distributed_c10d import TCPStore

from tellmost.rows.opening import list_files
from tellmost.rows.sources import NamedArray
from tellmost.running import workers
from tellmost.running.memory import available
from tellmost.selecting.select import select_quietly
from tellmost.selecting.selection import Selection

FOR_EVER = timedelta(days=30)
"""Workers wait for one another so long: the driver notices what is wrong."""


@dataclass(frozen=True)
class Home:
    """Where a worker runs."""

    node: str
    address: str
    pid: int


@dataclass(frozen=True)
class Meeting:
    """Where the workers of a group meet, how many they are, and which of them this is."""

    rank: int
    size: int
    host: str
    port: int


@dataclass(frozen=True)
class Share:
    """The work of one worker: its files, its part of what has an entry per row, and the picks
    that were made before."""

    per_row: dict[str, np.ndarray]
    files: NamedArray
    log: bytes
    log_name: str
    neighbours: int  # workers on the same machine, itself among them
    threads: int
    has_gpu: bool


@dataclass(frozen=True)
class Beat:
    """A sign of life: blocks worked on, seconds of the processor, the most memory that was taken,
    and what is new in the log."""

    blocks: int = 0
    seconds: float = 0.0
    most_memory: int = 0
    log: bytes = b""


class Worker:
    """It runs in a Ray actor. One thread selects, and others answer meanwhile."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tellmost-")
        self._log = Path(self._folder.name)
        os.chdir(self._folder.name)  # all workers of a group call their logs alike

    def home(self) -> Home:
        import ray

        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        return Home(ray.get_runtime_context().get_node_id(), address, os.getpid())

    def open_meeting(self, size: int) -> int:
        """Open the port where a group meets; only the first worker does."""
        self._store = TCPStore("0.0.0.0", 0, size, is_master=True, wait_for_workers=False)
        return self._store.port

    def select(self, options: dict[str, Any], share: Share, meeting: Meeting) -> Selection | None:
        """Select together with the others. Only the first worker returns what was selected."""
        torch.set_num_threads(share.threads)
        self._log = Path(self._folder.name) / share.log_name
        if meeting.rank == 0 and share.log:
            self._log.write_bytes(share.log)
        store = TCPStore(meeting.host, meeting.port, meeting.size, is_master=False)
        listen_at(self.home().address)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if share.has_gpu else "gloo",
            store=store,
            rank=meeting.rank,
            world_size=meeting.size,
            timeout=FOR_EVER,
        )
        try:
            chosen = select_quietly(share.files, **self._options(options, share))
        finally:
            dist.destroy_process_group()
        return chosen if meeting.rank == 0 else None

    def _options(self, options: dict[str, Any], share: Share) -> dict[str, Any]:
        own: dict[str, Any] = {
            "group": dist.group.WORLD,
            "checkpoint": share.log_name,
            "progress": False,
        }
        if share.has_gpu and options.get("device") is None:
            own["device"] = "cuda"
        elif options.get("memory") is None:
            own["memory"] = available(torch.device("cpu")) // (2 * share.neighbours)
        return options | share.per_row | own

    def beat(self, known: int) -> Beat:
        """What was done so far, and the whole lines of the log beyond those that are known."""
        from resource import RUSAGE_SELF, getrusage

        new, kilobytes = b"", getrusage(RUSAGE_SELF).ru_maxrss
        with suppress(FileNotFoundError, IsADirectoryError), self._log.open("rb") as file:
            file.seek(known)
            new = file.read()
        lines = new[: new.rfind(b"\n") + 1]
        return Beat(workers.items_done(), time.process_time(), 1024 * kilobytes, lines)


def listen_at(address: str) -> None:
    """Let gloo use the interface with this address. A machine's own name may mean another one."""
    if "GLOO_SOCKET_IFNAME" in os.environ or not hasattr(socket, "if_nameindex"):
        return
    try:
        import fcntl
    except ImportError:
        return
    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
            request = name.encode()[:15].ljust(40, b"\0")
            found = fcntl.ioctl(asking.fileno(), 0x8915, request)  # SIOCGIFADDR
            if socket.inet_ntoa(found[20:24]) == address:
                os.environ["GLOO_SOCKET_IFNAME"] = name


def count_rows(named: NamedArray) -> list[tuple[str, int]]:
    """The files of a pool, in their order, and how many rows each has."""
    return [file for file in list_files(named, "pool") if file[1]]
