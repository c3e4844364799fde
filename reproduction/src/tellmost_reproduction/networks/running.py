"""One run: a configuration with a seed, from the first round to the last."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from tellmost.finetune import ActiveFineTuner, Inputs
from tellmost.finetune.history import SECONDS, FineTuningHistory
from tellmost_reproduction.networks.keeping_best import Ties
from tellmost_reproduction.networks.problems import Problem
from tellmost_reproduction.networks.settings import Configuration
from tellmost_reproduction.networks.splitting import split
from tellmost_reproduction.networks.training import training_of

AT_ONCE = 1024  # inputs in one call of the network, when embedding


@dataclass(frozen=True)
class Run:
    """After each round: accuracy on the test images, and picks from the task's classes so far."""

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
        """Of all picks so far, those from the task's classes."""
        counts = self.batch * np.arange(1, len(self.in_task) + 1)
        return np.array(self.in_task) / np.minimum(counts, max(len(self.picks), 1))


class Bench:
    """A problem with its network on the device, for any number of runs one after the other."""

    def __init__(self, problem: Problem, *, capacity: int, ties: Ties = "last") -> None:
        """``capacity``: labels that a run buys at most."""
        self.problem = problem
        self.model: nn.Module = problem.draw(0).to(problem.inputs.device).eval()
        self._training = training_of(self.model, problem, capacity, ties=ties)

    def run(self, configuration: Configuration, seed: int, rounds: int) -> Run:
        """So many rounds, or as many as the pool has images for."""
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
