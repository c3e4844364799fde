"""The driver of a selection on a cluster: it forms groups of workers, watches them, and goes on.

A group holds the files between its workers, and picks as any processes do that share a pool. The
first worker takes down each pick in a log, whose lines the driver fetches as they come. Whatever
happens to a worker or its machine ends the group: a new one, smaller if need be, repeats the picks
of the log and goes on from there. So the result is that of one process, whatever was lost.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.cluster.picks import PickLog
from tellmost.cluster.worker import Beat, Home, Meeting, Share, Worker, count_rows
from tellmost.rows.sources import NamedArray
from tellmost.running.progress import ProgressLine
from tellmost.running.reading import reason_of
from tellmost.selecting.selection import Selection

if TYPE_CHECKING:
    from tellmost.cluster.ray_cluster import Ray

LOOK_SECONDS = 0.25
"""The driver looks at the workers so often."""

START_SECONDS = 180.0
"""A worker has so long to start, which includes loading torch from a slow disk."""

AT_WORK = 0.2
"""A worker that took this share of a processor's time is at work, whatever its blocks say."""

PER_ROW = ("noise_std", "cost", "groups", "candidates")
"""Arguments that may have an entry per row, of which a worker gets those of its rows."""


class LostError(Exception):
    """Something happened to a worker, and a new group may do better."""


def run(cluster: "Ray", pool: Any, targets: Any, options: dict[str, Any]) -> Selection:
    """Select on the cluster, in as many groups of workers as it takes."""
    options = dict(options)
    if options.pop("group", None) is not None:
        raise ValueError("cluster starts processes of its own, and group names yours: give one.")
    for name in ("text", "embed"):
        if options.pop(name, None) is not None:
            raise ValueError(
                f"with cluster the files must hold vectors; got {name}. Embed the texts first, "
                f"with tm.embed, and write the vectors to files."
            )
    named = NamedArray(pool, options.pop("column", None), options.pop("id_column", None))
    named = pool if isinstance(pool, NamedArray) else named
    named = replace(named, given=files_of(named.given))
    log = PickLog(options.pop("checkpoint", None))
    progress = options.pop("progress", None)
    if (named.name, named.id_column) != (None, None) and targets is not None:
        targets = replace(named, given=targets, required=False)
    options["targets"] = absolute(targets)
    per_row = {name: np.asarray(options.pop(name)) for name in PER_ROW if has_rows(options, name)}
    with cluster.connected() as ray, ExitStack() as open_now:
        files = count_files(ray, cluster, named)
        line = open_now.enter_context(ProgressLine(progress, done_before=log.count))
        job = Job(ray, cluster, named, files, options, per_row, log, line)
        job.check()
        return job.carry_out()


def count_files(ray: Any, cluster: "Ray", named: NamedArray) -> list[tuple[str, int]]:
    """The files and their rows; counted in the cluster, if this program is outside of it."""
    if not str(cluster.address).startswith("ray://"):
        return count_rows(named)
    try:
        return ray.get(ray.remote(num_cpus=0)(count_rows).remote(named))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


def absolute(given: Any) -> Any:
    """Local paths as they are found from anywhere on this machine."""
    if isinstance(given, NamedArray):
        return replace(given, given=absolute(given.given))
    if isinstance(given, list | tuple) and any(isinstance(x, str | os.PathLike) for x in given):
        return [absolute(entry) for entry in given]
    is_local = isinstance(given, os.PathLike) or (isinstance(given, str) and "://" not in given)
    return str(Path(given).absolute()) if is_local else given


def files_of(pool: Any) -> Any:
    """The files that a pool consists of. Workers open them themselves."""
    if type(pool).__module__.startswith("ray.data"):
        return absolute(files_of_dataset(pool))
    entries = pool if isinstance(pool, list | tuple) else [pool]
    if not all(isinstance(entry, str | os.PathLike) for entry in entries):
        raise TypeError(
            f"with cluster the pool must be files that all workers can open: paths, patterns, "
            f"folders or URLs; got {type(pool).__name__}. Write the rows to files first."
        )
    return absolute(pool)


def files_of_dataset(dataset: Any) -> list[str]:
    """The paths that a Dataset was made of, if it only reads them. Ray has no public name."""
    plan = getattr(dataset, "_logical_plan", None)
    operators = [] if plan is None else list(plan.dag.post_order_iter())
    sources = [getattr(one, "_datasource", None) or one for one in operators]
    paths = [getattr(one, "source_paths", None) or getattr(one, "_source_paths", None)
             for one in sources]  # fmt: skip
    found = [one for one in paths if one]
    is_plain = all(type(one).__name__ in ("Read", "ReadFiles", "ListFiles") for one in operators)
    if len(found) != 1 or not is_plain:
        raise ValueError(
            "pool, as a ray.data.Dataset, must be one that only reads files, such as "
            "ray.data.read_parquet(paths), whose rows have an order; this one does not say which "
            "files, or changes what it reads. Pass the paths, or write the Dataset to files."
        )
    return list(found[0])


def cut(counts: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """Contiguous runs of files, (first, one past the last), with rows as even as files allow."""
    ends = np.array([0, *accumulate(counts)])
    edges = [0]
    for part in range(1, parts):
        nearest = int(np.abs(ends - ends[-1] * part / parts).argmin())
        edges.append(min(max(nearest, edges[-1] + 1), len(counts) - (parts - part)))
    return list(zip(edges, [*edges[1:], len(counts)], strict=True))


def has_rows(options: dict[str, Any], name: str) -> bool:
    return options.get(name) is not None and np.ndim(options[name]) > 0


def own_part(
    per_row: dict[str, np.ndarray], first: int, stop: int, total: int
) -> dict[str, np.ndarray]:
    """What belongs to the rows of one worker, of the arguments that have an entry per row."""
    own = {}
    for name, values in per_row.items():
        if name == "candidates" and values.dtype != bool:
            own[name] = values[(values >= first) & (values < stop)] - first
        elif len(values) == total:
            own[name] = values[first:stop]
        else:
            raise ValueError(
                f"{name} must have one entry per pool row, ({total},); got {values.shape}."
            )
    return own


@dataclass
class Job:
    """A selection on a cluster, and what happened to it so far."""

    ray: Any
    cluster: "Ray"
    named: NamedArray
    files: list[tuple[str, int]]
    options: dict[str, Any]
    per_row: dict[str, np.ndarray]
    log: PickLog
    line: ProgressLine
    faults: list[str] = field(default_factory=list)
    used: dict[str, list] = field(default_factory=dict)  # by the workers of the last group

    def check(self) -> None:
        """Refuse what no group of workers can do."""
        wanted, count = self.cluster.workers, len(self.files)
        if wanted > count:
            raise ValueError(
                f"workers must be at most the {count} files that have rows, since a worker holds "
                f"whole files; got {wanted}. Ask for fewer, or write more files."
            )

    def carry_out(self) -> Selection:
        """Let groups of workers select, until one of them is done."""
        known, size = self.log.count, self.cluster.workers
        while True:
            group = WorkerGroup(self.ray, self.cluster)
            try:
                size = group.gather(size, may_shrink=bool(self.faults))
                chosen = self.watch(group)
                break
            except LostError as fault:
                self.faults.append(str(fault))
                if len(self.faults) > self.cluster.retries:
                    raise RuntimeError(
                        f"the selection was given up after {len(self.faults)} faults: "
                        f"{'; '.join(self.faults)}. {self.log.way_on}"
                    ) from fault.__cause__
            finally:
                group.end()
                self.log.keep()
        return self._described(chosen, size, known)

    def watch(self, group: "WorkerGroup") -> Selection:
        """Let a group select, and take down its picks; a LostError if it cannot."""
        group.start(self.shares(group.homes))
        while group.running:
            group.look()
            self.log.add(group.news())
            if self.log.count:
                self.line(self.log.count, self.options.get("k"), self.log.last_gain)
        beats = group.last_beats()
        self.log.add(beats[0].log)
        self.used = {
            "processor_seconds": [round(beat.seconds, 2) for beat in beats],
            "most_memory": [beat.most_memory for beat in beats],
        }
        return group.chosen

    def shares(self, homes: Sequence[Home]) -> list[tuple[Any, Share]]:
        """The arguments and the work of each worker of a group."""
        runs = cut([rows for _, rows in self.files], len(homes))
        ends = [0, *accumulate(rows for _, rows in self.files)]
        neighbours = Counter(home.node for home in homes)
        common = self.ray.put(self.options)
        shares = []
        for home, (first, stop) in zip(homes, runs, strict=True):
            share = Share(
                own_part(self.per_row, ends[first], ends[stop], ends[-1]),
                files=replace(self.named, given=[path for path, _ in self.files[first:stop]]),
                log=self.log.content,
                log_name=self.log.name,
                neighbours=neighbours[home.node],
                threads=self.cluster.cpus_per_worker,
                has_gpu=self.cluster.gpus_per_worker > 0,
            )
            shares.append((common, share))
        return shares

    def _described(self, chosen: Selection, size: int, known: int) -> Selection:
        """The selection, with what happened on the way."""
        settings = chosen.settings | {"resumed_picks": min(known, len(chosen))}
        settings["cluster"] = {"workers": size, "faults": self.faults, **self.used}
        if self.faults:
            note = (
                f"workers were lost ({'; '.join(self.faults)}). The run went on from its picks, "
                f"with {size} of {self.cluster.workers} workers at last; the picks are the same."
            )
            settings["notes"] = [*settings["notes"], note]
            settings["note_kinds"] = [*settings["note_kinds"], "faults"]
        return replace(chosen, settings=settings)


@dataclass
class Pulse:
    """When a worker was heard last, and when it last did something."""

    heard: float
    at_work: float
    beat: Beat = field(default_factory=Beat)

    def take(self, beat: Beat, now: float) -> None:
        computed = beat.seconds - self.beat.seconds > AT_WORK * (now - self.heard)
        if beat.blocks != self.beat.blocks or computed:
            self.at_work = now
        self.heard, self.beat = now, beat


class WorkerGroup:
    """Workers in a placement group that select together."""

    def __init__(self, ray: Any, cluster: "Ray") -> None:
        self._ray, self._cluster = ray, cluster
        self._place: Any = None
        self._workers: list[Any] = []
        self.homes: list[Home] = []
        self.running: dict[Any, int] = {}
        self.chosen: Any = None
        self._known = 0
        self._news = b""

    def gather(self, size: int, *, may_shrink: bool) -> int:
        """Start so many workers, or as many as there is room for; return how many."""
        while not self._reserve(size, may_shrink=may_shrink):
            room = self._room()
            if size == 1 or not may_shrink:
                raise RuntimeError(
                    f"the cluster must have room for {size} workers of "
                    f"{self._cluster.cpus_per_worker} CPUs and {self._cluster.gpus_per_worker:g} "
                    f"GPUs; it has room for {room}, when idle. Ask for fewer, or add machines."
                )
            size = min(max(room, 1), size - 1)
        plan = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        actor = self._ray.remote(Worker)
        for index in range(size):
            started = actor.options(
                num_cpus=self._cluster.cpus_per_worker,
                num_gpus=self._cluster.gpus_per_worker,
                max_concurrency=4,
                scheduling_strategy=plan(self._place, placement_group_bundle_index=index),
            )
            self._workers.append(started.remote())
        self.homes = self._all([worker.home.remote() for worker in self._workers])
        return size

    def _reserve(self, size: int, *, may_shrink: bool) -> bool:
        """Reserve room for so many workers, on as many machines as there are.

        The first group waits for machines that a cluster may add; later ones take what is there.
        """
        bundle = {"CPU": self._cluster.cpus_per_worker, "GPU": self._cluster.gpus_per_worker}
        needs = {name: amount for name, amount in bundle.items() if amount}
        self._place = self._ray.util.placement_group([needs] * size, "SPREAD")
        patience = self._cluster.timeout
        if may_shrink:
            patience = min(patience, 10.0 if size <= self._room() else 1.0)
        if self._place.wait(patience):
            return True
        self._ray.util.remove_placement_group(self._place)
        self._place = None
        return False

    def _room(self) -> int:
        """So many workers would find room if nothing else ran."""
        room, cluster = 0, self._cluster
        for node in self._ray.nodes():
            if node["Alive"]:
                has = node["Resources"]
                fits = [has.get("CPU", 0) // cluster.cpus_per_worker]
                if cluster.gpus_per_worker:
                    fits.append(has.get("GPU", 0) // cluster.gpus_per_worker)
                room += int(min(fits))
        return room

    def _all(self, asked: list[Any]) -> list[Any]:
        """The answers of all workers."""
        try:
            return self._ray.get(asked, timeout=START_SECONDS)
        except (self._ray.exceptions.GetTimeoutError, self._ray.exceptions.RayError) as error:
            raise LostError(f"a worker did not start: {reason_of(error)}") from error

    def start(self, shares: list[tuple[Any, Share]]) -> None:
        """Let all workers select."""
        size, host = len(shares), self.homes[0].address
        (port,) = self._all([self._workers[0].open_meeting.remote(size)])
        now = time.monotonic()
        for rank, (options, share) in enumerate(shares):
            meeting = Meeting(rank, size, host, port)
            self.running[self._workers[rank].select.remote(options, share, meeting)] = rank
        self._pulses = [Pulse(now, now) for _ in shares]
        self._known = len(shares[0][1].log)
        self._asked = {self._ask(rank): rank for rank in range(size)}

    def _ask(self, rank: int) -> Any:
        return self._workers[rank].beat.remote(self._known if rank == 0 else 2**62)

    def look(self) -> None:
        """Wait a moment, and take what the workers say; a LostError if something is wrong."""
        done, _ = self._ray.wait(list(self.running), timeout=LOOK_SECONDS)
        self._listen()
        for one in done:
            rank = self.running.pop(one)
            try:
                answer = self._ray.get(one)
            except Exception as error:
                cause = getattr(error, "cause", None) or error
                if isinstance(cause, ValueError | TypeError | ImportError | MemoryError):
                    raise cause from error  # it is the caller's
                raise LostError(
                    f"{self._name(rank)}: {type(cause).__name__}: {reason_of(cause)}"
                ) from cause
            self.chosen = answer if rank == 0 else self.chosen
        if self.running:
            self._check_alive()

    def _listen(self) -> None:
        now, asked = time.monotonic(), list(self._asked)
        answered, _ = self._ray.wait(asked, num_returns=len(asked), timeout=0)
        for one in answered:
            rank = self._asked.pop(one)
            with suppress(self._ray.exceptions.RayError):  # its selection will say what happened
                beat = self._ray.get(one)
                self._pulses[rank].take(beat, now)
                if rank == 0:
                    self._news += beat.log
                    self._known += len(beat.log)
                self._asked[self._ask(rank)] = rank

    def news(self) -> bytes:
        """Lines of the log that were not asked for yet."""
        news, self._news = self._news, b""
        return news

    def last_beats(self) -> list[Beat]:
        """What all workers say once all is done."""
        return self._all([worker.beat.remote(self._known) for worker in self._workers])

    def _check_alive(self) -> None:
        now, patience = time.monotonic(), self._cluster.timeout
        for rank, pulse in enumerate(self._pulses):
            if now - pulse.heard > patience:
                raise LostError(f"{self._name(rank)} has not answered for {patience:g} s")
        if now - max(pulse.at_work for pulse in self._pulses) > patience:
            raise LostError(f"no worker has done anything for {patience:g} s")

    def _name(self, rank: int) -> str:
        return f"worker {rank} on {self.homes[rank].address}"

    def end(self) -> None:
        """End all workers, also those that do not answer, and give their room back."""
        for worker in self._workers:
            with suppress(Exception):  # it may be gone, and its machine too
                self._ray.kill(worker)
        if self._place is not None:
            with suppress(Exception):
                self._ray.util.remove_placement_group(self._place)
