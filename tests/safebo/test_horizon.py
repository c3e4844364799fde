"""A promise for the run: all queries together risk at most what the user allows."""

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo import NoSafePoint
from tellmost.safebo.trials import RiskSpent

DOMAIN = np.linspace(0, 1, 41)
KERNEL = tm.kernels.Matern(2.5, 0.2)


def prior(**more):
    return tm.GP(KERNEL, noise_std=0.1, **more)


def make(domain=DOMAIN, **more):
    arguments = {
        "objective": prior(),
        "constraints": {"c": tm.Constraint(prior(mean=1.0), at_least=0.0)},
        "safe_seed": [[0.5]],
        "confidence": 0.9,
        "horizon": 6,
        "on_violation": "continue",
        "on_miscalibration": "log",
    }
    return tm.SafeOptimizer(domain, **{**arguments, **more})


def tell(optimizer, query):
    optimizer.tell(query, float(np.sin(6 * query.x[0])), {"c": 1.0 + float(query.x[0])})


@pytest.mark.parametrize("domain", [DOMAIN, tm.Box(0.0, 1.0)], ids=["points", "box"])
def test_a_query_risks_at_most_its_share_of_what_is_left_and_then_asking_ends(domain):
    optimizer, spent = make(domain), 0.0
    for asked in range(6):
        query = optimizer.ask()
        assert query.risk <= (0.1 - spent) / (6 - asked) + 1e-12
        spent += query.risk
        assert optimizer.risk_spent == pytest.approx(spent)
        tell(optimizer, query)
        if asked < 5:
            allowed = optimizer._rounds.allow()
            assert optimizer._rounds.present().state.confidence == allowed
    assert 0 < spent <= 0.1
    with pytest.raises(RiskSpent, match="6 asked for so far"):
        optimizer.ask()


def test_risk_is_shared_over_the_limits():
    both = {
        "c": tm.Constraint(prior(mean=1.0), at_least=0.0),
        "d": tm.Constraint(prior(mean=-1.0), at_most=0.0),
    }
    optimizer = make(constraints=both)
    tell_both(optimizer, optimizer.ask())
    query = optimizer.ask()
    assert query.purpose != "seed" and query.risk <= 0.1 / 5 + 1e-12


def tell_both(optimizer, query):
    optimizer.tell(query, 0.0, {"c": 1.5, "d": -1.5})


def test_an_abandoned_query_counts_and_one_that_is_asked_for_again_counts_once():
    optimizer = make()
    tell(optimizer, optimizer.ask())
    first = optimizer.ask()
    assert optimizer.ask().id == first.id
    spent = optimizer.risk_spent
    assert spent == pytest.approx(first.risk) and [q.id for q in optimizer.pending] == [first.id]
    optimizer.tell(x=[0.5], objective=0.0, constraints={"c": 1.0})  # something else was done
    second = optimizer.ask()
    assert second.id != first.id and optimizer.risk_spent == pytest.approx(spent + second.risk)
    tell(optimizer, second)
    assert [q.id for q in optimizer.pending] == [first.id]


def test_members_of_a_batch_share_the_risk():
    optimizer, batch = make(horizon=4), []
    for _ in range(4):
        batch.append(optimizer.ask(pending=batch))
    with pytest.raises(RiskSpent):
        optimizer.ask(pending=batch)
    assert sum(query.risk for query in batch) <= 0.1
    assert len({query.id for query in batch}) == 4


def test_a_loaded_optimizer_and_one_that_is_told_queries_know_what_was_risked():
    optimizer, told = make(), make()
    for _ in range(3):
        query = optimizer.ask()
        for one in (optimizer, told):
            tell(one, query)
    lost = optimizer.ask()
    again = make()
    again.load_state_dict(optimizer.state_dict())
    assert again.risk_spent == optimizer.risk_spent and again.ask().id == lost.id
    assert told.risk_spent == pytest.approx(optimizer.risk_spent - lost.risk)
    trial = again.tell(lost, 0.0, {"c": 1.0})
    again.retract(trial.id)
    assert again.risk_spent == optimizer.risk_spent  # it was risked, whatever was told


@pytest.mark.parametrize("domain", [DOMAIN, tm.Box(0.0, 1.0)], ids=["points", "box"])
@pytest.mark.parametrize("untold", [0, 1])
def test_what_is_shown_after_the_last_query_is_what_a_replay_shows(domain, untold):
    optimizer, again = make(domain, horizon=3), make(domain, horizon=3)
    for asked in range(3):
        query = optimizer.ask()
        if asked < 3 - untold:
            tell(optimizer, query)
    again.load_state_dict(optimizer.state_dict())
    assert optimizer.safe_mask.any()
    assert (optimizer.safe_mask == again.safe_mask).all()


def test_runs_with_a_violation_are_at_most_as_many_as_promised():
    """40 draws of the prior. A promise per query at the same level lets far more of them fail."""
    K = KERNEL.block(*[points()] * 2).numpy()
    root, rng = np.linalg.cholesky(K + 1e-10 * np.eye(41)), np.random.default_rng(0)
    failed = {8: 0, None: 0}
    for _ in range(40):
        f, c = root @ rng.normal(size=41), 1.0 + root @ rng.normal(size=41)
        for horizon in failed:
            optimizer = make(safe_seed=None, horizon=horizon)
            noise, unsafe = np.random.default_rng(1), False
            for _ in range(8):
                try:
                    query = optimizer.ask()
                except (NoSafePoint, tm.targets.NoTargetsLeft):
                    break
                unsafe |= c[query.index] < 0
                y = np.array([f[query.index], c[query.index]]) + 0.1 * noise.normal(size=2)
                optimizer.tell(query, y[0], {"c": y[1]})
            failed[horizon] += unsafe
    assert failed[8] <= 8  # 4 are expected at most; more than 8 have probability 0.01
    assert failed[None] >= failed[8]


def points():
    import torch

    return torch.from_numpy(DOMAIN)[:, None]


def test_a_horizon_needs_a_confidence_and_whole_numbers():
    for more, message in (
        ({"confidence": None, "beta": 2.0}, "horizon needs confidence"),
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"confidence": 0.4}, "confidence, a probability, must be .*above 0.5"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**more)
    assert make(horizon=None).risk_spent is None
    assert "confidence 0.9 for 6 queries together" in str(make())
