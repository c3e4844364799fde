"""The network of the MNIST experiment, and the small ones of the digits that stand in for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from tellmost.shapes import Float

WIDTHS = (32, 64, 128)
HIDDEN = 256


class ConvNet(nn.Module):
    """Convolutions (3 x 3, ReLU, max-pooling by 2), then two fully-connected layers.

    Hübotter et al. 2024, Sec. "Active Fine-Tuning of Neural Networks": three convolutions. No
    dropout; the final layer has no bias, as in the authors' code.
    """

    def __init__(
        self,
        side: int,
        classes: int,
        *,
        channels: int = 1,
        widths: tuple[int, ...] = WIDTHS,
        hidden: int = HIDDEN,
    ) -> None:
        super().__init__()
        sizes = (channels, *widths)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(one, other, 3, padding=1) for one, other in pairwise(sizes)
        )
        left = side // 2 ** len(widths)
        self.hidden = nn.Linear(widths[-1] * left * left, hidden)
        self.final = nn.Linear(hidden, classes, bias=False)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        """Images may come in half precision."""
        x = images.to(self.hidden.weight.dtype)
        for convolution in self.convolutions:
            x = functional.max_pool2d(functional.relu(convolution(x)), 2)
        return self.final(functional.relu(self.hidden(x.flatten(1))))


def draw_convnet(seed: int, classes: int) -> ConvNet:
    """The paper's network for MNIST. Torch draws its weights, as a function of the seed alone."""
    with seeded(seed):
        return ConvNet(28, classes)


def draw_small_convnet(seed: int, classes: int) -> ConvNet:
    """The same network for 8 x 8 images, and narrower."""
    with seeded(seed):
        return ConvNet(8, classes, widths=(8, 16, 16), hidden=32)


class SmallTrunk(nn.Module):
    """A frozen convolution for the digits, where the experiment at full size has a network's."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, channels, 3, padding=1)

    def forward(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b c p q"]:
        return functional.max_pool2d(functional.relu(self.convolution(images)), 2)


def draw_small_trunk(seed: int) -> SmallTrunk:
    with seeded(seed):
        return SmallTrunk().eval().requires_grad_(False)


def draw_small_head(seed: int, classes: int) -> ConvNet:
    """The network that is trained on what a ``SmallTrunk`` makes of 8 x 8 images."""
    with seeded(seed):
        return ConvNet(4, classes, channels=16, widths=(32,), hidden=32)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch draw on the CPU by this seed, and then leave its state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
