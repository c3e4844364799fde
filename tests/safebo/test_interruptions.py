"""What is interrupted half-way counts wholly or not at all, and reads leave nothing behind."""

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo.round_state import RoundState
from tellmost.safebo.run import SafeRun

ROWS = np.linspace(0, 1, 60)[:, None]
BOUNDS = [{"confidence": 0.9}, {"beta": 2.0}]


def make(seed=20, **more):
    kernel = tm.kernels.Matern(1.5, 0.2)
    return tm.SafeOptimizer(
        ROWS,
        objective=tm.GP(kernel, noise_std=0.1),
        constraints={"c": tm.Constraint(tm.GP(kernel, mean=0.5, noise_std=0.1), at_least=-0.5)},
        safe_seed=[seed],
        on_miscalibration="log",
        **more,
    )


def replayed(opt, **more):
    fresh = make(**more)
    fresh.load_state_dict(opt.state_dict())
    return fresh


def interrupt(monkeypatch, kind, name, call):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, stop)
        with pytest.raises(KeyboardInterrupt):
            call()


def told(**bounds):
    opt = make(**bounds)
    for row, c in ((20, 0.6), (20, 0.6), (28, 0.1), (8, -0.3)):
        opt.tell(row=row, objective=0.0, constraints={"c": c})
    return opt


def test_an_interrupted_ask_loses_no_trial(monkeypatch):
    bounds = {"confidence": 0.9}
    opt = make(**bounds)
    opt.tell(row=20, objective=0.0, constraints={"c": 0.6})
    for row, c in ((28, 0.1), (8, -0.3)):
        opt.tell(row=row, objective=0.0, constraints={"c": c})
        interrupt(monkeypatch, RoundState, "observe", opt.ask)
    query, expected = opt.ask(), replayed(opt, **bounds).ask()
    assert (query.id, query.probability_safe) == (expected.id, expected.probability_safe)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(
    ("kind", "name"), [(SafeRun, "_weigh"), (SafeRun, "_note_withdrawn"), (RoundState, "_refresh")]
)
def test_an_interrupted_tell_counts_once_if_it_is_told_again(kind, name, bounds, monkeypatch):
    opt = told(**bounds)
    values = {"objective": 0.1, "constraints": {"c": 0.4}}
    if kind is RoundState and "beta" not in bounds:
        opt.tell(row=24, **values)
        interrupt(monkeypatch, kind, name, opt.ask)
    else:
        interrupt(monkeypatch, kind, name, lambda: opt.tell(row=24, **values))
        assert len(opt.history) == 4
        opt.tell(row=24, **values)
    assert [trial.id for trial in opt.history] == [0, 1, 2, 3, 4]
    query, expected = opt.ask(), replayed(opt, **bounds).ask()
    assert (query.id, query.probability_safe) == (expected.id, expected.probability_safe)


def test_a_query_that_was_judged_beside_pending_ones_leaves_no_confidence_behind():
    bounds = {"confidence": 0.8, "horizon": 10, "suspect_z": 1.0}

    def risk_of_next(*, reads):
        opt = make(**bounds)
        for row, c in ((20, 0.6), (22, 0.6), (24, 0.1)):
            opt.tell(row=row, objective=0.0, constraints={"c": c})
        assert opt.suspects
        queries = [replayed(opt, **bounds).judge(row) for row in range(len(ROWS))]
        pending = [min(queries, key=lambda one: abs(one.risk - 0.1))]
        if reads:
            opt.judge(5, pending=pending)
            assert opt.safe_mask.tolist() == replayed(opt, **bounds).safe_mask.tolist()
        opt.tell(row=20, constraints={"c": 0.6})
        opt.tell(row=24, constraints={"c": 0.6})
        query = opt.ask(pending=pending)
        return query.index, query.risk

    assert risk_of_next(reads=True) == risk_of_next(reads=False)


def test_the_present_round_stays_when_the_point_to_return_to_is_read():
    opt = tm.SafeOptimizer(
        np.linspace(0, 1, 21),
        objective=tm.GP(tm.kernels.Gaussian([0.3, 1.0]), noise_std=0.1),
        constraints={
            "c": tm.Constraint(tm.GP(tm.kernels.Gaussian([0.3, 1.0]), mean=1.0), at_least=0.0)
        },
        contexts=["outside"],
        names=["x"],
        safe_seed=[[0.5]],
    )
    for outside in (0.0, 0.5):
        query = opt.ask(context=[outside])
        opt.tell(query, 0.0, {"c": 1.0})
    opt.ask(context=[9.0])
    before = opt.safe_mask.tolist()
    opt.restore_point  # noqa: B018
    assert opt.safe_mask.tolist() == before
    opt.ask(context=[0.5])
    assert opt.safe_mask.tolist() != before
