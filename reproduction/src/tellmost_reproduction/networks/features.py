"""What the frozen trunk makes of all images: computed once, kept in a file beside them."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tellmost.running.writing import written_whole
from tellmost_reproduction.networks.efficientnet import load_trunk, prepare
from tellmost_reproduction.networks.images import Images

FILES = ("trunk_features_train.npy", "trunk_features_test.npy")
AT_ONCE = 256


def read_features(
    images: Images, weights: dict[str, Tensor], folder: Path, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Of the training and of the test images, in half precision, on the device."""
    train, test = (
        read_or_make(pixels, weights, folder / name, device)
        for pixels, name in zip((images.train, images.test), FILES, strict=True)
    )
    return train, test


def read_or_make(
    pixels: np.ndarray, weights: dict[str, Tensor], path: Path, device: torch.device
) -> Tensor:
    if not path.exists():
        made = trunk_features(pixels, weights, device)
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
def trunk_features(pixels: np.ndarray, weights: dict[str, Tensor], device: torch.device) -> Tensor:
    trunk = load_trunk(weights).to(device)
    made = [
        trunk(prepare(torch.from_numpy(pixels[start : start + AT_ONCE]).to(device))).half()
        for start in range(0, len(pixels), AT_ONCE)
    ]
    return torch.cat(made)
