"""Trials that were told before an ask are taken in together, and the answer is the same."""

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo import trial_blocks

DOMAIN = np.random.default_rng(0).uniform(0, 1, (60, 2))


def make(*, equal, **more):
    one = tm.kernels.Matern(2.5, 0.3)
    other = one if equal else tm.kernels.Matern(2.5, 0.35)
    return tm.SafeOptimizer(
        DOMAIN,
        objective=tm.GP(one, noise_std=0.1),
        constraints={"c": tm.Constraint(tm.GP(other, noise_std=0.1), at_least=-1.0)},
        on_violation="continue",
        on_miscalibration="log",
        suspect_z=np.inf,
        **{"confidence": 0.9, **more},
    )


def go(optimizer, trials, *, ask_after=(), partly=()):
    rng = np.random.default_rng(1)
    for number in range(trials):
        row, noise = int(rng.integers(len(DOMAIN))), 0.1 * rng.standard_normal(2)
        objective = None if number in partly else float(np.sin(5 * DOMAIN[row]).sum() + noise[0])
        value = float(1.2 - ((DOMAIN[row] - 0.5) ** 2).sum() + noise[1])
        optimizer.tell(row=row, objective=objective, constraints={"c": value})
        if number in ask_after:
            optimizer.ask()
    return optimizer


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("partly", [(), (5, 40, 41)], ids=["whole", "partly"])
@pytest.mark.parametrize(
    "more", [{}, {"horizon": 200}, {"confidence": None, "beta": 2.0}], ids=str
)
def test_what_is_believed_does_not_depend_on_when_it_was_asked_for(equal, partly, more):
    asked = go(make(equal=equal, **more), 75, ask_after=(0, 3, 30, 31, 32, 50, 70), partly=partly)
    again = make(equal=equal, **more)
    again.load_state_dict(asked.state_dict())
    query, expected = asked.ask(), again.ask()
    assert (query.id, query.probability_safe) == (expected.id, expected.probability_safe)
    for name in ("objective", "c"):
        np.testing.assert_array_equal(asked.bounds(name), again.bounds(name))


@pytest.mark.parametrize("partly", [(), (5, 40, 41)], ids=["whole", "partly"])
def test_blocks_say_what_trials_one_by_one_say(partly, monkeypatch):
    together = go(make(equal=True), 75, partly=partly)
    bounds = [np.array(together.bounds(name)) for name in ("objective", "c")]
    query, calls = together.ask(), []
    monkeypatch.setattr(trial_blocks, "LEAST_BLOCK", 1_000)
    take_in = trial_blocks.TrialBlocks.take_in
    monkeypatch.setattr(
        trial_blocks.TrialBlocks,
        "take_in",
        lambda self, told: (calls.append(len(told)), take_in(self, told)),
    )
    apart = go(make(equal=True), 75, partly=partly)
    for name, expected in zip(("objective", "c"), bounds, strict=True):
        np.testing.assert_allclose(apart.bounds(name), expected, atol=1e-9)
    assert apart.ask().index == query.index
    assert calls == [1] * 75
