"""A run's picks in a file, written as they are made, so that an interrupted run can go on.

The file is a log that only grows. Its first line says which run it belongs to, and each further
line is a pick. A line is handed to the system before the next pick is looked for, so a killed
process loses nothing. It reaches the disk within about a second, in case the power fails.

A run is known by its identity: all that determines the next pick. Not in it are k, least gains,
device, progress and floor, which change no next pick. Values that arrive by arithmetic are known
by weighted sums, since another device rounds them differently. Values that arrive as they were
given are known by their bytes.
"""

import hashlib
import json
import mmap
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.pool import Fingerprint
from tellmost.running.processes import Shard
from tellmost.running.writing import check_no_circle, written_whole
from tellmost.selecting.data import Pick, SelectionData, mean_of
from tellmost.selecting.limits import Task
from tellmost.shapes import Float, Int, Shaped

FORMAT = 1
MARK = "tellmost_checkpoint"  # the first key of the first line; its value is the format
LONGEST_HEADER = 2**20  # bytes: a longer first line belongs to some other file
LONGEST_PICK = 2**10  # bytes: a row and two floats take less than 120
SECONDS_BETWEEN_SYNCS = 1.0

ROUNDING = 1e-13
"""Other machines find gains that differ by this share of the first gain, if the noise is large.
Small noise multiplies it by prior variance / noise variance, since gains divide by what remains.
Measured on 2,000 problems with ratios down to 1e-12: a hundredth of it."""

WAY_OUT = "Delete it, or give another path."
GOOD_SO_FAR = "The lines before it are good, and a file cut there goes on from them."

Identity = Mapping[str, Any]
"""Plain values that can be written as JSON, each under words that say what it is."""

FOLLOWS_FROM = {
    "targets": {"normalize"},
    "values of the kernel": {"pool", "kernel", "targets", "normalize"},
    "noise": {"pool", "kernel", "candidates", "normalize"},  # a ratio is relative to these
    "targets as examples": {"pool", "kernel", "normalize", "targets", "target_weights"},
    "min_gain or min_gain_share": {"cost"},
}
"""Entries that change when another one does, and are then not worth naming."""


def check_checkpoint(path: Any) -> Path:
    """The path of a file that is there, or may be written."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise TypeError(f"checkpoint must be the path of a file; got {type(path).__name__}.")
    checked = Path(path)
    check_no_circle(checked, "checkpoint")
    if checked.exists() and not checked.is_file():
        kind = "folder" if checked.is_dir() else "device or pipe"
        raise ValueError(
            f"checkpoint must be the path of a file; {str(checked)!r} is a {kind}. Name a file in "
            f"a folder that exists."
        )
    if not checked.parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint must be a file in a folder that exists; there is no folder "
            f"{str(checked.parent)!r}. Make it first."
        )
    return checked


def open_log(path: Path, task: Task) -> "Checkpoint":
    """The log of this run, with its picks from before it was interrupted.

    Of several processes the first reads and writes it for all. At most so many picks are read as
    this call can have.
    """
    data, noise, shard, most = task.data, task.noise.of_rows, task.data.shard, task.stop.picks
    if most is None and not task.limits.replace:
        most = data.candidate_count + 1  # one too many has a row for the second time
    group = None if shard is None else shard.group
    writes = group is None or group.rank == 0
    identity, made = identify(task), list[Pick]()
    with data.together():
        if writes:
            made = read_picks(path, identity, most)
    if group is not None:
        told = json.loads(group.texts(json.dumps([asdict(pick) for pick in made]))[0])
        made = [Pick(**pick) for pick in told]
    rows = candidate_numbers(data, torch.tensor([pick.row for pick in made], dtype=torch.int64))
    if bool((rows < 0).any()):
        contradict(path, 1 + int((rows < 0).nonzero()[0]), "its row is no candidate")
    prior = mean_of(noise, shard) / task.noise.ratio
    return Checkpoint(
        path,
        identity,
        data,
        [replace(pick, row=row) for row, pick in zip(rows.tolist(), made, strict=True)],
        rounding=ROUNDING * (1.0 + prior * mean_of(1.0 / noise, shard)),
        least_scale=min(prior, 1.0),  # variances round relative to it, nats and correlations to 1
        writes=writes,
    )


def candidate_numbers(data: SelectionData, rows: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
    """Overall numbers of candidates, from those of pool rows; -1 for a row that is none."""
    first, candidates = 0 if data.shard is None else data.shard.first, data.candidates

    def here(own: Tensor) -> tuple[Tensor]:
        if candidates is None:
            return (own + first,)
        places = torch.searchsorted(candidates, own)
        padded = torch.cat([candidates, candidates.new_tensor([-1])])
        return (torch.where(padded[places] == own, places + first, -1),)

    shard = data.pool_shard
    found = here(rows)[0] if shard is None else shard.collect(rows, here)[0]
    return found.masked_fill(rows >= data.row_count, -1)


class Checkpoint:
    """The picks made before, and within ``with`` a place for new ones.

    ``rounding`` is the share of the first gain, or of ``least_scale`` if that is more, by which
    other machines find other gains.
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        data: SelectionData,
        made: Sequence[Pick],
        *,
        rounding: float,
        least_scale: float,
        writes: bool = True,
    ) -> None:
        self.made = made
        self.rounding, self.least_scale = rounding, least_scale
        self._path = path
        self._identity = identity
        self._data = data
        self._writes = writes  # False: another process of the group does

    def __enter__(self) -> "Checkpoint":
        if self._writes:
            if not self._path.exists():
                begin(self._path, self._identity)
            self._file = self._path.open("r+b")
            with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self._file.seek(content.rfind(b"\n") + 1)
            self._synced = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._writes:
            with self._file:
                self._file.flush()
                self._sync()

    def add(self, pick: Pick) -> None:
        row = int(self._data.pool_numbers(torch.tensor([pick.row])))  # of any process
        if not self._writes:
            return
        line = json.dumps({**asdict(pick), "row": row})  # floats as their repr: exact
        self._file.truncate()  # a torn last line is written anew
        self._file.write(f"{line}\n".encode())
        self._file.flush()
        if time.monotonic() - self._synced >= SECONDS_BETWEEN_SYNCS:
            self._sync()

    def contradict(self, number: int, why: str) -> NoReturn:
        """Refuse the log: its pick of this number, from 1, cannot have been made here."""
        contradict(self._path, number, why)

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()


def contradict(path: Path, number: int, why: str) -> NoReturn:
    raise ValueError(
        f"checkpoint {path.name} does not lead here: line {number + 1} is not a pick that this "
        f"run makes, since {why}. The file is damaged, or another version of Tellmost wrote it. "
        f"{WAY_OUT} {GOOD_SO_FAR}"
    )


def begin(path: Path, identity: Identity) -> None:
    """Write a file with its first line, whole or not at all."""
    with written_whole(path) as unfinished:
        unfinished.write_bytes(f"{json.dumps({MARK: FORMAT, 'run': identity})}\n".encode())


def read_picks(path: Path, identity: Identity, most: int | None) -> list[Pick]:
    """The picks of this run so far, with the numbers of their rows in the pool."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        check_run(path, read_header(path, file.readline(LONGEST_HEADER)), identity)
        lines = islice(lines_of(file), most)
        return [read_pick(path, line, number) for number, line in enumerate(lines, start=2)]


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """The lines that are left. One that is too long for a pick is empty.

    What follows the last line end was torn off.
    """
    while line := file.readline(LONGEST_PICK):
        is_whole = line.endswith(b"\n")
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_PICK)
        if line:
            yield line if is_whole else b""


def read_header(path: Path, first: bytes) -> Identity:
    """Read what the first line says about the run."""
    about: Any = None
    if first.endswith(b"\n") and first.startswith(f'{{"{MARK}"'.encode()):
        about = parsed(first)
    if not isinstance(about, dict):
        raise ValueError(
            f"checkpoint {path.name} exists, and is no checkpoint of Tellmost; it was left as it "
            f"is. Give another path."
        )
    version, run = about.get(MARK), about.get("run")
    if version != FORMAT or not isinstance(run, dict):
        raise ValueError(
            f"checkpoint {path.name} was written by another version of Tellmost (format "
            f"{version}, this one reads {FORMAT}). {WAY_OUT}"
        )
    return run


def check_run(path: Path, stored: Identity, own: Identity) -> None:
    """Refuse the checkpoint of another run, and name what differs."""
    names = differences(stored, own)
    if names:
        listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
        raise ValueError(
            f"checkpoint {path.name} belongs to another run, which differs in {listed}. {WAY_OUT}"
        )


def read_pick(path: Path, line: bytes, number: int) -> Pick:
    match parsed(line):
        case {"row": int(row), "gain": float(gain), "uncertainty": float(uncertainty)}:
            if 0 <= row < 2**63 and isfinite(gain) and isfinite(uncertainty):
                return Pick(row, gain, uncertainty)
    raise ValueError(
        f"checkpoint {path.name} is damaged: line {number} is no pick. {WAY_OUT} {GOOD_SO_FAR}"
    )


def parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def identify(task: Task) -> Identity:
    """All that determines the next pick.

    Least gains do so only where costs rank: if the best row falls below, a dearer one is next.
    """
    data, rule, noise, limits, stop = task.data, task.rule, task.noise, task.limits, task.stop
    ranks_per_cost = limits.cost is not None and limits.ranks_per_cost
    shard, observed = data.shard, data.observed
    if noise.scalar is None:
        variance: Any = digest_of_all(noise.of_pool, data.pool_shard)
    else:
        variance = sums_of(torch.tensor(noise.scalar, dtype=torch.float64))
    return {
        "pool": data.known.fingerprint,
        "rule": f"{rule.name}: {describe(rule)}",
        "kernel": "gaussian" if data.is_table else describe(data.kernel),
        "values of the kernel": sums_of(kernel_values(data)),
        "normalize": data.normalize,
        "targets": None if data.targets is None else sums_of(data.targets),
        "target_weights": None if data.target_weights is None else sums_of(data.target_weights),
        "targets as examples": None
        if (found := data.examples) is None
        else sums_of(torch.tensor([found.bandwidth, found.gain], dtype=torch.float64)),
        "noise": variance,
        "candidates": digest_of_candidates(data),
        "observed": [digest(observed.indices), digest(observed.points)],
        "cost": digest_of_all(limits.cost, shard),
        "budget": limits.budget,
        "groups": digest_of_all(limits.group, shard),
        "max_per_group": limits.max_per_group,
        "replace": limits.replace,
        "dedupe": limits.dedupe,
        "conditional": task.conditional,
        "min_gain or min_gain_share": [stop.min_gain, stop.min_gain_share]
        if ranks_per_cost
        else None,
    }


def differences(stored: Identity, own: Identity) -> list[str]:
    """Name what differs. What only follows from another difference is left out."""
    names = [*own, *(name for name in stored if name not in own)]
    differ = [n for n in names if not same(stored.get(n), own.get(n))]
    return [name for name in differ if not FOLLOWS_FROM.get(name, set()) & set(differ)]


def same(stored: Any, own: Any) -> bool:
    """Say whether two entries are the same. Sums may differ by rounding."""
    if not isinstance(own, dict) or not isinstance(stored, dict):
        return bool(stored == own)
    if stored.keys() != own.keys() or stored["shape"] != own["shape"]:
        return False
    allowed = numerics.SAME_VALUES * own["largest"]
    return all(
        isinstance(stored[name], float) and abs(stored[name] - own[name]) <= allowed
        for name in ("sum", "largest")
    )


def describe(thing: object) -> str:
    """Print a rule or a kernel without addresses and devices, or else its attributes."""
    text = repr(thing)
    if type(thing).__repr__ is object.__repr__:
        text = f"{type(thing).__qualname__}({getattr(thing, '__dict__', {})})"
    return re.sub(r" at 0x[0-9a-fA-F]+|, device='[^']*'", "", text)


def kernel_values(data: SelectionData) -> Float[Tensor, " v"]:
    """Covariances of some rows and all targets with some of both."""
    rows, shard = spaced(data.row_count), data.pool_shard
    if shard is None:
        some = data.pool.rows(rows)
    else:
        (some,) = shard.collect(rows, lambda own: (data.pool.rows(own),))
    points = known = some
    if data.targets is not None:
        points = torch.cat([some, data.targets])
        of_targets = spaced(len(data.targets)).to(data.targets.device)
        known = torch.cat([some, data.targets[of_targets]])
    values = data.kernel.diagonal(points), data.kernel.block(points, known)
    return torch.cat([v.reshape(-1) for v in values])


def spaced(count: int) -> Int[Tensor, " p"]:
    """Some of the numbers up to ``count``, evenly spaced."""
    return torch.arange(0, count, max(count // numerics.PROBES, 1))[: numerics.PROBES]


def sums_of(values: Tensor) -> dict[str, Any]:
    """Their shape, a weighted sum and the largest tell values apart up to rounding."""
    flat = values.reshape(-1).to(device="cpu", dtype=torch.float64).numpy()
    weights = 1.0 + np.arange(len(flat)) * 0.6180339887498949 % 1.0  # no two alike
    largest = float(np.abs(flat).max(initial=0.0))
    return {"shape": list(values.shape), "sum": float(weights @ flat), "largest": largest}


def digest(values: Shaped[Tensor, "..."] | None) -> str | None:
    """A short name for values that arrive as they were given."""
    if values is None:
        return None
    array = np.ascontiguousarray(values.cpu().numpy())
    start = hashlib.blake2b(repr((array.shape, str(array.dtype))).encode(), digest_size=8)
    start.update(array.tobytes())
    return start.hexdigest()


def digest_of_candidates(data: SelectionData) -> str | None:
    """A short name for the rows that may be picked; None for all."""
    if data.candidate_count == data.row_count:
        return None
    here = torch.arange(len(data.pool)) if data.candidates is None else data.candidates
    first = 0 if data.pool_shard is None else data.pool_shard.first
    return digest_of_all(here + first, data.shard)


def digest_of_all(values: Shaped[Tensor, " c"] | None, shard: Shard | None) -> str | None:
    """A short name for numbers of which each process has its part; nobody needs all of them."""
    if values is None:
        return None
    sums = Fingerprint(values.device)
    if len(values):
        sums.add(0 if shard is None else shard.first, values)
    if shard is None:
        return sums.name((len(values),))
    return sums.name((shard.total,), shard.group)
