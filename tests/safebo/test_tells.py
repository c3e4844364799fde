"""Tells have an identity: a query is told once, and a trial can be retracted."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo import Query

DOMAIN = np.linspace(0, 1, 21)
BOX = tm.Box([0.0], [1.0], names=["v"])


def prior():
    return tm.GP(tm.kernels.Matern(2.5, 0.3), noise_std=0.1)


def make(domain=DOMAIN, **more):
    return tm.SafeOptimizer(
        domain,
        objective=prior(),
        constraints={"c": tm.Constraint(prior(), at_least=0.0)},
        **{"safe_seed": [[0.5]], **more},
    )


def go(optimizer, rounds):
    for _ in range(rounds):
        query = optimizer.ask()
        optimizer.tell(query, float(np.sin(query.x[0])), {"c": 1.5})
    return optimizer


@pytest.mark.parametrize("domain", [DOMAIN, BOX], ids=["points", "box"])
def test_a_query_can_be_written_down_and_told_by_another_process(domain):
    optimizer = go(make(domain), 2)
    query = optimizer.ask()
    text = query.to_json()
    assert json.loads(text)["id"] == query.id and query.id
    again = make(domain)
    again.load_state_dict(optimizer.state_dict())
    read = Query.from_json(text)
    assert (read.x.tolist(), read.lower, str(read)) == (query.x.tolist(), query.lower, str(query))
    trial = again.tell(read, 0.3, {"c": 1.4})
    assert trial.query == query.id and again.history[-1] is trial
    for broken in ("{}", "[]", text[:-5]):
        with pytest.raises(ValueError, match="this is no query in writing"):
            Query.from_json(broken)


def test_a_query_is_told_once_unless_it_is_said_to_be_repeated():
    optimizer = make()
    query = optimizer.ask()
    trial = optimizer.tell(query, 0.0, {"c": 1.0})
    with pytest.raises(ValueError, match=r"was told already, as trial 0.*repeat=True.*retract"):
        optimizer.tell(query, 0.0, {"c": 1.0})
    assert optimizer.tell(query, 0.1, {"c": 1.1}, repeat=True).id == 1
    optimizer.retract(trial.id)
    optimizer.retract(1)
    optimizer.tell(query, 0.0, {"c": 1.0})  # nothing of it counts any more
    assert [one.id for one in optimizer.history] == [2]


def test_a_query_of_another_optimizer_is_refused():
    query = make(seed=1).ask()
    optimizer = make()
    with pytest.raises(ValueError, match=r"is of another optimizer. Tell its point"):
        optimizer.tell(query, 0.0, {"c": 1.0})
    optimizer.tell(x=query.x, objective=0.0, constraints={"c": 1.0})
    optimizer.tell(optimizer.ask(), 0.0, {"c": 1.0})


@pytest.mark.parametrize("domain", [DOMAIN, BOX], ids=["points", "box"])
def test_after_a_retraction_all_is_as_if_it_had_not_been_told(domain):
    wrong, right = go(make(domain), 3), go(make(domain), 3)
    trial = wrong.tell(x=[0.25], constraints={"c": -2.0})
    assert wrong.is_halted
    wrong.retract(trial.id)
    assert not wrong.is_halted and [event.kind for event in wrong.log] == ["retracted"]
    assert wrong.ask().x.tolist() == right.ask().x.tolist()
    assert wrong.bounds("c")[0].tolist() == right.bounds("c")[0].tolist()
    with pytest.raises(ValueError, match=r"id must be that of a trial that counts, \[0, 1, 2\]"):
        wrong.retract(trial.id)
    again = make(domain)
    again.load_state_dict(json.loads(json.dumps(wrong.state_dict())))
    assert again.ask().id == wrong.ask().id


@pytest.mark.parametrize("search", [None, tm.safebo.CoordinateLines(40)], ids=["sobol", "lines"])
def test_the_next_query_is_the_same_whether_others_were_asked_for_or_not(search):
    """An optimizer that is only told asks the same as one that asked each time."""
    box = tm.Box([0.0, 0.0], [1.0, 1.0])
    kernel = tm.kernels.Matern(2.5, [0.4, 0.4])

    def fresh():
        gp = tm.GP(kernel, noise_std=0.1)
        limits = {"c": tm.Constraint(tm.GP(kernel, noise_std=0.1), at_least=0.0)}
        return tm.SafeOptimizer(
            box, objective=gp, constraints=limits, safe_seed=[[0.5, 0.5]], search=search
        )

    asking, telling = fresh(), fresh()
    for _ in range(6):
        query = asking.ask()
        asking.ask(pending=[query])
        assert telling.ask().id == query.id if len(telling.history) == 3 else True
        for one in (asking, telling):
            one.tell(query, float(query.x.sum()), {"c": 1.5})
    asking.ask(pending=[[0.1, 0.1]])
    assert asking.ask().x.tolist() == telling.ask().x.tolist()
    assert asking.best.x.tolist() == telling.best.x.tolist()


def test_where_to_return_to_does_not_depend_on_what_was_asked():
    kernel = tm.kernels.Gaussian([0.3, 1.0])
    optimizer = tm.SafeOptimizer(
        DOMAIN,
        objective=tm.GP(kernel, noise_std=0.05),
        constraints={"c": tm.Constraint(tm.GP(kernel, noise_std=0.05), at_least=0.0)},
        safe_seed=[[0.5]],
        contexts=["w"],
        names=["v"],
        on_miscalibration="log",
    )
    optimizer.tell([0.5], 0.0, {"c": 2.5}, context=[0.0])
    optimizer.tell([0.3], 0.0, {"c": 0.9}, context=[1.0])
    before = optimizer.restore_point
    optimizer.ask(context=[0.0])
    assert optimizer.restore_point == before


def test_what_a_wrapper_needs_is_public():
    optimizer = make(BOX)
    assert optimizer.names == ("v",) and optimizer.contexts == () and optimizer.domain is BOX
    np.testing.assert_array_equal(make().domain[:, 0], DOMAIN)
    optimizer.tell(x=[0.5], objective=0.0, constraints={"c": 1.0})
    optimizer.tell(x=[0.1], objective=0.0, constraints={"c": -1.0})
    optimizer.acknowledge()
    kinds = [type(one).__name__ for one in optimizer.journal]
    assert kinds == ["ToldTrial", "ToldTrial", "Acknowledged"]


@pytest.mark.parametrize("noise_std", [1e-5, 1e-6])  # less is refused
def test_tiny_noise_and_exact_repeats_raise_nothing_but_what_they_say(noise_std):
    gp = tm.GP(tm.kernels.Gaussian(0.5), noise_std=noise_std)
    optimizer = tm.SafeOptimizer(DOMAIN, objective=gp, suspect_z=np.inf, on_miscalibration="log")
    for row in [*range(0, 21, 2), 4, 4, 4]:
        with suppress_noise_error():
            optimizer.tell(row=row, objective=float(np.sin(5 * DOMAIN[row])))
            optimizer.ask()
            optimizer.calibration()
    assert len(optimizer.history) == 14


@contextmanager
def suppress_noise_error():
    """A clear refusal is fine: a ValueError about the noise, and nothing else."""
    try:
        yield
    except ValueError as error:
        if "noise" not in str(error):
            raise


def test_values_that_float64_cannot_square_are_refused():
    optimizer = make()
    for y in (1e170, -1e200):
        with pytest.raises(ValueError, match=r"objective must be at most .* prior deviations"):
            optimizer.tell(row=3, objective=y, constraints={"c": 1.0})
    assert len(optimizer.history) == 0
