"""Where the paper's table of noise is unstable, picks and gains are those of many digits."""

from functools import cache

import numpy as np
import oracle_networks
import pytest
import torch
from oracle_networks import inner

import tellmost as tm
from tellmost.finetune import Inputs, embed
from tellmost_reproduction.networks.configurations import EMBEDDINGS
from tellmost_reproduction.networks.problems import CIFAR, read_problem
from tellmost_reproduction.networks.training import training_of

CANDIDATES, TARGETS, PICKS = 80, 5, 10
EXAMPLES = 40


@cache
def trained():
    """The digits' network after a round of training on some images of the task."""
    problem = read_problem(CIFAR, None, torch.device("cpu"), is_smoke=True)
    model = problem.draw(0).eval()
    training = training_of(model, problem, EXAMPLES)
    training.start(0)
    rows = np.flatnonzero(problem.is_in_task)[:EXAMPLES]
    training(model, problem.inputs[rows], torch.from_numpy(problem.labels[rows]), 1)
    return problem, model


def gram_of(kind, classes):
    """Of residuals and features side by side the gradients' inner product, or of features."""

    def products(one, other):
        return inner(one[:classes], other[:classes]) * inner(one[classes:], other[classes:])

    return products if kind == "loss" else inner


@pytest.mark.parametrize("rho", [0.0001, 0.01])
@pytest.mark.parametrize("rule", ["itl-y", "ctl"])
@pytest.mark.parametrize("kind", ["loss", "last"])
def test_a_batch_of_ten_is_that_of_many_digits_where_noise_is_small(kind, rule, rho):
    problem, model = trained()
    inside = np.flatnonzero(problem.is_in_task)[-TARGETS:]
    others = np.random.default_rng(0).permutation(inside[0])[:CANDIDATES]
    rows = np.concatenate([inside, others])
    embedded = embed(model, Inputs(problem.inputs, rows, "pool"), EMBEDDINGS[kind][1])
    chosen = tm.select(
        embedded.points[TARGETS:],
        embedded.points[:TARGETS],
        PICKS,
        rule=rule,
        kernel=embedded.kernel,
        noise_std=rho,
        progress=False,
    )
    picks, gains = oracle_networks.choose_in_many_digits(
        embedded.points.tolist(),
        gram_of(kind, problem.classes),
        PICKS,
        rule,
        rho,
        targets=TARGETS,
    )
    assert chosen.indices.tolist() == picks
    assert chosen.gains.tolist() == pytest.approx(gains, rel=1e-9)
