"""Which Ray cluster, and how much of it: the value that ``select`` takes as ``cluster``."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tellmost.rows.checks import check_number, check_positive, check_whole
from tellmost.running.extras import import_extra
from tellmost.selecting.selection import Selection

PROBE_SECONDS = 5.0
"""A cluster has to answer within this time. Ray itself tries for minutes."""

OBJECT_BYTES = 2**28
"""Room for arguments in the memory that a local cluster shares. Rows do not go through it."""


@dataclass(frozen=True)
class Ray:
    """Workers in Ray actors: each holds a contiguous run of the files, and they pick together.

    Args:
        workers: how many processes hold the files.
        cpus_per_worker: so many processors, and threads, each has.
        gpus_per_worker: so many GPUs each has; with one it works there.
        address: None starts a cluster on this machine, or uses one that this program is connected
            to. "auto" joins the one that runs here, such as inside ``ray job submit``. Or
            "ray://host:10001", or "host:6379".
        timeout: a worker that says nothing for so many seconds, or workers of which none does
            anything for so long, are given up. A long pass is no reason: blocks are counted.
        retries: so often a new group of workers takes over.
    """

    workers: int
    cpus_per_worker: int = 1
    gpus_per_worker: float = 0
    address: str | None = None
    timeout: float = 60.0
    retries: int = 3

    def __post_init__(self) -> None:
        for name in ("workers", "cpus_per_worker"):
            check_whole(getattr(self, name), name)
        check_number(self.gpus_per_worker, "gpus_per_worker", least=0)
        check_positive(self.timeout, "timeout")
        check_whole(self.retries, "retries", 0)
        if self.address not in (None, "auto") and _port_of(str(self.address)) is None:
            raise ValueError(
                f"address must be None, 'auto', 'ray://host:10001' or 'host:6379'; got "
                f"{self.address!r}."
            )

    def select(self, pool: Any, targets: Any, options: dict[str, Any]) -> Selection:
        """What ``tellmost.select`` returns for a pool of files, from the workers."""
        from tellmost.cluster.driver import run

        return run(self, pool, targets, options)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Ray, connected to the cluster. What was started here ends here."""
        if self.address is None and os.environ.get("RAY_AUTH_MODE", "token") != "token":
            raise ValueError(
                "cluster=Ray(address=None) starts Ray on this machine with token authentication, "
                "since its ports are open on the machine's address; RAY_AUTH_MODE is "
                f"{os.environ['RAY_AUTH_MODE']!r}. Unset it, or start Ray yourself and pass "
                "address='auto'."
            )
        if self.address is None and "ray" not in sys.modules:  # it looks when it is loaded
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        need = "cluster=Ray(...) needs ray"
        import_extra("ray.util.scheduling_strategies", "ray", need)
        ray = import_extra("ray", "ray", need)
        is_ours = not ray.is_initialized()
        if is_ours:
            self._connect(ray)
        try:
            yield ray
        finally:
            if is_ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is not None:
            check_answers(self.address)
            ray.init(address=self.address, **({} if "://" in self.address else quiet))
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=self.workers * self.cpus_per_worker,
            object_store_memory=OBJECT_BYTES,
            include_dashboard=False,
            **quiet,
        )
        from ray._private.authentication import authentication_utils

        if not authentication_utils.is_token_auth_enabled():
            ray.shutdown()
            raise RuntimeError(
                "Ray started without token authentication, since it was loaded before; set "
                "RAY_AUTH_MODE=token in the environment of this program."
            )


def _port_of(address: str) -> tuple[str, int] | None:
    """The host and the port in an address."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        return None if parts.hostname is None or not parts.port else (parts.hostname, parts.port)
    except ValueError:  # a port that is no number
        return None


def check_answers(address: str) -> None:
    """Refuse an address where nobody listens."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "auto")
    place = _port_of(address)
    if place is None:  # Ray looks for what runs on this machine
        return
    try:
        socket.create_connection(place, PROBE_SECONDS).close()
    except OSError as error:
        raise ConnectionError(
            f"address: nobody answers at {place[0]}:{place[1]} ({error}). Is the cluster up, and "
            f"its port open from here?"
        ) from error
