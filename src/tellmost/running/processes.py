"""Processes that hold the rows of one pool between them exchange numbers and words.

Each process has some of the rows. All rows are numbered through, those of process 0 first. All
processes call the methods of a group and of a shard in the same order, so whatever decides about
a call must itself be the same on all of them. A process that holds all rows has no shard: callers
write ``shard is None`` and do their work directly.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from tellmost.shapes import Float, Int, Shaped

Read = Callable[[Tensor], tuple[Tensor, ...]]
"""Gives values of some rows of this process: tensors with an entry per row."""


@dataclass(frozen=True)
class Group:
    """A process group of torch.distributed, with this process in it."""

    group: Any
    rank: int
    size: int
    carriers: frozenset[str]  # types of devices whose tensors its backends exchange

    @classmethod
    def of(cls, group: Any) -> "Group":
        config = dist.get_backend_config(group)  # such as "cpu:gloo,cuda:nccl"
        backends = (part.split(":") for part in config.split(","))
        # gloo is at home on the CPU; elsewhere it lacks some operations
        carriers = frozenset(kind for kind, name in backends if kind == "cpu" or name != "gloo")
        return cls(group, dist.get_rank(group), dist.get_world_size(group), carriers)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        carried = values.to(self._carrier(values.device), copy=True).contiguous()
        dist.all_reduce(carried, group=self.group)
        return carried.to(values.device)

    def gather(self, values: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """The values of all processes, stacked in the order of their ranks."""
        carried = values.to(self._carrier(values.device)).contiguous()
        parts = [torch.empty_like(carried) for _ in range(self.size)]
        dist.all_gather(parts, carried, group=self.group)
        return torch.stack(parts).to(values.device)

    def join(
        self, table: Float[Tensor, "b c"], about: Sequence[float], most: int
    ) -> tuple[Float[Tensor, "_B c"], list[list[float]]]:
        """The rows of all tables, and what each process says about its own.

        A table has at most ``most`` rows, and more columns than there are numbers in ``about``.
        """
        own = table.new_zeros(most + 1, table.shape[1])
        own[0, : 1 + len(about)] = table.new_tensor([len(table), *about])
        own[1 : 1 + len(table)] = table
        tables = self.gather(own).cpu()  # a few numbers, to be looked at one by one
        heads = tables[:, 0, : 1 + len(about)].tolist()
        rows = [part[1 : 1 + int(head[0])] for part, head in zip(tables, heads, strict=True)]
        return torch.cat(rows), [head[1:] for head in heads]

    def texts(self, text: str) -> list[str]:
        """Exchange what each process says."""
        own = text.encode()
        sizes = self.gather(torch.tensor(len(own))).tolist()
        if not any(sizes):
            return [""] * self.size
        padded = torch.frombuffer(bytearray(own.ljust(max(sizes))), dtype=torch.uint8)
        everything = self.gather(padded)
        return [
            part[:size].numpy().tobytes().decode()
            for part, size in zip(everything, sizes, strict=True)
        ]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around work without exchanges: an error on one process is an error on all."""
        try:
            yield
        except Exception as error:
            self._raise_first(self.texts(json.dumps([type(error).__name__, str(error)])), error)
        else:
            self._raise_first(self.texts(""), None)

    def _raise_first(self, reports: list[str], error: Exception | None) -> None:
        """Raise the first failure on all processes. An error that all share is raised as it is."""
        if error is not None and len(set(reports)) == 1:
            raise error
        for rank, report in enumerate(reports):
            if report:
                kind, text = json.loads(report)
                failure = KINDS.get(kind, RuntimeError)
                raise failure(f"on process {rank} of the group: {text}") from error

    def _carrier(self, device: torch.device) -> torch.device:
        """The device on which tensors are exchanged: their own if the backends can, or another."""
        if device.type in self.carriers:
            return device
        return torch.device("cpu" if "cpu" in self.carriers else "cuda")


KINDS: Mapping[str, type[Exception]] = {"ValueError": ValueError, "TypeError": TypeError}
"""Errors of these kinds mean the same on another process. All others become a RuntimeError."""


def check_group(group: Any) -> Group:
    """The group, with what this process has to know of it."""
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(
            "group needs torch.distributed to be initialised; call "
            "torch.distributed.init_process_group() first, on every process, and start them with "
            "torchrun."
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(
            f"group must be a process group of torch.distributed that this process belongs to, "
            f"such as torch.distributed.group.WORLD; got {type(group).__name__}."
        )
    return Group.of(group)


@dataclass(frozen=True)
class Shard:
    """The rows of this process among those of its group: ``first`` to ``first + count``."""

    group: Group
    first: int
    count: int
    total: int
    most_rows: int  # of one process

    @classmethod
    def of(cls, count: int, group: Group) -> "Shard":
        """A shard of so many rows; all processes tell how many they have."""
        counts = group.gather(torch.tensor(count)).tolist()
        return cls(group, sum(counts[: group.rank]), count, sum(counts), max(counts))

    def has(self, numbers: Int[Tensor, " b"]) -> Shaped[Tensor, " b"]:
        """Say which rows, by their overall numbers, are here."""
        return (numbers >= self.first) & (numbers < self.first + self.count)

    def mine(self, numbers: Int[Tensor, " b"]) -> Int[Tensor, " _c"]:
        """The rows that are here, by their numbers here."""
        return numbers[self.has(numbers)] - self.first

    def collect(self, numbers: Int[Tensor, " b"], read: Read) -> tuple[Tensor, ...]:
        """Values of some rows by their overall numbers; each process reads its own of them."""
        is_mine = self.has(numbers)
        parts = read(self.mine(numbers))
        flat = [part.flatten(1) if part.ndim > 1 else part[:, None] for part in parts]
        own = torch.cat([part.to(torch.float64) for part in flat], dim=1)
        common = own.new_zeros(len(numbers), own.shape[1])
        common[is_mine.to(own.device)] = own
        split = torch.split(self.group.sum(common), [part.shape[1] for part in flat], dim=1)
        return tuple(
            (whole if part.ndim > 1 else whole[:, 0]).to(part.dtype)
            for whole, part in zip(split, parts, strict=True)
        )

    def look_up(
        self, numbers: Int[Tensor, " b"], read: Callable[[Tensor], list[Any]]
    ) -> list[Any]:
        """What is known of some rows by their overall numbers: whole numbers or texts."""
        own: list[Any] = []
        with self.group.together():
            own = read(self.mine(numbers))
        pairs = list(zip(numbers[self.has(numbers)].tolist(), own, strict=True))
        texts = self.group.texts(json.dumps(pairs))
        known = dict(pair for text in texts for pair in json.loads(text))
        return [known[number] for number in numbers.tolist()]

    def entry(self, row: int, values: Shaped[Tensor, " c"]) -> Shaped[Tensor, ""]:
        """The entry of one row, by its overall number, from the process that has the row."""
        number = torch.tensor([row], device=values.device)
        return self.collect(number, lambda own: (values[own],))[0][0]

    def whole(self, values: Shaped[Tensor, " c"]) -> Shaped[Tensor, " _n"]:
        """The entries of all rows, from those of the rows here."""
        numbers = torch.arange(self.total, device=values.device)
        return self.collect(numbers, lambda own: (values[own],))[0]

    def mean(self, values: Float[Tensor, " c"]) -> float:
        """The mean over all rows, the same on all processes to the last bit."""
        return float(self.group.gather(values.sum()).sum()) / self.total

    def is_any(self, here: bool) -> bool:
        return bool(self.group.gather(torch.tensor(here, dtype=torch.int64)).any())

    def least(self, here: int) -> int:
        """The smallest of all processes' numbers."""
        return int(self.group.gather(torch.tensor(here)).min())

    def most(self, here: float) -> float:
        """The largest of all processes' numbers."""
        return float(self.group.gather(torch.tensor(here, dtype=torch.float64)).max())


def agree(group: Group, facts: Mapping[str, Any]) -> None:
    """Refuse facts, which can be written as JSON, that are not the same on every process."""
    first, *others = (json.loads(text) for text in group.texts(json.dumps(facts)))
    for rank, other in enumerate(others, start=1):
        for name, value in first.items():
            if other[name] != value:
                raise ValueError(
                    f"every process of a group must be given the same {name}; got {value} on "
                    f"process 0 and {other[name]} on process {rank}. Only the rows of the pool, "
                    f"and arguments with an entry per row, are a process's own."
                )
