"""Rounds of fine-tuning as a strategy sees them."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from networks import mlp
from tellmost.finetune import Inputs
from tellmost.finetune.embedding import Embedded
from tellmost.finetune.strategies import RoundInputs

FEATURES = 5


def rows(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, FEATURES, generator=generator, dtype=torch.float64)


def round_inputs(
    *,
    candidates: Tensor | None = None,
    targets: Tensor | None = None,
    observed: Tensor | None = None,
    labelled: Tensor | None = None,
    model: nn.Module | None = None,
    seed: int = 0,
    kind: type[RoundInputs] = RoundInputs,
) -> RoundInputs:
    """Thirty candidates, four targets and nothing observed, unless they are given.

    ``labelled``: what cost a label, inside the task or outside; None: what was observed.
    """
    known = rows(0, 0) if observed is None else observed
    paid = known if labelled is None else labelled
    return kind(
        model=mlp() if model is None else model,
        candidates=Inputs.of(rows(30, seed) if candidates is None else candidates, "pool"),
        targets=Inputs.of(rows(4, seed + 1) if targets is None else targets, "targets"),
        observed=Inputs.of(known, "observed"),
        observed_labels=np.zeros(len(known), dtype=np.int64),
        labelled=Inputs.of(paid, "labelled"),
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class HalfPrecision(RoundInputs):
    """Its points are kept in float16."""

    def embed(self, part, embedding) -> Embedded:
        made = super().embed(part, embedding)
        return Embedded(made.points.half(), made.kernel)


@dataclass(frozen=True, eq=False)
class Asked(RoundInputs):
    """Takes down which embeddings it was asked for, and of which inputs."""

    asked: list = field(default_factory=list)

    def embed(self, part, embedding) -> Embedded:
        self.asked.append((getattr(self, part), embedding))
        return super().embed(part, embedding)


def points_of(made: RoundInputs, part: str, embedding) -> np.ndarray:
    """As the strategies see them, in float64."""
    return made.embed(part, embedding).points.double().numpy()
