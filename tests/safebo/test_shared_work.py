"""What outputs share, and what a sketch saves, changes no choice."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.safebo import round_state

AXIS = np.linspace(-2, 2, 13)
GRID = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1).reshape(-1, 2)
F = 3 * np.exp(-np.square(GRID - 1.0).sum(axis=1)) - 0.5
G = 2 * np.exp(-np.square(GRID).sum(axis=1) / 2) - 0.4
CENTRE = len(GRID) // 2


def ask_some(rule: str, kernels, noise_stds=(0.1, 0.1), rounds: int = 12) -> list[int]:
    """What is asked for, one after the other, with the values of two functions told."""
    objective, limited = (
        tm.GP(kernel, noise_std=std) for kernel, std in zip(kernels, noise_stds, strict=True)
    )
    optimizer = tm.SafeOptimizer(
        GRID,
        objective=objective,
        constraints={"g": tm.Constraint(limited, at_least=0.0)},
        safe_seed=[CENTRE],
        beta=3.0,
        rule=rule,
        on_violation="continue",
    )
    asked = []
    for _ in range(rounds):
        query = optimizer.ask()
        optimizer.tell(query, F[query.index], {"g": G[query.index]})
        asked.append(query.index)
    return asked


KERNELS = {
    "equal": (tm.kernels.Gaussian(1.0), tm.kernels.Gaussian(1.0)),
    "unequal": (tm.kernels.Gaussian(1.0), tm.kernels.Matern(2.5, 1.5)),
}


@pytest.mark.parametrize("rule", ["vtl", "itl", "itl-y", "ctl", "mm-itl"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_sketch_asks_what_the_dense_posterior_asks(rule, kernels, monkeypatch):
    monkeypatch.setattr(round_state, "SKETCH_SHARE", 1.0)  # whatever the rank
    sketched = ask_some(rule, KERNELS[kernels])
    monkeypatch.setattr(round_state, "SKETCH_SHARE", 0.0)  # never
    assert ask_some(rule, KERNELS[kernels]) == sketched


@pytest.mark.parametrize("rule", ["vtl", "itl"])
@pytest.mark.parametrize("noise_stds", [(0.1, 0.1), (0.1, 0.3)])
def test_outputs_that_share_their_variances_are_asked_as_if_each_had_its_own(
    rule, noise_stds, monkeypatch
):
    kernels = KERNELS["equal"]
    shared = ask_some(rule, kernels, noise_stds)
    monkeypatch.setattr(
        "tellmost.safebo.outputs.OutputPosterior.varies_as", lambda one, other: False
    )
    assert ask_some(rule, kernels, noise_stds) == shared


def test_kernels_that_only_look_alike_share_nothing():
    """Latent covariances do not show in a linear kernel's repr."""
    wide, narrow = (
        tm.kernels.Linear(torch.diag(torch.tensor(scale, dtype=torch.float64)))
        for scale in ([1.0, 0.05], [0.05, 1.0])
    )
    assert repr(wide) == repr(narrow)
    optimizer = tm.SafeOptimizer(
        GRID,
        objective=tm.GP(wide, noise_std=0.1),
        constraints={"g": tm.Constraint(tm.GP(narrow, noise_std=0.1, mean=1.0), at_least=-9.0)},
        beta=1.0,
    )
    optimizer.tell(CENTRE + 3, 0.1, {"g": 0.2})
    first, second = optimizer._rounds.present().state.posteriors
    rows, every = torch.arange(len(GRID)), torch.ones(len(GRID), dtype=torch.bool)
    assert not first.varies_as(second)
    assert not torch.allclose(first.gains(rows, every), second.gains(rows, every))


def test_outputs_told_at_different_points_vary_differently():
    gps = [tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1) for _ in range(2)]
    optimizer = tm.SafeOptimizer(
        GRID, objective=gps[0], constraints={"g": tm.Constraint(gps[1], at_least=0.0)}, beta=3.0
    )
    first, second = optimizer._rounds.present().state.posteriors
    assert first.varies_as(second)
    optimizer.tell(CENTRE, 1.0, {"g": 1.0})
    assert first.varies_as(second)
    optimizer.tell(CENTRE + 1, None, {"g": 1.0})
    assert not first.varies_as(second)
