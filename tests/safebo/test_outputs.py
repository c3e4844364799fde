"""Gains from a sketch and gains that outputs share, against those of each kernel itself."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost import numerics
from tellmost.posterior import sketch
from tellmost.posterior.interpolation import InducingPoints
from tellmost.posterior.sketch import Features
from tellmost.safebo import gains, round_state
from tellmost.safebo.outputs import LEAST_NOISE, Output, OutputPosterior, OutputValue
from tellmost.safebo.round_state import SEEING_TOLERANCE, SKETCH_TOLERANCE

AXIS = torch.linspace(0, 1, 12, dtype=torch.float64)
POINTS = torch.cartesian_prod(AXIS, AXIS)
NOISE = torch.full((len(POINTS),), 0.04, dtype=torch.float64)
RULES = {
    "vtl": (tm.rules.VTL(), SKETCH_TOLERANCE),
    "itl": (tm.rules.ITL(), SEEING_TOLERANCE),
    "itl-y": (tm.rules.ITL(about="y"), SKETCH_TOLERANCE),
    "ctl": (tm.rules.CTL(), SKETCH_TOLERANCE),
}


def make_pair(rule, tolerance: float) -> tuple[OutputPosterior, OutputPosterior]:
    """A view with a sketch and one without, of the same observations."""
    gp = tm.GP(tm.kernels.Gaussian(0.6), noise_std=0.2)
    output = Output.of(("objective",), gp, POINTS)
    seen = [OutputValue(row, 0.5, 0.04) for row in (0, 17, 17, 80)]
    every = torch.ones(len(POINTS), dtype=torch.bool)
    if "variance_given_targets" in rule.needs:
        made = Features.of(output.kernel, POINTS, tolerance, len(POINTS))
    else:
        made = InducingPoints.of(output.kernel, POINTS, len(POINTS)).among(POINTS, contexts=0)
    views = [
        OutputPosterior(output, POINTS, NOISE, seen, one, rule, every) for one in (made, None)
    ]
    return views[0], views[1]


def alike(is_target: torch.Tensor) -> torch.Tensor:
    """The weights of targets that weigh alike."""
    return is_target.double() / is_target.sum()


def changing_targets() -> list[torch.Tensor]:
    """Weights of targets that gain and lose some points, change altogether, and weigh unlike."""
    generator = torch.Generator().manual_seed(0)
    first = torch.rand(len(POINTS), generator=generator) < 0.5
    second, third = first.clone(), first.clone()
    second[first.nonzero()[:5, 0]] = False
    third[(~first).nonzero()[:7, 0]] = True
    weights = torch.rand(len(POINTS), generator=generator, dtype=torch.float64) * first
    sets = [alike(one) for one in (first, second, third, first, ~first)]
    return [*sets, weights / weights.sum()]


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_sketch_gives_the_gains_of_the_kernel_while_targets_and_data_change(name):
    rule, tolerance = RULES[name]
    sketched, dense = make_pair(rule, tolerance)
    rows = torch.arange(0, len(POINTS), 3)
    for step, weights in enumerate(changing_targets()):
        pending = [5, 60] if step % 2 else []
        wanted = dense.gains(rows, weights, pending)
        found = sketched.gains(rows, weights, pending)
        # covariances err by some tolerances; logarithms divide that by the noise, 0.04
        torch.testing.assert_close(found, wanted, rtol=0, atol=max(30 * tolerance, 1e-7))
        assert wanted.abs().max() > 0.05
        for view in (sketched, dense):
            view.observe(OutputValue(10 * step + 3, 0.1, 0.09))


def test_gains_with_pending_points_are_those_had_they_been_observed():
    for view in make_pair(*RULES["vtl"]):
        weights, rows = changing_targets()[0], torch.arange(20)
        expected = view.gains(rows, weights, [50, 51])
        assert not torch.allclose(expected, view.gains(rows, weights))
        for row in (50, 51):
            view.observe(OutputValue(row, 3.0, 0.04))
        torch.testing.assert_close(view.gains(rows, weights), expected, rtol=1e-9, atol=1e-12)


def test_few_features_are_made_where_the_kernel_is_smooth_and_none_where_it_is_rough():
    smooth, rough = tm.kernels.Gaussian(1.0), tm.kernels.Laplace(0.05)
    features = Features.of(smooth, POINTS, 1e-6, 40)
    assert features is not None and features.rank < 40
    left = smooth.block(POINTS, POINTS) - features.rows @ features.rows.T
    assert left.diagonal().min() + 1e-12 >= 0 and left.diagonal().max() <= 1e-6
    assert Features.of(rough, POINTS, 1e-6, 40) is None


def test_two_kernels_that_print_alike_do_not_share_their_features():
    """Gains add over outputs, so it does not matter which of two priors is the objective's."""
    first, second = (tm.kernels.Linear(torch.diag(torch.tensor(c))) for c in ([4.0, 1], [0.1, 2]))
    assert repr(first) == repr(second)
    made = []
    for objective, constraint in ((first, second), (second, first)):
        optimizer = tm.SafeOptimizer(
            POINTS.numpy(),
            objective=tm.GP(objective),
            constraints={"g": tm.Constraint(tm.GP(constraint), at_least=-9.0)},
            targets=lambda known: known.points[:, 0] > 0.5,
        )
        is_open = torch.ones(len(POINTS), dtype=torch.bool)
        made.append(optimizer._rounds.present().targets().gains(is_open, []))
    torch.testing.assert_close(made[0], made[1], rtol=1e-9, atol=1e-12)


# ---- what outputs share, and what a sketch saves, changes no choice

GRID = torch.cartesian_prod(*[torch.linspace(-2, 2, 13, dtype=torch.float64)] * 2).numpy()
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


@pytest.mark.parametrize("rule", ["vtl", "ctl"])
def test_few_inducing_points_ask_what_the_dense_posterior_asks(rule, monkeypatch):
    """They rank badly, so more rows are looked at."""
    monkeypatch.setattr(round_state, "INDUCING_POINTS", 30)
    monkeypatch.setattr(gains, "CONFIRMED", 4)
    few = ask_some(rule, KERNELS["unequal"])
    monkeypatch.setattr(round_state, "SKETCH_SHARE", 0.0)
    assert ask_some(rule, KERNELS["unequal"]) == few


def test_inducing_points_ask_under_contexts_what_the_dense_posterior_asks(monkeypatch):
    found = []
    for share in (1.0, 0.0):
        monkeypatch.setattr(round_state, "SKETCH_SHARE", share)
        gps = [tm.GP(tm.kernels.Gaussian(s), noise_std=0.1) for s in (1.0, 1.2)]
        optimizer = tm.SafeOptimizer(
            GRID,
            objective=gps[0],
            constraints={"g": tm.Constraint(gps[1], at_least=0.0)},
            safe_seed=[CENTRE],
            contexts=["load"],
            on_violation="continue",
        )
        for step in range(8):
            query = optimizer.ask(context=[step % 3])
            found.append(query.index)
            optimizer.tell(query, F[query.index] - 0.1 * (step % 3), {"g": G[query.index]})
    assert found[:8] == found[8:]
    assert len(set(found)) > 3


ROUGH = (tm.kernels.Matern(1.5, 1.0), tm.kernels.Matern(1.5, 1.3))


@pytest.mark.parametrize("kernels", [*KERNELS.values(), ROUGH])
@pytest.mark.parametrize("noise_stds", [(0.1, 0.1), (0.02, 0.3)])
def test_itl_asks_the_same_where_it_sees_targets_only_if_bounds_leave_the_choice_open(
    kernels, noise_stds, monkeypatch
):
    monkeypatch.setattr(gains, "SMALL", 0)
    bounded = ask_some("itl", kernels, noise_stds)
    every = gains.RoundTargets._sum_gains
    monkeypatch.setattr(gains.RoundTargets, "_gains_near_the_best", every)
    monkeypatch.setattr(sketch, "MOST_INVERTED", 0)
    assert ask_some("itl", kernels, noise_stds) == bounded


@pytest.mark.parametrize("kernel", [tm.kernels.Gaussian(0.5), tm.kernels.Matern(1.5, 0.4)])
def test_gains_of_itl_lie_within_their_bounds(kernel):
    output = Output.of(("objective",), tm.GP(kernel, noise_std=0.2), POINTS)
    seen = [OutputValue(row, 0.5, 0.04) for row in (0, 17, 17, 80)]
    every = torch.ones(len(POINTS), dtype=torch.bool)
    view = OutputPosterior(output, POINTS, NOISE, seen, None, tm.rules.ITL(), every)
    rows = torch.arange(len(POINTS))
    for weights in changing_targets():
        exact = view.gains(rows, weights, [5])
        lower, upper = view.gain_bounds(rows, weights, [5])
        assert (lower <= exact + 1e-12).all() and (exact <= upper + 1e-12).all()
        assert (upper - lower)[weights > 0].max() < 1e-6


def test_rows_are_confirmed_until_none_can_be_better():
    rng = np.random.default_rng(0)
    for _ in range(20):
        exact = torch.from_numpy(rng.random(500))
        rough = exact + 0.03 * torch.from_numpy(rng.random(500) - 0.2)
        rough[::7] = -torch.inf
        found, looked = rough.clone(), []
        gains.confirm_best(
            found, lambda rows, x=exact, seen=looked: seen.extend(rows.tolist()) or x[rows]
        )
        assert int(found.argmax()) == int(exact.where(rough > -torch.inf, -torch.inf).argmax())
        assert len(looked) < 250
        torch.testing.assert_close(found[looked], exact[looked])


def test_covariances_in_small_pieces_ask_what_they_ask_in_one(monkeypatch):
    monkeypatch.setattr(round_state, "SKETCH_SHARE", 1.0)
    spans, pieces = sketch.spans, []
    monkeypatch.setattr(
        sketch, "spans", lambda n, size: pieces.append(len(list(spans(n, size)))) or spans(n, size)
    )
    whole = ask_some("mm-itl", KERNELS["equal"], rounds=3)
    assert max(pieces) == 1
    monkeypatch.setattr(numerics, "CHUNK_BYTES", 1_000)
    assert ask_some("mm-itl", KERNELS["equal"], rounds=3) == whole
    assert max(pieces) > 5


@pytest.mark.parametrize("rule", ["vtl", "itl"])
@pytest.mark.parametrize("noise_stds", [(0.1, 0.1), (0.1, 0.3)])
def test_outputs_that_share_their_variances_are_asked_as_if_each_had_its_own(
    rule, noise_stds, monkeypatch
):
    kernels = KERNELS["equal"]
    shared = ask_some(rule, kernels, noise_stds)
    monkeypatch.setattr(
        "tellmost.safebo.outputs.OutputPosterior._is_like", lambda one, other: False
    )
    assert ask_some(rule, kernels, noise_stds) == shared


def test_outputs_that_are_told_apart_are_believed_apart(monkeypatch):
    """They share what is computed until a value of one alone, or of another noise, is told."""

    def believe() -> torch.Tensor:
        gps = [tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1) for _ in range(3)]
        limits = {
            name: tm.Constraint(gp, at_least=0.0) for name, gp in zip("gh", gps[1:], strict=True)
        }
        optimizer = tm.SafeOptimizer(GRID, objective=gps[0], constraints=limits, beta=3.0)
        optimizer.tell(row=3, objective=1.0, constraints={"g": 0.5, "h": 0.2})
        optimizer.tell(row=9, objective=0.3, constraints={"h": 0.1})
        optimizer.tell(
            row=70, objective=0.8, constraints={"g": 0.4, "h": 0.6}, noise_std={"h": 0.3}
        )
        optimizer.tell(row=70, constraints={"g": 0.4, "h": 0.6})
        state = optimizer._rounds.present().state
        return torch.stack([state.mean, state.std])

    shared = believe()
    monkeypatch.setattr(
        "tellmost.safebo.outputs.OutputPosterior._is_like", lambda one, other: False
    )
    torch.testing.assert_close(shared, believe(), rtol=1e-12, atol=1e-12)


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
    optimizer.tell(row=CENTRE + 3, objective=0.1, constraints={"g": 0.2})
    first, second = optimizer._rounds.present().state.posteriors
    rows, every = torch.arange(len(GRID)), alike(torch.ones(len(GRID)))
    assert not first.varies_as(second)
    assert not torch.allclose(first.gains(rows, every), second.gains(rows, every))


def test_outputs_told_at_different_points_vary_differently():
    gps = [tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1) for _ in range(2)]
    optimizer = tm.SafeOptimizer(
        GRID, objective=gps[0], constraints={"g": tm.Constraint(gps[1], at_least=0.0)}, beta=3.0
    )
    first, second = optimizer._rounds.present().state.posteriors
    assert first.varies_as(second)
    optimizer.tell(row=CENTRE, objective=1.0, constraints={"g": 1.0})
    assert first.varies_as(second)
    optimizer.tell(row=CENTRE + 1, constraints={"g": 1.0})
    assert not first.varies_as(second)


@pytest.mark.parametrize("count", [31, 70])  # a block of trials is not full, or was
@pytest.mark.parametrize("rows", [[50, 51], list(range(0, 101, 5)), list(range(10, 40))])
def test_the_least_noise_is_told_from_rounding(rows, count):
    """Repeated, spread and dense values are believed, and what lies beside them is not sure."""
    x, rng = np.linspace(0.0, 1.0, 101), np.random.default_rng(0)
    kernel = tm.kernels.Matern(2.5, 0.3)
    prior = tm.GP(kernel, noise_std=LEAST_NOISE)
    limit = tm.Constraint(tm.GP(kernel, noise_std=LEAST_NOISE), at_least=-1.0)
    opt = tm.SafeOptimizer(
        x, objective=prior, constraints={"g": limit}, safe_seed=[[0.5]],
        suspect_z=float("inf"), on_miscalibration="log",
    )  # fmt: skip
    f = np.sin(3 * x)
    for number in range(count):
        row = rows[number % len(rows)]
        y, g = f[row] + LEAST_NOISE * rng.standard_normal(2)
        opt.tell(row=row, objective=y, constraints={"g": g})
    mean, std = opt.predict([[x[rows[-1]]], [0.3]])
    assert mean[0] == pytest.approx(f[rows[-1]], abs=10 * LEAST_NOISE)
    assert abs(mean[1] - np.sin(0.9)) <= 3 * std[1] and 0.0 < std[1] < 1.0
