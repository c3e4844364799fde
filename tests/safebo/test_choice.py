"""Each line of the table by which a round decides what is asked for."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo import NoSafePoint, baselines
from tellmost.safebo.strategies import Choice, RoundView

DOMAIN = np.linspace(0, 1, 21)
KERNEL = tm.kernels.Matern(2.5, 0.3)


@dataclass(frozen=True)
class Last:
    """A strategy that takes the last open row and notes which rows were open."""

    keeps_safe: bool
    seen: ClassVar[list[int]] = []

    def choose(self, view: RoundView) -> Choice:
        self.seen[:] = view.is_open.nonzero()[:, 0].tolist()
        return Choice(self.seen[-1], "explore")


SAFE, UNSAFE = Last(keeps_safe=True), Last(keeps_safe=False)


def make(strategy=None, **changed) -> tm.SafeOptimizer:
    """Safe is what is at least 0; the seeds are the rows 10 and 4."""
    gp = tm.GP(KERNEL, noise_std=0.1)
    constraints = {"g": tm.Constraint(tm.GP(KERNEL, noise_std=0.1), at_least=0.0)}
    arguments = {"safe_seed": [10, 4], "on_violation": "continue", **changed}
    return tm.SafeOptimizer(
        DOMAIN, objective=gp, constraints=constraints, strategy=strategy, **arguments
    )


def tell(optimizer: tm.SafeOptimizer, **values: float) -> tm.SafeOptimizer:
    """What the constraint is at the rows that are named."""
    for row, value in values.items():
        optimizer.tell(row=int(row[1:]), objective=0.0, constraints={"g": value})
    return optimizer


@pytest.mark.parametrize("strategy", [None, SAFE, UNSAFE], ids=str)
def test_a_seed_that_was_not_told_yet_comes_first(strategy):
    optimizer = make(strategy)
    first, second = optimizer.ask(), optimizer.ask(pending=[10])
    assert [(one.index, one.purpose) for one in (first, second)] == [(10, "seed"), (4, "seed")]
    assert tell(optimizer, r10=2.0).ask().index == 4
    optimizer.tell(row=4, failed=True)
    assert optimizer.ask().index != 4


def test_a_strategy_that_does_not_keep_safe_chooses_among_all_near_rows():
    optimizer = tell(make(UNSAFE), r10=2.0, r4=2.0)
    query = optimizer.ask()
    assert (query.index, query.purpose) == (20, "risk") and query.lower["g"] < 0
    assert UNSAFE.seen == list(range(21))
    near = tell(make(UNSAFE, max_step=0.1), r10=2.0, r4=2.0).ask()
    assert (near.index, near.purpose) == (6, "explore") and UNSAFE.seen == [2, 3, 4, 5, 6]
    moved = tell(make(UNSAFE, max_step=0.1), r10=2.0, r4=2.0)
    moved.acknowledge(at=[0.8])
    moved.ask()
    assert UNSAFE.seen == [14, 15, 16, 17, 18]


def test_what_it_chooses_may_be_a_seed_that_nothing_proves():
    optimizer = tell(make(UNSAFE, safe_seed=[20]), r20=-0.2)
    assert not optimizer.safe_mask.any()
    query = optimizer.ask()
    assert (query.index, query.purpose) == (20, "seed")


@pytest.mark.parametrize("strategy", [None, SAFE], ids=str)
def test_where_no_near_row_is_safe_the_seed_of_the_largest_margin_is_repeated(strategy):
    optimizer = tell(make(strategy), r10=0.05, r4=0.15)
    assert not optimizer.safe_mask.any()
    query = optimizer.ask()
    assert (query.index, query.purpose) == (4, "seed")
    lower = optimizer.bounds("g")[0]
    assert lower[4] > lower[10] and query.lower["g"] == pytest.approx(lower[4])


def test_a_seed_that_failed_is_repeated_where_no_other_is_left():
    optimizer = make(safe_seed=[10])
    optimizer.tell(row=10, failed=True)
    assert (optimizer.ask().index, optimizer.ask().purpose) == (10, "seed")


@pytest.mark.parametrize("strategy", [None, SAFE], ids=str)
def test_where_no_near_row_is_safe_and_no_seed_stands_it_refuses(strategy):
    optimizer = tell(make(strategy), r10=-1.0, r4=-1.0)
    with pytest.raises(NoSafePoint, match="no declared seed is left"):
        optimizer.ask()


def test_a_strategy_chooses_among_safe_rows_and_standing_seeds():
    optimizer = tell(make(SAFE, safe_seed=[10, 20]), r10=2.0, r20=0.05)
    query = optimizer.ask()
    safe = np.flatnonzero(optimizer.safe_mask).tolist()
    assert SAFE.seen == [*safe, 20] and (query.index, query.purpose) == (20, "seed")
    optimizer.tell(row=20, failed=True)
    query = optimizer.ask()
    assert SAFE.seen == safe and (query.index, query.purpose) == (safe[-1], "explore")
    passed = optimizer.ask(pending=[safe[-1]])
    assert SAFE.seen == safe[:-1] and passed.index == safe[-2]


@pytest.mark.parametrize(
    ("is_target", "purpose"),
    [(lambda x: abs(x - 0.5) < 0.05, "explore"), (lambda x: x > 0.7, "expand")],
)
def test_otherwise_the_open_row_that_teaches_most_about_the_targets_is_asked_for(
    is_target, purpose
):
    optimizer = make(safe_seed=[10], targets=lambda known: is_target(known.points[:, 0]))
    query = tell(optimizer, r10=2.0).ask()
    now = optimizer._rounds.present()
    gains = now.targets().gains(now.state.safe_rows, []).numpy()
    assert query.index == gains.argmax() and query.purpose == purpose
    assert query.lower["g"] >= 0


def test_the_baselines_keep_to_the_table():
    """EIC alone asks for what nothing proves safe, once the seeds are told."""
    for strategy in (baselines.SafeUCB(), baselines.ISE(), baselines.EIC()):
        query = tell(make(strategy, safe_seed=[10]), r10=0.8).ask()
        assert (query.purpose == "risk") == (not strategy.keeps_safe)
