"""A run's picks in a file, written as they are made, so that an interrupted run can go on.

The file is a log that only grows. Its first line says which run it belongs to; each further line
is a pick. A line is handed to the system before the next pick is looked for, so a killed process
loses nothing; it reaches the disk within about a second, against a loss of power.

What determines the picks of a run, in short: to know a run again, and to say what differs.

Not in it is what changes no next pick: k, least gains, device, progress, floor. What arrives here
by arithmetic is known by weighted sums, since another device rounds it differently; what arrives
as it was given is known by its bytes.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels.kernel import Points
from tellmost.rules import Rule
from tellmost.running.processes import Shard
from tellmost.running.writing import written_whole
from tellmost.selecting.data import SelectionData, SelectionNoise
from tellmost.selecting.limits import Limits, Stop
from tellmost.selecting.loop import Pick
from tellmost.shapes import Float, Int, Shaped

Identity = Mapping[str, Any]
"""Plain values that can be written as JSON, each under the words for what it is."""

FOLLOWS_FROM = {
    "targets": {"normalize"},
    "values of the kernel": {"pool", "kernel", "targets", "normalize"},
    "noise": {"pool", "kernel", "candidates", "normalize"},  # a ratio is relative to these
    "min_gain or min_gain_share": {"cost"},
}
"""What changes when something else does, and is then not worth naming."""


def identify(
    data: SelectionData,
    rule: Rule,
    noise: SelectionNoise,
    limits: Limits,
    stop: Stop,
    *,
    conditional: bool,
) -> Identity:
    """What determines the picks; least gains only where costs rank: a dearer row is then next."""
    ranks_per_cost = limits.cost is not None and limits.ranks_per_cost
    shard, observed = data.shard, data.observed
    cost, group = (_whole(values, shard) for values in (limits.cost, limits.group))
    return {
        "pool": data.known.fingerprint,
        "rule": f"{rule.name}: {describe(rule)}",
        "kernel": describe(data.kernel),
        "values of the kernel": sums_of(kernel_values(data)),
        "normalize": data.normalize,
        "targets": None if data.targets is None else sums_of(data.targets),
        "target_weights": None if data.target_weights is None else sums_of(data.target_weights),
        "noise": noise_of(data, noise),
        "candidates": digest(data.all_candidates()),
        "observed": [digest(observed.indices), digest(observed.points)],
        "cost": digest(cost),
        "budget": limits.budget,
        "groups": digest(group),
        "max_per_group": limits.max_per_group,
        "replace": limits.replace,
        "conditional": conditional,
        "min_gain or min_gain_share": [stop.min_gain, stop.min_gain_share]
        if ranks_per_cost
        else None,
    }


def _whole(values: Tensor | None, shard: Shard | None) -> Tensor | None:
    """The entries of all rows, on all processes."""
    return values if values is None or shard is None else shard.whole(values)


def differences(stored: Identity, own: Identity) -> list[str]:
    """The words for what differs, without what only follows from something else that does."""
    names = [*own, *(name for name in stored if name not in own)]
    differ = [n for n in names if not same(stored.get(n), own.get(n))]
    return [name for name in differ if not FOLLOWS_FROM.get(name, set()) & set(differ)]


def same(stored: Any, own: Any) -> bool:
    """Whether two entries are; sums may differ by rounding."""
    if not isinstance(own, dict) or not isinstance(stored, dict):
        return bool(stored == own)
    if stored.keys() != own.keys() or stored["shape"] != own["shape"]:
        return False
    allowed = numerics.SAME_VALUES * max(stored["largest"], own["largest"])
    return all(abs(stored[name] - own[name]) <= allowed for name in ("sum", "largest"))


def describe(thing: object) -> str:
    """A rule's or a kernel's repr without addresses and devices; its attributes if it has none."""
    text = repr(thing)
    if type(thing).__repr__ is object.__repr__:
        text = f"{type(thing).__qualname__}({getattr(thing, '__dict__', {})})"
    return re.sub(r" at 0x[0-9a-fA-F]+|, device='[^']*'", "", text)


def noise_of(data: SelectionData, noise: SelectionNoise) -> Any:
    if noise.scalar is not None:
        return number(noise.scalar)
    return digest(_whole(noise.of_pool, data.pool_shard))


def kernel_values(data: SelectionData) -> Float[Tensor, " v"]:
    """Covariances of some rows and all targets, with some of both."""
    rows, shard = spaced(data.row_count), data.pool_shard
    if shard is None:
        some = data.pool.rows(rows)
    else:
        (some,) = shard.collect(rows, lambda own: (data.pool.rows(own),))
    points: Points = some
    known: Points = some
    if data.targets is not None:
        points = torch.cat([some, data.targets])
        of_targets = spaced(len(data.targets)).to(data.targets.device)
        known = torch.cat([some, data.targets[of_targets]])
    values = data.kernel.diagonal(points), data.kernel.block(points, known)
    return torch.cat([v.reshape(-1) for v in values])


def spaced(count: int) -> Int[Tensor, " p"]:
    """Some of so many numbers, evenly spaced."""
    return torch.arange(0, count, max(count // numerics.PROBES, 1))[: numerics.PROBES]


def sums_of(values: Tensor) -> dict[str, Any]:
    """What tells values apart up to rounding: their shape, a weighted sum, the largest."""
    flat = values.reshape(-1).to(device="cpu", dtype=torch.float64).numpy()
    weights = 1.0 + np.arange(len(flat)) * 0.6180339887498949 % 1.0  # no two alike
    largest = float(np.abs(flat).max(initial=0.0))
    return {"shape": list(values.shape), "sum": float(weights @ flat), "largest": largest}


def number(value: float) -> dict[str, Any]:
    """One number that arrives by arithmetic."""
    return {"shape": [], "sum": value, "largest": abs(value)}


def digest(values: Shaped[Tensor, "..."] | None) -> str | None:
    """A short name for values that arrive as they were given."""
    if values is None:
        return None
    array = np.ascontiguousarray(values.cpu().numpy())
    start = hashlib.blake2b(repr((array.shape, str(array.dtype))).encode(), digest_size=8)
    start.update(array.tobytes())
    return start.hexdigest()


FORMAT = 1
MARK = "tellmost_checkpoint"  # the first key of the first line; its value is the format
LONGEST_HEADER = 2**20  # bytes: a larger first line is of some other file
SECONDS_BETWEEN_SYNCS = 1.0
WAY_OUT = "Delete it, or give another path."


class Checkpoint:
    """The picks made before, and within ``with`` a place for new ones."""

    def __init__(
        self, path: Path, identity: Identity, n: int, candidates: Int[Tensor, " c"] | None
    ) -> None:
        self._path = path
        self._identity = identity
        self._candidates = candidates
        content = _read(path, identity) if path.exists() else _Content([], 0)
        self._size = content.size
        places = self._places(content.picks, n)
        self.made: Sequence[Pick] = [
            replace(pick, row=row) for row, pick in zip(places, content.picks, strict=True)
        ]

    def __enter__(self) -> "Checkpoint":
        if self._size == 0:
            self._size = _begin(self._path, self._identity)
        self._file = self._path.open("r+b")
        self._file.seek(self._size)
        self._synced = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            self._file.flush()
            self._sync()

    def add(self, pick: Pick) -> None:
        row = pick.row if self._candidates is None else int(self._candidates[pick.row])
        line = json.dumps({**asdict(pick), "row": row})  # floats as their repr: exact
        self._file.truncate()  # a torn last line, which is written anew
        self._file.write(f"{line}\n".encode())
        self._file.flush()
        if time.monotonic() - self._synced >= SECONDS_BETWEEN_SYNCS:
            self._sync()

    def contradict(self, number: int) -> NoReturn:
        _contradict(self._path, number)

    def _places(self, picks: Sequence[Pick], n: int) -> list[int]:
        """Numbers among the candidates, from numbers of pool rows."""
        rows = torch.tensor([pick.row for pick in picks], dtype=torch.int64)
        places, is_known = rows, rows < n
        if self._candidates is not None:
            last = len(self._candidates) - 1
            places = torch.searchsorted(self._candidates, rows).clamp_(max=last)
            is_known = self._candidates[places] == rows
        if not bool(is_known.all()):
            self.contradict(1 + int((~is_known).nonzero()[0]))
        return places.tolist()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()


@dataclass
class FollowedCheckpoint:
    """The picks in a checkpoint that another process of the group reads and writes."""

    path: Path
    made: Sequence[Pick]

    def add(self, pick: Pick) -> None:
        """Nothing to do."""

    def contradict(self, number: int) -> NoReturn:
        _contradict(self.path, number)

    def __enter__(self) -> "FollowedCheckpoint":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


def open_checkpoint(
    path: Path,
    identity: Identity,
    n: int,
    candidates: Int[Tensor, " c"] | None,
    shard: Shard | None,
) -> Checkpoint | FollowedCheckpoint:
    """The picks made before; of several processes the first reads them, and tells the others."""
    if shard is None:
        return Checkpoint(path, identity, n, candidates)
    log, group = None, shard.group
    with group.together():
        if group.rank == 0:
            log = Checkpoint(path, identity, n, candidates)
    told = group.texts("" if log is None else json.dumps([asdict(pick) for pick in log.made]))
    if log is not None:
        return log
    return FollowedCheckpoint(path, [Pick(**pick) for pick in json.loads(told[0])])


def _contradict(path: Path, number: int) -> NoReturn:
    raise ValueError(
        f"checkpoint {path.name} does not lead here: its pick {number} is not one that this run "
        f"makes, so another version of Tellmost wrote it, or it is damaged. {WAY_OUT}"
    )


@dataclass(frozen=True)
class _Content:
    picks: list[Pick]  # with numbers of pool rows
    size: int  # bytes of whole lines


def _begin(path: Path, identity: Identity) -> int:
    """Write a file with its first line, whole or not at all; its size."""
    header = f"{json.dumps({MARK: FORMAT, 'run': identity})}\n".encode()
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        file.write(header)
        file.flush()
        os.fsync(file.fileno())
    return len(header)


def _read(path: Path, identity: Identity) -> _Content:
    """The picks of this run, or an error that says why there are none."""
    with path.open("rb") as file:
        first = file.readline(LONGEST_HEADER)
        _check_run(path, _header(path, first), identity)
        rest = file.read()
    *lines, torn = rest.split(b"\n")
    picks = [_pick(path, line, number) for number, line in enumerate(lines, start=2)]
    return _Content(picks, len(first) + len(rest) - len(torn))


def _header(path: Path, first: bytes) -> Identity:
    """What the first line says about the run."""
    about: Any = None
    if first.endswith(b"\n") and first.startswith(f'{{"{MARK}"'.encode()):
        about = _parsed(first)
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


def _check_run(path: Path, stored: Identity, own: Identity) -> None:
    names = differences(stored, own)
    if names:
        listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
        raise ValueError(
            f"checkpoint {path.name} belongs to another run, which differs in {listed}. {WAY_OUT}"
        )


def _pick(path: Path, line: bytes, number: int) -> Pick:
    match _parsed(line):
        case {"row": int(row), "gain": float(gain), "uncertainty": float(uncertainty)}:
            if 0 <= row < 2**63:
                return Pick(row, gain, uncertainty)
    raise ValueError(
        f"checkpoint {path.name} is damaged: line {number} is no pick. {WAY_OUT} The lines before "
        f"it are good, and a file cut there goes on from them."
    )


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
