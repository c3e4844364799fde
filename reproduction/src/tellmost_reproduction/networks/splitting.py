"""Which images may be chosen and which are the targets, by configuration and seed."""

from dataclasses import dataclass

import numpy as np

from tellmost.shapes import Int
from tellmost_reproduction.networks.problems import Problem
from tellmost_reproduction.networks.settings import Configuration

KEPT_IF_SCARCE = 0.2
"""Of the task's images in an imbalanced pool; the paper removes 80%."""

KEPT_IF_LOPSIDED = 0.5
"""Of the images of the first classes of the task, when targets are drawn."""


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of the problem."""

    pool: Int[np.ndarray, " n"]
    targets: Int[np.ndarray, " m"]


def split(problem: Problem, configuration: Configuration, seed: int) -> Split:
    """The same seed gives the same targets, whoever chooses."""
    generator = np.random.default_rng([seed, *b"targets"])
    rows = np.setdiff1d(np.arange(len(problem.labels)), problem.validation)
    drawn_from = rows[problem.is_in_task[rows]]
    if configuration.is_lopsided:
        drawn_from = thin(drawn_from, problem.labels[drawn_from] < half(problem), generator)
    targets = np.sort(generator.choice(drawn_from, configuration.targets, replace=False))
    return Split(pool_of(problem, configuration, rows, targets, generator), targets)


def half(problem: Problem) -> int:
    """How many classes are thinned out: 0 to 4 of ten; digits 3 and 6 of three."""
    return -(-problem.classes // 2)


def pool_of(
    problem: Problem,
    configuration: Configuration,
    rows: Int[np.ndarray, " r"],
    targets: Int[np.ndarray, " m"],
    generator: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    if configuration.pool == "inside":
        return rows
    if configuration.pool == "targets":
        return targets
    apart = np.setdiff1d(rows, targets)
    if configuration.pool == "scarce":
        return thin(apart, problem.is_in_task[apart], generator, kept=KEPT_IF_SCARCE)
    return apart


def thin(
    rows: Int[np.ndarray, " r"],
    is_thinned: np.ndarray,
    generator: np.random.Generator,
    *,
    kept: float = KEPT_IF_LOPSIDED,
) -> Int[np.ndarray, " s"]:
    """Without a part of those that are marked."""
    marked = generator.permutation(rows[is_thinned])
    left = marked[: round(kept * len(marked))]
    return np.sort(np.concatenate([rows[~is_thinned], left]))
