"""The paper's Algorithm 1, slow and obvious: dense covariances of features, one pick at a time.

The whole pool are the candidates, and all targets are used, so nothing is drawn.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

import oracle


def rounds_of_picks(
    model: nn.Sequential,
    pool: Tensor,
    labels: Tensor,
    targets: Tensor,
    train: Callable[[nn.Module, Tensor, Tensor], None],
    *,
    score: Callable[[oracle.Problem, list[int]], np.ndarray],
    batch: int,
    rounds: int,
    noise_ratio: float = 1.0,
    conditioned: bool = False,
) -> list[list[int]]:
    """Trains the model in place; the picks of each round."""
    made: list[list[int]] = []
    for _ in range(rounds):
        chosen = [row for one in made for row in one]
        made.append(
            picks_of_a_round(
                problem_of(model, pool, targets, chosen, noise_ratio, conditioned),
                score,
                np.setdiff1d(np.arange(len(pool)), chosen),
                batch,
            )
        )
        chosen += made[-1]
        train(model, pool[chosen], labels[chosen])
    return made


def problem_of(
    model: nn.Sequential,
    pool: Tensor,
    targets: Tensor,
    chosen: list[int],
    noise_ratio: float,
    conditioned: bool,
) -> oracle.Problem:
    """Inner products of what goes into the last layer; noise relative to the open rows."""
    with torch.no_grad():
        features = model.eval()[:-1](torch.cat([pool, targets])).double().numpy()
    model.train()
    K, n = features @ features.T, len(pool)
    is_open = np.setdiff1d(np.arange(n), chosen)
    noise = noise_ratio * np.diag(K)[is_open].mean()
    problem = oracle.Problem(K, n, len(targets), np.full(n, noise), target_noise=noise)
    return replace(problem, observed=tuple(chosen)) if conditioned else problem


def picks_of_a_round(
    problem: oracle.Problem,
    score: Callable[[oracle.Problem, list[int]], np.ndarray],
    is_open: np.ndarray,
    batch: int,
) -> list[int]:
    picks: list[int] = []
    for _ in range(batch):
        left = np.setdiff1d(is_open, picks)
        picks.append(int(left[np.argmax(score(problem, picks)[left])]))
    return picks
