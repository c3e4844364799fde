"""A small problem that the tests of the loop share."""

from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune import ActiveFineTuner

CLASSES, FEATURES = 4, 6


def clusters(count: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points around a centre per class, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    centres = 3 * torch.eye(CLASSES, FEATURES)
    return centres[labels] + 0.5 * torch.randn(count, FEATURES, generator=generator), labels


def network(seed: int = 0, dropout: float = 0.1) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(FEATURES, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, CLASSES)
        )


def fit(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


def train(model: nn.Module, inputs: Tensor, labels: Tensor, round: int) -> dict[str, float]:
    return {"loss": fit(model, inputs, labels)}


def targets_of_class_0() -> Tensor:
    return clusters(12, seed=1)[0][::CLASSES]


def tuner(model: nn.Module | None = None, **changes: Any) -> ActiveFineTuner:
    """A loop over the clusters."""
    pool, labels = clusters()
    targets = targets_of_class_0()
    given = {"pool": pool, "labels": labels, "targets": targets, "train": train, "batch": 5}
    return ActiveFineTuner(model or network(), **{**given, **changes})


class Recorder:
    """A trainer that takes down what it was given, and teaches nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Tensor, int]] = []

    def __call__(self, model: nn.Module, inputs: Any, labels: Tensor, round: int) -> None:
        self.calls.append((inputs, labels, round))
