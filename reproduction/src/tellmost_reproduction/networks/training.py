"""How the networks of the experiments are trained in a round; each an ``ActiveFineTuner`` trainer.

Losses are cross entropies, reweighted by class; Adam with learning rate 1e-3, batches of 64. Batch
norm stays as the pre-trained network has it: the authors' code trains in eval mode too.
"""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune.inputs import device_of
from tellmost.shapes import Int
from tellmost_reproduction.networks.keeping_best import Best, Ties
from tellmost_reproduction.networks.problems import CIFAR, Problem
from tellmost_reproduction.networks.stepping import BATCH, Stepper, plan_epochs

EPOCHS = 5
SCRATCH_EPOCHS = 20
"""The paper trains until an epoch lowers the accuracy on validation images. With a step or two
an epoch that may be the second one, so we take the best of so many; falls came by the tenth."""


@runtime_checkable
class Training(Protocol):
    """A trainer that can start again."""

    def start(self, seed: int) -> None:
        """The network as before the first round of a run."""

    def __call__(
        self, model: nn.Module, inputs: Tensor, labels: Int[Tensor, " n"], number: int
    ) -> None: ...


class FewEpochs:
    """Five epochs from where the network stands; Adam's moments stay from round to round.

    A round that brought nothing new trains nothing.
    """

    def __init__(self, model: nn.Module, problem: Problem, capacity: int) -> None:
        self._model, self._problem = model, problem
        self._stepper = stepper_for(model, problem, capacity, EPOCHS)
        self._seed = self._known = 0

    def start(self, seed: int) -> None:
        self._seed, self._known = seed, 0
        self._model.load_state_dict(self._problem.draw(seed).state_dict())
        self._stepper.forget()

    def __call__(
        self, model: nn.Module, inputs: Tensor, labels: Int[Tensor, " n"], number: int
    ) -> None:
        if len(labels) == self._known:
            return
        self._known = len(labels)
        self.train(inputs, labels, number)
        wait_for(model)

    def train(self, inputs: Tensor, labels: Int[Tensor, " n"], number: int) -> None:
        """The epochs of a round, whatever the round brought."""
        generator = np.random.default_rng([self._seed, number])
        plan = plan_epochs(labels.cpu().numpy(), EPOCHS, generator)
        self._stepper.load(inputs, labels)
        self._stepper.follow(plan)
        self._stepper.step(len(plan.rows))


class FromScratch:
    """New weights every round; those of the epoch that did best on the validation images stay.

    A round that brought nothing new trains nothing.
    """

    def __init__(
        self, model: nn.Module, problem: Problem, capacity: int, *, ties: Ties = "last"
    ) -> None:
        self._model, self._problem = model, problem
        self._stepper = stepper_for(model, problem, capacity, SCRATCH_EPOCHS)
        rows = torch.from_numpy(problem.validation).to(problem.inputs.device)
        answers = torch.from_numpy(problem.labels[problem.validation]).to(rows.device)
        self._best = Best(model, problem.inputs[rows], answers, ties=ties)
        self._seed = self._known = 0

    def start(self, seed: int) -> None:
        self._seed, self._known = seed, 0
        self._renew(0)

    def _renew(self, number: int) -> None:
        drawn = self._problem.draw(
            int(np.random.default_rng([self._seed, number]).integers(2**62))
        )
        self._model.load_state_dict(drawn.state_dict())
        self._stepper.forget()
        self._best.clear()

    def __call__(
        self, model: nn.Module, inputs: Tensor, labels: Int[Tensor, " n"], number: int
    ) -> None:
        if len(labels) == self._known:
            return
        self._known = len(labels)
        self._renew(number)
        generator = np.random.default_rng([self._seed, number, 1])
        plan = plan_epochs(labels.cpu().numpy(), SCRATCH_EPOCHS, generator)
        self._stepper.load(inputs, labels)
        self._stepper.follow(plan)
        for _ in range(SCRATCH_EPOCHS):
            self._stepper.step(len(plan.rows) // SCRATCH_EPOCHS)
            self._best.look()
        self._best.restore()
        wait_for(model)


def stepper_for(model: nn.Module, problem: Problem, capacity: int, epochs: int) -> Stepper:
    steps = epochs * -(-capacity // BATCH)
    return Stepper(model, problem.inputs[0], capacity=capacity, steps=steps)


def training_of(
    model: nn.Module, problem: Problem, capacity: int, *, ties: Ties = "last"
) -> Training:
    """As the paper trains on this problem; ``capacity``: examples at most.

    ``ties`` is about the best epoch, so about training from scratch alone.
    """
    if problem.name == CIFAR:
        return FewEpochs(model, problem, capacity)
    return FromScratch(model, problem, capacity, ties=ties)


def wait_for(model: nn.Module) -> None:
    """Until a GPU has done its work, so that the seconds of a round are its own."""
    if device_of(model).type == "cuda":
        torch.cuda.synchronize(device_of(model))
