"""What is to be learned: images on a device, the classes of the task, and the network."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.shapes import Int
from tellmost_reproduction.networks.convnet import (
    draw_convnet,
    draw_small_convnet,
    draw_small_head,
    draw_small_trunk,
)
from tellmost_reproduction.networks.efficientnet import load_head, read_features, read_weights
from tellmost_reproduction.networks.images import Images, read_cifar, read_digits, read_mnist

CIFAR, MNIST = "cifar100", "mnist"
TASKS = {CIFAR: tuple(range(10)), MNIST: (3, 6, 9)}
SMALL_TASKS = {CIFAR: (0, 1, 2, 3), MNIST: (3, 6, 9)}
"""Classes of the digits, which stand in for both datasets at smoke size."""

VALIDATION = 200
"""Images of the task that say which epoch was best if training starts from scratch."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A dataset as a network takes it. Labels count the task's classes; others have one more."""

    name: str
    inputs: Tensor  # of every training image, on the device
    labels: Int[np.ndarray, " n"]
    test_inputs: Tensor  # of the task's classes alone
    test_labels: Int[Tensor, " t"]
    classes: int
    validation: Int[np.ndarray, " v"]  # rows that are neither chosen nor targets; may be empty
    draw: Callable[[int], nn.Module]  # the network before the first round, by a seed; on the CPU
    is_smoke: bool = False  # on digits

    @property
    def is_in_task(self) -> np.ndarray:
        return self.labels < self.classes


def read_problem(
    name: str, folder: Path | None, device: torch.device, *, is_smoke: bool = False
) -> Problem:
    """Read a problem from the files of the folder, or from the digits."""
    if is_smoke:
        made = digits_for_cifar(device) if name == CIFAR else digits_for_mnist(device)
        return replace(made, is_smoke=True)
    if folder is None:
        raise ValueError(f"{name} needs --data, a folder with its files. --smoke runs without.")
    return read_cifar_problem(folder, device) if name == CIFAR else mnist_problem(folder, device)


def read_cifar_problem(folder: Path, device: torch.device) -> Problem:
    """Features of the frozen trunk stand for the images."""
    images, weights = read_cifar(folder), read_weights(folder)
    train, test = read_features(images, weights, folder, device)
    draw = partial(draw_head, weights, len(TASKS[CIFAR]))
    return make_problem(CIFAR, images, train, test, TASKS[CIFAR], draw)


def draw_head(weights: dict[str, Tensor], classes: int, seed: int) -> nn.Module:
    return load_head(weights, classes, seed=seed)


def mnist_problem(folder: Path, device: torch.device) -> Problem:
    return scratch_problem(read_mnist(folder), draw_convnet, device)


def digits_for_mnist(device: torch.device) -> Problem:
    return scratch_problem(read_digits(), draw_small_convnet, device)


def scratch_problem(
    images: Images, draw: Callable[[int, int], nn.Module], device: torch.device
) -> Problem:
    """Digits 3, 6 and 9 by a network that is trained from scratch every round."""
    classes = TASKS[MNIST]
    train, test = (as_inputs(pixels, device) for pixels in (images.train, images.test))

    def drawn(seed: int) -> nn.Module:
        return draw(seed, len(classes))

    return make_problem(MNIST, images, train, test, classes, drawn, has_validation=True)


def digits_for_cifar(device: torch.device) -> Problem:
    """A frozen convolution with random weights is the trunk."""
    images, classes = read_digits(), SMALL_TASKS[CIFAR]
    trunk = draw_small_trunk(0).to(device)
    train, test = (
        trunk(as_inputs(pixels, device).float()) for pixels in (images.train, images.test)
    )

    def draw(seed: int) -> nn.Module:
        return draw_small_head(seed, len(classes))

    return make_problem(CIFAR, images, train, test, classes, draw)


def as_inputs(pixels: np.ndarray, device: torch.device) -> Tensor:
    """Between 0 and 1, in half precision: a byte has no more digits."""
    return torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).half() / 255


def make_problem(
    name: str,
    images: Images,
    inputs: Tensor,
    test_inputs: Tensor,
    task: tuple[int, ...],
    draw: Callable[[int], nn.Module],
    *,
    has_validation: bool = False,
) -> Problem:
    labels = among(images.train_labels, task)
    test_labels = among(images.test_labels, task)
    tested = np.flatnonzero(test_labels < len(task))
    inside = np.flatnonzero(labels < len(task))
    held_out = np.random.default_rng(0).permutation(inside)[: min(VALIDATION, len(inside) // 4)]
    return Problem(
        name=name,
        inputs=inputs,
        labels=labels,
        test_inputs=test_inputs[torch.from_numpy(tested).to(inputs.device)],
        test_labels=torch.from_numpy(test_labels[tested]).to(inputs.device),
        classes=len(task),
        validation=np.sort(held_out) if has_validation else np.empty(0, dtype=np.int64),
        draw=draw,
    )


def among(labels: Int[np.ndarray, " n"], task: tuple[int, ...]) -> Int[np.ndarray, " n"]:
    """The place of each label in the task. Labels that are not in it get its length."""
    places = np.searchsorted(task, labels).clip(0, len(task) - 1)
    return np.where(np.asarray(task)[places] == labels, places, len(task))
