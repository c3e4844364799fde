"""One run, from the first round to the last, and the file in which runs are kept."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tellmost.finetune import ActiveFineTuner, Inputs
from tellmost.finetune.history import SECONDS, FineTuningHistory
from tellmost.running.writing import written_whole
from tellmost.shapes import Int
from tellmost_reproduction.networks.configurations import Configuration
from tellmost_reproduction.networks.problems import Problem
from tellmost_reproduction.networks.training import Training

KEPT_IF_SCARCE = 0.2
"""The share of the task's images in an imbalanced pool. The paper removes 80%."""

KEPT_IF_LOPSIDED = 0.5
"""The share of the images of the first classes of the task when targets are drawn."""


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of the problem that may be chosen, and rows that are targets."""

    pool: Int[np.ndarray, " n"]
    targets: Int[np.ndarray, " m"]


def split(problem: Problem, configuration: Configuration, seed: int) -> Split:
    """Draw the targets. The same seed gives the same, whoever chooses."""
    generator = np.random.default_rng([seed, *b"targets"])
    rows = np.setdiff1d(np.arange(len(problem.labels)), problem.validation)
    drawn_from = rows[problem.is_in_task[rows]]
    if configuration.is_lopsided:
        drawn_from = thin(drawn_from, problem.labels[drawn_from] < half(problem), generator)
    targets = np.sort(generator.choice(drawn_from, configuration.targets, replace=False))
    return Split(pool_of(problem, configuration, rows, targets, generator), targets)


def half(problem: Problem) -> int:
    """How many classes are thinned out: 0 to 4 of ten, or digits 3 and 6 of three."""
    return -(-problem.classes // 2)


def pool_of(
    problem: Problem,
    configuration: Configuration,
    rows: Int[np.ndarray, " r"],
    targets: Int[np.ndarray, " m"],
    generator: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    if configuration.pool == "inside":
        return rows
    if configuration.pool == "targets":
        return targets
    apart = np.setdiff1d(rows, targets)
    if configuration.pool == "scarce":
        return thin(apart, problem.is_in_task[apart], generator, kept=KEPT_IF_SCARCE)
    return apart


def thin(
    rows: Int[np.ndarray, " r"],
    is_thinned: np.ndarray,
    generator: np.random.Generator,
    *,
    kept: float = KEPT_IF_LOPSIDED,
) -> Int[np.ndarray, " s"]:
    """Take away a part of the marked rows."""
    marked = generator.permutation(rows[is_thinned])
    left = marked[: round(kept * len(marked))]
    return np.sort(np.concatenate([rows[~is_thinned], left]))


AT_ONCE = 1024  # inputs in one call of the network, when embedding


@dataclass(frozen=True)
class Run:
    """Accuracy on the test images and picks from the task's classes, after each round."""

    configuration: str
    seed: int
    batch: int
    accuracy: list[float]
    in_task: list[int]
    picks: list[int]  # rows of the training set, in the order picked
    seconds: dict[str, float]  # of a round, the median: embedding, selecting, training, evaluating
    device: str
    is_smoke: bool = False  # on the digits that stand in for both datasets
    images: int | None = None  # of the training set; not known of early runs

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def share(self) -> np.ndarray:
        """The share of all picks so far that are from the task's classes."""
        counts = self.batch * np.arange(1, len(self.in_task) + 1)
        return np.array(self.in_task) / np.minimum(counts, max(len(self.picks), 1))


class Bench:
    """A problem with its network on the device, for any number of runs one after the other."""

    def __init__(self, problem: Problem, *, capacity: int) -> None:
        """``capacity`` is the number of labels that a run buys at most."""
        self.problem = problem
        self.model: nn.Module = problem.draw(0).to(problem.inputs.device).eval()
        self._training = Training(self.model, problem, capacity)

    def run(self, configuration: Configuration, seed: int, rounds: int) -> Run:
        """Run so many rounds, or as many as the pool has images for."""
        problem, parts = self.problem, split(self.problem, configuration, seed)
        self._training.start(seed)
        tuner = ActiveFineTuner(
            self.model,
            pool=Inputs(problem.inputs, parts.pool, "pool"),
            targets=Inputs(problem.inputs, parts.targets, "targets"),
            train=self._training,
            labels=problem.labels[parts.pool],
            strategy=configuration.strategy,
            batch=configuration.batch,
            candidates=configuration.candidates,
            targets_per_round=configuration.targets_per_round,
            task=range(problem.classes),
            evaluate=self._evaluate,
            batch_size=AT_ONCE,
            seed=seed,
            progress=False,
        )
        history = tuner.run(min(rounds, len(parts.pool) // configuration.batch))
        return as_run(history, configuration, seed, parts.pool, problem)

    def _evaluate(self, model: nn.Module) -> dict[str, float]:
        outputs = model(self.problem.test_inputs)
        right = outputs.argmax(dim=1) == self.problem.test_labels
        return {"accuracy": float(right.double().mean())}


def as_run(
    history: FineTuningHistory,
    configuration: Configuration,
    seed: int,
    pool: np.ndarray,
    problem: Problem,
) -> Run:
    device = problem.inputs.device
    seconds = {
        name: round(float(np.median([one.seconds.get(name, 0.0) for one in history])), 6)
        for name in SECONDS
    }
    return Run(
        configuration=configuration.name,
        seed=seed,
        batch=configuration.batch,
        accuracy=[round(one.metrics["accuracy"], 5) for one in history],
        in_task=np.cumsum([int(one.is_in_task.sum()) for one in history]).tolist(),
        picks=pool[history.rows].tolist(),
        seconds=seconds,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        is_smoke=problem.is_smoke,
        images=len(problem.labels),
    )


RunId = tuple[str, int]
"""The name of a configuration, and the seed."""


def append_run(run: Run, path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run.to_dict()) + "\n")


def read_runs(paths: Iterable[Path]) -> dict[RunId, Run]:
    """Read several files, which may be compressed. The longest run of each counts."""
    found: dict[RunId, Run] = {}
    for path in paths:
        for run in _lines(path):
            known = found.get((run.configuration, run.seed))
            if known is None or len(run.accuracy) > len(known.accuracy):
                found[run.configuration, run.seed] = run
    return found


def check_runs(runs: Iterable[Run]) -> None:
    """Refuse runs that cannot stand beside the others: smoke runs, other lengths or datasets."""
    longest: dict[str, Run] = {}
    sized: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: -len(run.accuracy)):
        check_real(run)
        other = longest.setdefault(run.configuration, run)
        if len(run.accuracy) != len(other.accuracy):
            raise ValueError(
                f"runs of a configuration must be equally long; {named(run)} has "
                f"{len(run.accuracy)} rounds and {named(other)} {len(other.accuracy)}. Run it "
                f"again with as many, or leave it out."
            )
        if run.images is None:
            continue
        other = sized.setdefault(run.configuration.split("/")[0], run)
        if run.images != other.images:
            raise ValueError(
                f"runs of a dataset must be of equally many training images; {named(run)} is of "
                f"{run.images:,} and {named(other)} of {other.images:,}. Keep them in files of "
                f"their own."
            )


def check_real(run: Run) -> None:
    if run.is_smoke:
        raise ValueError(
            f"runs to be kept must be of the datasets themselves; {named(run)} is a smoke run, on "
            f"digits. Leave its file out, or take such lines away."
        )


def named(run: Run) -> str:
    return f"{run.configuration}, seed {run.seed},"


def _lines(path: Path) -> Iterator[Run]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield Run(**json.loads(line))
            except (json.JSONDecodeError, TypeError) as error:
                raise ValueError(
                    f"{path} must have a run on each line; line {number} is none ({error}). A run "
                    f"that was cut off while it was written can be deleted."
                ) from error


def write_runs(runs: Iterable[Run], path: Path) -> None:
    """Write runs compressed, with the same bytes for the same runs."""
    ordered = sorted(runs, key=lambda run: (run.configuration, run.seed))
    lines = "".join(json.dumps(run.to_dict()) + "\n" for run in ordered)
    with written_whole(path) as whole:
        whole.write_bytes(gzip.compress(lines.encode(), mtime=0))
