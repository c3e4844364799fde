"""Adam's steps on a network: one launch each on a GPU, the same mathematics on a CPU.

Batches are rows of a buffer that never moves, so that a step can be captured as a CUDA graph; the
last batch of an epoch is padded with examples of weight 0, which is exact since batch norm is
frozen.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tellmost.finetune.inputs import device_of
from tellmost.shapes import Float, Int

BATCH = 64
LEARNING_RATE = 1e-3
WARM_UPS = 3  # before a capture: libraries choose their kernels and allocate


@dataclass(frozen=True, eq=False)
class Plan:
    """What each step is made of: examples, and what their losses weigh; weights sum to 1."""

    rows: Int[np.ndarray, "steps b"]
    weights: Float[np.ndarray, "steps b"]


def plan_epochs(
    labels: Int[np.ndarray, " n"],
    epochs: int,
    generator: np.random.Generator,
    *,
    batch: int = BATCH,
) -> Plan:
    """Every example once an epoch, in a new order; each class weighs the same over all examples.

    An example of class c weighs n / n_c, and the loss of a batch is the weighted mean, as
    ``torch.nn.CrossEntropyLoss(weight)`` has it.
    """
    by_class = len(labels) / np.bincount(labels).clip(1)
    missing = -len(labels) % batch
    orders = [
        np.pad(generator.permutation(len(labels)), (0, missing), constant_values=-1)
        for _ in range(epochs)
    ]
    rows = np.concatenate(orders).reshape(-1, batch)
    weights = np.where(rows >= 0, by_class[labels[rows]], 0.0)
    return Plan(rows.clip(0), weights / weights.sum(axis=1, keepdims=True))


def captured(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same work as one launch; on a CPU the work itself. It is done a few times meanwhile."""
    if device.type != "cuda":
        work()
        return work
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside), trying_all_kernels():
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), trying_all_kernels():
        work()
    return graph.replay


@contextmanager
def trying_all_kernels() -> Iterator[None]:
    """Convolutions are timed, and the fastest is taken: worth it where one shape comes often."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


class Stepper:
    """Trains ``model`` in place on what was loaded, step by step as planned."""

    def __init__(
        self,
        model: nn.Module,
        example: Tensor,
        *,
        capacity: int,
        steps: int,
        batch: int = BATCH,
        learning_rate: float = LEARNING_RATE,
    ) -> None:
        """``example``: one input, for shape and dtype; ``capacity``: of them at most."""
        device = device_of(model)
        self._model = model
        self._inputs = torch.zeros((capacity, *example.shape), dtype=example.dtype, device=device)
        self._labels = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._rows = torch.zeros((steps, batch), dtype=torch.int64, device=device)
        self._weights = torch.zeros((steps, batch), device=device)
        self._turn = torch.zeros(1, dtype=torch.int64, device=device)
        on_gpu = device.type == "cuda"
        self._optimizer = torch.optim.Adam(
            [one for one in model.parameters() if one.requires_grad],
            lr=learning_rate,
            capturable=on_gpu,
            fused=on_gpu,
        )
        # all weights are 0, so that warming up changes no parameter
        self._step = captured(self._work, device)
        self.forget()

    def _work(self) -> None:
        rows = self._rows.index_select(0, self._turn)[0]
        weights = self._weights.index_select(0, self._turn)[0]
        outputs = self._model(self._inputs.index_select(0, rows))
        labels = self._labels.index_select(0, rows)
        losses = functional.cross_entropy(outputs, labels, reduction="none")
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward((losses * weights).sum())
        self._optimizer.step()
        self._turn.add_(1).remainder_(len(self._rows))

    def load(self, inputs: Tensor, labels: Int[Tensor, " n"]) -> None:
        """What is trained on from now."""
        self._inputs[: len(inputs)].copy_(inputs)
        self._labels[: len(labels)].copy_(labels)

    def follow(self, plan: Plan) -> None:
        """The steps that are next."""
        steps = len(plan.rows)
        self._rows[:steps].copy_(torch.from_numpy(plan.rows))
        self._weights[:steps].copy_(torch.from_numpy(plan.weights))
        self._turn.zero_()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._step()

    def forget(self) -> None:
        """Adam's moments and count, as if no step had been made."""
        for state in self._optimizer.state.values():
            for value in state.values():
                value.zero_()
