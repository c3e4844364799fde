"""The slow, obvious float64 version of what others do with a network.

One candidate after the other, from the definitions; gradients by autograd, steps by taking them.
Nothing here imports Tellmost, so that a mistake cannot be made twice.
"""

import copy
from math import log

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def entropy(logits: np.ndarray) -> float:
    return -sum(p * log(p) for p in softmax(logits) if p > 0)


def lack_of_margin(logits: np.ndarray) -> float:
    largest, second = sorted(softmax(logits))[::-1][:2]
    return 1 - (largest - second)


def lack_of_confidence(logits: np.ndarray) -> float:
    return 1 - max(softmax(logits))


def mean_cosine(x: np.ndarray, targets: np.ndarray) -> float:
    return np.mean([x @ a / (np.linalg.norm(x) * np.linalg.norm(a)) for a in targets])


def loss_gradient(model: nn.Module, last: nn.Linear, x: Tensor) -> np.ndarray:
    """The gradient by the last layer's parameters, had the predicted label been observed."""
    logits = model(x[None])
    loss = cross_entropy(logits, logits.argmax(dim=1))
    parts = torch.autograd.grad(loss, list(last.parameters()))
    return torch.cat([part.flatten() for part in parts]).numpy()


def expected_information(
    model: nn.Module, last: str, x: Tensor, targets: Tensor, learning_rate: float
) -> float:
    """One step for every label, taken on a copy of the network."""
    with torch.no_grad():
        p = model(x[None])[0].softmax(dim=0)
        before = np.mean([entropy(row.numpy()) for row in model(targets)])
    after = 0.0
    for label, probability in enumerate(p.tolist()):
        trained = copy.deepcopy(model)
        trained.zero_grad()
        cross_entropy(trained(x[None]), torch.tensor([label])).backward()
        with torch.no_grad():
            for weights in trained.get_submodule(last).parameters():
                weights -= learning_rate * weights.grad
            sure = np.mean([entropy(row.numpy()) for row in trained(targets)])
        after += probability * sure
    return before - after


def k_center(points: np.ndarray, known: np.ndarray, k: int) -> list[int]:
    picks: list[int] = []
    while len(picks) < k:
        chosen = [*known, *points[picks]]
        score = [
            min((np.linalg.norm(x - s) for s in chosen), default=np.linalg.norm(x)) for x in points
        ]
        picks.append(best_of(score, picks))
    return picks


def best_of(scores: list[float], picks: list[int]) -> int:
    """The position of the largest score that was not picked; the lowest of equals."""
    left = [i for i in range(len(scores)) if i not in picks]
    return max(left, key=lambda i: (scores[i], -i))


def purity(points: np.ndarray, labels: np.ndarray, radius: float) -> float:
    """The share of balls, without their border, that hold one label."""
    is_pure = []
    for x, label in zip(points, labels, strict=True):
        inside = np.linalg.norm(points - x, axis=1) < radius
        is_pure.append(bool((labels[inside] == label).all()))
    return np.mean(is_pure)


def pure_radius(points: np.ndarray, labels: np.ndarray, share: float) -> float:
    """The largest of all distances at which the balls are pure enough."""
    radii = [np.linalg.norm(points - x, axis=1) for x in points]  # in the arithmetic of purity
    return max(r for r in np.unique(radii) if purity(points, labels, r) >= share)


def cover(points: np.ndarray, known: np.ndarray, radius: float, k: int) -> list[int]:
    balls = [
        {j for j, z in enumerate(points) if np.linalg.norm(x - z) < radius}
        for x in [*points, *known]
    ]
    covered = set().union(*balls[len(points) :])
    picks: list[int] = []
    while len(picks) < k:
        picks.append(best_of([len(ball - covered) for ball in balls[: len(points)]], picks))
        covered |= balls[picks[-1]]
    return picks


def typical(
    points: np.ndarray, labels: np.ndarray, of_known: np.ndarray, k: int, neighbors: int
) -> list[int]:
    """Clusters in turn, fewest labels first and largest first.

    Those of up to five points have no turn before all larger ones are empty.
    """
    of_all = [*labels, *of_known]
    order = sorted(set(of_all), key=lambda c: (list(of_known).count(c), -of_all.count(c), c))
    picks: list[int] = []
    while len(picks) < k:
        open_clusters = {labels[i] for i in range(len(labels)) if i not in picks}
        large = {c for c in open_clusters if of_all.count(c) > 5}
        for c in [c for c in order if c in (large or open_clusters)]:
            members = [i for i, label in enumerate(labels) if label == c and i not in picks]
            if len(picks) < k:
                scores = [typicality(points, i, members, neighbors) for i in members]
                picks.append(members[int(np.argmax(scores))])
    return picks


def typicality(points: np.ndarray, i: int, members: list[int], neighbors: int) -> float:
    others = sorted(np.linalg.norm(points[i] - points[j]) for j in members if j != i)
    near = others[: min(neighbors, len(members) // 2)]
    return 1 / np.mean(near) if near else 0.0
