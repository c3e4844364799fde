"""What is kept of points from round to round follows from the trials alone, and is exact."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from tellmost.safebo import kept_rows
from tellmost.safebo.kept_rows import KeptRows, KeptVectors, whole_blocks

KERNEL = tm.kernels.Matern(2.5, 0.3)
FIXED = tm.Box([0.0, 0.0], 1.0).sobol(20, seed=0)
TRIED = tm.Box([0.0, 0.0], 1.0).sobol(60, seed=1)
OTHERS = tm.Box([0.0, 0.0], 1.0).sobol(3, seed=2)


def seen_in(trials):
    """Two observations before the trials. Every third trial tells nothing of the output."""
    before = [(0, 0.01), (3, 0.02)]
    return before + [(20 + i, 0.01 * (1 + i % 2)) for i in range(trials) if i % 3]


def after(kept, trials):
    points = torch.cat([FIXED, TRIED[:trials], OTHERS[: trials % 4]])
    return points, *kept.after(points, trials, seen_in(trials))


@settings(max_examples=25, deadline=None)
@given(rounds=st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_vectors_are_exact_and_do_not_depend_on_the_rounds_before(rounds):
    kept = KeptRows(KERNEL, FIXED, seen_in(0))
    for trials in sorted(rounds):
        points, posterior, running = after(kept, trials)
    anew = after(KeptRows(KERNEL, FIXED, seen_in(0)), trials)[2]
    assert torch.equal(running.whitened.rows, anew.whitened.rows)
    assert torch.equal(running.variance, anew.variance)
    rows, noise = zip(*seen_in(trials), strict=True)
    own = points[list(rows)]
    covariance = KERNEL.block(own, own) + torch.tensor(noise, dtype=torch.float64).diag()
    root = torch.linalg.cholesky(covariance)
    F = torch.linalg.solve_triangular(root, KERNEL.block(own, points), upper=False)
    torch.testing.assert_close(running.whitened.rows, F, atol=1e-9, rtol=0)
    variance = 1 - F.square().sum(dim=0)
    torch.testing.assert_close(running.variance, variance, atol=1e-9, rtol=0)
    torch.testing.assert_close(posterior.variance(points), variance, atol=1e-9, rtol=0)


@given(trials=st.integers(0, 10_000))
def test_blocks_are_few_and_each_was_a_last_one_before(trials):
    stops = whole_blocks(trials)
    sizes = [stop - start for start, stop in pairwise(stops)]
    assert sizes == sorted(set(sizes), reverse=True)
    assert 0 <= trials - stops[-1] < kept_rows.LEAST_BLOCK
    assert all(whole_blocks(stop) == stops[: i + 1] for i, stop in enumerate(stops))


@pytest.mark.parametrize("most", [1, 10**9])
def test_contexts_of_long_ago_are_forgotten_where_memory_is_short(most, monkeypatch):
    monkeypatch.setattr(kept_rows, "MOST_KEPT", most)
    kept = KeptVectors()
    for context in (0.0, 1.0, 0.0):
        begun = kept.begun((0, context), KERNEL, torch.cat([FIXED, TRIED[:40]]), 20, 40)
        begun(seen_in(40))
    assert len(kept._each) == (1 if most == 1 else 2)


@pytest.mark.parametrize("where", ["box", "contexts"])
def test_a_query_does_not_depend_on_the_queries_before(where):
    def make():
        is_box = where == "box"
        kernel = tm.kernels.Gaussian(0.3)
        domain = tm.Box([0.0, 0.0], 1.0) if is_box else FIXED
        return tm.SafeOptimizer(
            domain,
            objective=tm.GP(kernel, noise_std=0.1),
            constraints={"g": tm.Constraint(tm.GP(tm.kernels.Gaussian(0.4)), at_least=-3.0)},
            contexts=() if is_box else ["load"],
            on_violation="continue",
            on_miscalibration="log",
        )

    asked, told = make(), make()
    for number, x in enumerate(TRIED[:40].numpy()):
        context = None if where == "box" else [number % 2]
        point = x if where == "box" else FIXED[number % 20].numpy()
        value = float(point.sum() * 0.3 + 0.1 * (number % 5))
        for one in (asked, told):
            one.tell(point, value, {"g": value}, context=context)
        if number % 3 == 0:
            asked.ask(context=context)
    context = None if where == "box" else [1]
    left, right = asked.ask(context=context), told.ask(context=context)
    assert left.id == right.id and (left.x == right.x).all()
    assert left.probability_safe == right.probability_safe and left.lower == right.lower
