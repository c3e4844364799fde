"""How the networks are trained in a round.

Losses are cross entropies, reweighted by class; Adam has learning rate 1e-3 and batches of 64.
Batch norm stays as the pre-trained network has it, as in the authors' code.

A step is one launch on a GPU, and the same mathematics on a CPU. Batches are rows of a buffer that
never moves, so a step can be captured as a CUDA graph. The last batch of an epoch is padded with
examples of weight 0, which is exact since batch norm is frozen.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tellmost.finetune.inputs import device_of
from tellmost.shapes import Float, Int
from tellmost_reproduction.networks.problems import CIFAR, CIFAR_HEAD, MNIST_FLOAT32, Problem

BATCH = 64
LEARNING_RATE = 1e-3
WARM_UPS = 3  # before a capture: libraries choose their kernels and allocate


@dataclass(frozen=True, eq=False)
class Plan:
    """The examples of each step, and what their losses weigh. Weights sum to 1."""

    rows: Int[np.ndarray, "steps b"]
    weights: Float[np.ndarray, "steps b"]


def plan_epochs(
    labels: Int[np.ndarray, " n"],
    epochs: int,
    generator: np.random.Generator,
    *,
    batch: int = BATCH,
) -> Plan:
    """Plan each epoch with every example once, in a new order. Classes weigh the same.

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
    """The same work as one launch, or on a CPU the work itself. It is done a few times here."""
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
    """Time convolutions and take the fastest, which pays where one shape comes often."""
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
        """``example`` is one input, for shape and dtype; ``capacity`` is the most of them."""
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

    def load(self, inputs: Tensor, labels: Int[Tensor, " n"], plan: Plan) -> None:
        """Take in what is trained on from now, and the steps that are next."""
        self._inputs[: len(inputs)].copy_(inputs)
        self._labels[: len(labels)].copy_(labels)
        steps = len(plan.rows)
        self._rows[:steps].copy_(torch.from_numpy(plan.rows))
        self._weights[:steps].copy_(torch.from_numpy(plan.weights))
        self._turn.zero_()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._step()

    def forget(self) -> None:
        """Reset Adam's moments and count, as if no step had been made."""
        for state in self._optimizer.state.values():
            for value in state.values():
                value.zero_()


class Best:
    """Keeps the weights that did best on validation images, without asking the GPU.

    Of epochs that did equally well the last is kept, as in the authors' code. A network that
    knows one class is surest of itself then.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Int[Tensor, " n"],
    ) -> None:
        self._model, self._inputs, self._labels = model, inputs, labels
        self._kept = [one.detach().clone() for one in model.parameters()]
        self._score = torch.full((), -1.0, device=device_of(model))
        self._look = captured(self._work, device_of(model))
        self.clear()

    @torch.no_grad()
    def _work(self) -> None:
        right = self._model(self._inputs).argmax(dim=1) == self._labels
        score = right.float().mean()
        is_better = score >= self._score
        self._score.copy_(torch.where(is_better, score, self._score))
        for kept, one in zip(self._kept, self._model.parameters(), strict=True):
            kept.copy_(torch.where(is_better, one, kept))

    def look(self) -> None:
        self._look()

    def clear(self) -> None:
        self._score.fill_(-1.0)

    @torch.no_grad()
    def restore(self) -> float:
        """Put the best weights into the model, and return their share of right answers."""
        for kept, one in zip(self._kept, self._model.parameters(), strict=True):
            one.copy_(kept)
        return float(self._score)


EPOCHS = 5
SCRATCH_EPOCHS = 20
"""The paper trains until an epoch lowers the accuracy on validation images. With a step or two
an epoch that may be the second one, so we take the best of so many. Falls came by the tenth."""

PUBLISHED_SCRATCH_EPOCHS = 100
"""The authors' published code takes the best of so many."""


@runtime_checkable
class Way(Protocol):
    """A way to train in a round."""

    def start(self, seed: int) -> None:
        """Set the network to what it is before the first round of a run."""

    def train(self, inputs: Tensor, labels: Int[Tensor, " n"], number: int) -> None:
        """Train in the round of this number."""


class FewEpochs:
    """Five epochs from where the network stands. Adam's moments stay from round to round."""

    def __init__(self, model: nn.Module, problem: Problem, capacity: int) -> None:
        self._model, self._problem = model, problem
        self._stepper = stepper_for(model, problem, capacity, EPOCHS)
        self._seed = 0

    def start(self, seed: int) -> None:
        self._seed = seed
        self._model.load_state_dict(self._problem.draw(seed).state_dict())
        self._stepper.forget()

    def train(self, inputs: Tensor, labels: Int[Tensor, " n"], number: int) -> None:
        generator = np.random.default_rng([self._seed, number])
        plan = plan_epochs(labels.cpu().numpy(), EPOCHS, generator)
        self._stepper.load(inputs, labels, plan)
        self._stepper.step(len(plan.rows))


class FromScratch:
    """New weights every round. Those of the epoch stay that did best on the validation images."""

    def __init__(self, model: nn.Module, problem: Problem, capacity: int) -> None:
        self._model, self._problem = model, problem
        is_published = problem.name == MNIST_FLOAT32
        self._epochs = PUBLISHED_SCRATCH_EPOCHS if is_published else SCRATCH_EPOCHS
        self._stepper = stepper_for(model, problem, capacity, self._epochs)
        rows = torch.from_numpy(problem.validation).to(problem.inputs.device)
        answers = torch.from_numpy(problem.labels[problem.validation]).to(rows.device)
        self._best = Best(model, problem.inputs[rows], answers)
        self._seed = 0

    def start(self, seed: int) -> None:
        self._seed = seed
        self._renew(0)

    def _renew(self, number: int) -> None:
        seed = int(np.random.default_rng([self._seed, number]).integers(2**62))
        self._model.load_state_dict(self._problem.draw(seed).state_dict())
        self._stepper.forget()
        self._best.clear()

    def train(self, inputs: Tensor, labels: Int[Tensor, " n"], number: int) -> None:
        self._renew(number)
        generator = np.random.default_rng([self._seed, number, 1])
        plan = plan_epochs(labels.cpu().numpy(), self._epochs, generator)
        self._stepper.load(inputs, labels, plan)
        for _ in range(self._epochs):
            self._stepper.step(len(plan.rows) // self._epochs)
            self._best.look()
        self._best.restore()


def stepper_for(model: nn.Module, problem: Problem, capacity: int, epochs: int) -> Stepper:
    steps = epochs * -(-capacity // BATCH)
    return Stepper(model, problem.inputs[0], capacity=capacity, steps=steps)


class Training:
    """A trainer of an ``ActiveFineTuner``. A round that brought nothing new trains nothing."""

    def __init__(self, model: nn.Module, problem: Problem, capacity: int) -> None:
        """Train as the paper does on this problem, on ``capacity`` examples at most."""
        self._way: Way = (
            FewEpochs(model, problem, capacity)
            if problem.name in (CIFAR, CIFAR_HEAD)
            else FromScratch(model, problem, capacity)
        )
        self._known = 0

    def start(self, seed: int) -> None:
        self._known = 0
        self._way.start(seed)

    def __call__(
        self, model: nn.Module, inputs: Tensor, labels: Int[Tensor, " n"], number: int
    ) -> None:
        if len(labels) > self._known:
            self._known = len(labels)
            self._way.train(inputs, labels, number)
            wait_for(model)


def wait_for(model: nn.Module) -> None:
    """Wait until a GPU has done its work, so that the seconds of a round are its own."""
    if device_of(model).type == "cuda":
        torch.cuda.synchronize(device_of(model))
