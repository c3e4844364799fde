"""Slow and obvious versions of what the network experiments compute, in float64."""

import mpmath
import numpy as np
import torch
from torch import nn
from torch.nn import functional

LITE0 = (
    # blocks, kernel, stride, expansion, outputs: the table of EfficientNet-B0
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def lite0(images, published):
    """Outputs of EfficientNet-Lite0, straight from the published names of its weights."""
    weights = {name: value.double() for name, value in published.items()}
    x = torch.clamp(convolve(images.double(), weights, "_conv_stem", "_bn0", 2), 0, 6)
    number = 0
    for blocks, kernel, stride, expansion, outputs in LITE0:
        for repeat in range(blocks):
            name, before = f"_blocks.{number}", x
            if expansion > 1:
                x = convolve(x, weights, f"{name}._expand_conv", f"{name}._bn0", 1)
                x = torch.clamp(x, 0, 6)
            step = 1 if repeat else stride
            x = convolve(x, weights, f"{name}._depthwise_conv", f"{name}._bn1", step)
            assert weights[f"{name}._depthwise_conv.weight"].shape[-1] == kernel
            x = torch.clamp(x, 0, 6)
            x = convolve(x, weights, f"{name}._project_conv", f"{name}._bn2", 1)
            if before.shape == x.shape:
                x = x + before
            assert x.shape[1] == outputs
            number += 1
    x = torch.clamp(convolve(x, weights, "_conv_head", "_bn1", 1), 0, 6)
    return x.mean(dim=(2, 3)) @ weights["_fc.weight"].T + weights["_fc.bias"]


def convolve(x, weights, name, norm, stride):
    """With as many pixels a side as the input has over the stride, and a frozen batch norm."""
    W = weights[f"{name}.weight"]
    kernel, size = W.shape[-1], x.shape[-1]
    missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    first = missing // 2
    padded = functional.pad(x, (first, missing - first, first, missing - first))
    y = functional.conv2d(padded, W, stride=stride, groups=x.shape[1] // W.shape[1])
    mean, variance = weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"]
    scaled = (y - mean[:, None, None]) / torch.sqrt(variance + 1e-3)[:, None, None]
    return (
        scaled * weights[f"{norm}.weight"][:, None, None] + weights[f"{norm}.bias"][:, None, None]
    )


def train(model, inputs, labels, orders, *, batch=64, learning_rate=1e-3):
    """Epoch by epoch in these orders, by torch's own weighted loss, without any padding.

    Every class of the model has an example.
    """
    counts = np.bincount(labels)
    weight = torch.tensor([len(labels) / count for count in counts], dtype=inputs.dtype)
    loss = nn.CrossEntropyLoss(weight=weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for order in orders:
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            optimizer.zero_grad()
            loss(model(inputs[rows]), torch.from_numpy(labels[rows])).backward()
            optimizer.step()


def choose_in_many_digits(points, gram, k, rule, noise_std, *, targets):
    """Greedy picks and gains of ITL about y_A, or of CTL, in arithmetic of 60 digits.

    The first ``targets`` points are A, the others the candidates; ``gram`` is the covariance of
    two points. Covariances come from a Cholesky factor that grows by a column per observation.
    """
    with mpmath.workdps(60):
        exact = [[mpmath.mpf(float(value)) for value in point] for point in points]
        factor = Factor(exact, gram, mpmath.mpf(noise_std) ** 2)
        picks, gains = [], []
        for _ in range(k):
            scores = (
                score_itl_y(factor, targets) if rule == "itl-y" else score_ctl(factor, targets)
            )
            left = [i for i in range(targets, len(points)) if i not in picks]
            picks.append(max(left, key=lambda i: scores[i]))
            gains.append(float(scores[picks[-1]]))
            factor = factor.given(picks[-1])
        return [pick - targets for pick in picks], gains


class Factor:
    """Covariances of all points given noisy observations of some."""

    def __init__(self, points, gram, noise, columns=(), variances=None):
        self.points, self.gram, self.noise, self.columns = points, gram, noise, columns
        self.variances = [gram(x, x) for x in points] if variances is None else variances

    def covariances(self, row):
        """Of all points with this one."""
        priors = [self.gram(x, self.points[row]) for x in self.points]
        return [
            prior - sum(column[i] * column[row] for column in self.columns)
            for i, prior in enumerate(priors)
        ]

    def given(self, row):
        scale = mpmath.sqrt(self.variances[row] + self.noise)
        column = [value / scale for value in self.covariances(row)]
        variances = [v - one**2 for v, one in zip(self.variances, column, strict=True)]
        columns = (*self.columns, column)
        return Factor(self.points, self.gram, self.noise, columns, variances)


def score_itl_y(factor, targets):
    seen = factor
    for row in range(targets):
        seen = seen.given(row)
    return [
        mpmath.log((before + factor.noise) / (after + factor.noise)) / 2
        for before, after in zip(factor.variances, seen.variances, strict=True)
    ]


def score_ctl(factor, targets):
    sds = [mpmath.sqrt(variance) for variance in factor.variances]
    cross = [factor.covariances(row) for row in range(targets)]
    return [
        sum(cross[a][i] / sds[a] for a in range(targets)) / (sd * targets)
        for i, sd in enumerate(sds)
    ]


def inner(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))
