"""What chooses the inputs of a round: a strategy, and what it sees."""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from torch import nn

from tellmost.finetune.embedding import Embedded, Embedding, embed
from tellmost.finetune.inputs import Inputs
from tellmost.finetune.stopwatch import Stopwatch
from tellmost.shapes import Int

Part = Literal["candidates", "targets", "observed", "labelled"]


@dataclass(frozen=True, eq=False)
class Scene:
    """A round as a strategy sees it. What the network says of the inputs is computed once."""

    model: nn.Module
    candidates: Inputs
    targets: Inputs | None  # those of this round
    observed: Inputs  # what was labelled and trained on in earlier rounds; may be empty
    observed_labels: Int[np.ndarray, " o"]
    labelled: Inputs  # that, and what cost a label but is outside the task
    seed: int  # of this round: the same state gives the same number
    batch_size: int = 256
    watch: Stopwatch = field(default_factory=Stopwatch, repr=False)
    _made: dict[Any, Embedded] = field(default_factory=dict, repr=False)

    def embed(self, part: Part, embedding: Embedding) -> Embedded:
        """The points of one of the scene's inputs, kept for whoever asks again."""
        inputs: Inputs | None = getattr(self, part)
        if inputs is None:
            raise ValueError("this strategy chooses with regard to targets: give targets=.")
        key = inputs, embedding
        if key not in self._made:
            with self.watch.measure("embedding"):
                self._made[key] = embed(self.model, inputs, embedding, batch_size=self.batch_size)
        return self._made[key]

    @property
    def generator(self) -> np.random.Generator:
        """For random choices of this round; starts afresh each time it is asked for."""
        return np.random.default_rng(self.seed)


@runtime_checkable
class Strategy(Protocol):
    """Chooses k candidates of a round."""

    @property
    def name(self) -> str: ...

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        """Positions among the scene's candidates, each once, in the order chosen."""


def check_strategy(strategy: Any) -> Strategy:
    if isinstance(strategy, type) or not isinstance(strategy, Strategy):
        raise TypeError(
            f"strategy must be an object such as Targeted('vtl'), or have a name and "
            f"choose(scene, k); got {strategy!r}."
        )
    return strategy


def check_choice(chosen: Any, n: int, k: int, strategy: Strategy) -> Int[np.ndarray, " k"]:
    """A strategy of the caller's own may be wrong, and must not spoil a run by it."""
    positions = np.asarray(chosen)
    is_vector = positions.shape == (k,) and np.issubdtype(positions.dtype, np.integer)
    is_right = is_vector and len(np.unique(positions)) == k
    if not is_right or positions.min() < 0 or positions.max() >= n:
        raise ValueError(
            f"strategy {strategy.name!r} must choose {k} different positions among {n} "
            f"candidates, as whole numbers of 0 to {n - 1}; it chose {chosen!r}."
        )
    return positions.astype(np.int64)
