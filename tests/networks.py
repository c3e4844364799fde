"""Small networks that the tests of fine-tuning share."""

import torch
from torch import Tensor, nn


def mlp(features: int = 5, hidden: int = 7, classes: int = 3, *, bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, classes, bias=bias)
    ).double()


def with_two_heads() -> nn.Sequential:
    """Layers "1" and "2" return the same numbers: either may be named as the final one."""
    torch.manual_seed(2)
    made = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 3), nn.Linear(3, 3, bias=False)).double()
    nn.init.eye_(made[2].weight)
    return made


class SmallCNN(nn.Module):
    """8 x 8 pictures; the layer that is called last was not made last."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.head = nn.Linear(6, classes)
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.drop = nn.Dropout(0.5)
        self.hidden = nn.Linear(3 * 16, 6)

    def penultimate(self, x: Tensor) -> Tensor:
        y = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.relu(self.hidden(self.drop(y.flatten(1))))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.penultimate(x))


def cnn() -> SmallCNN:
    torch.manual_seed(1)
    made = SmallCNN().double()
    made(torch.randn(16, 1, 8, 8, dtype=torch.float64))  # statistics of the normalisation
    return made
