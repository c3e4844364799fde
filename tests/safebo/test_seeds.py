"""A seed stands until evidence speaks against it; then it is withdrawn, and the log says why."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from tellmost.safebo import NoSafePoint

DOMAIN = np.linspace(0, 1, 101)


def prior(lengthscale=0.2, noise_std=0.1, **more):
    return tm.GP(tm.kernels.Gaussian(lengthscale), noise_std=noise_std, **more)


def make(domain=DOMAIN, **more):
    constraint = more.pop("constraint", None) or tm.Constraint(prior(), at_least=0.0)
    arguments = {"objective": prior(), "constraints": {"c": constraint}, **more}
    return tm.SafeOptimizer(domain, **arguments)


def withdrawn(optimizer):
    return [event.text for event in optimizer.log if event.kind == "withdrawn"]


@pytest.mark.parametrize("domain", [DOMAIN, tm.Box(0.0, 1.0)], ids=["points", "box"])
def test_a_seed_beside_a_violation_is_not_asked_for(domain):
    optimizer = make(domain, safe_seed=[[0.5], [0.8]])
    optimizer.tell([0.5], 0.0, {"c": 1.0})
    optimizer.tell([0.79], 0.0, {"c": -2.0})
    optimizer.acknowledge()
    query = optimizer.ask()
    assert query.x[0] != 0.8 and query.probability_safe >= 0.99
    (text,) = withdrawn(optimizer)
    assert text.startswith("Seed (0.8) is withdrawn: by its bounds, c is at least")


def test_a_seed_that_is_always_a_little_below_its_limit_is_withdrawn_in_the_end():
    optimizer = make(safe_seed=[[0.5]])
    for _ in range(40):
        optimizer.tell([0.5], 0.0, {"c": -0.28})  # less than three deviations of the noise
    assert {trial.status for trial in optimizer.history} == {"marginal"}
    with pytest.raises(NoSafePoint, match=r"no declared seed is left\. Seed \(0\.5\) is withdr"):
        optimizer.ask()
    assert optimizer.restore_point is None


def test_a_seed_is_judged_under_the_present_context():
    kernel = tm.kernels.Gaussian([0.2, 0.5])
    optimizer = make(
        objective=tm.GP(kernel, noise_std=0.1),
        constraint=tm.Constraint(tm.GP(kernel, noise_std=0.1), at_least=0.0),
        safe_seed=[0.5],
        contexts=["load"],
        names=["v"],
        on_violation="continue",
    )
    optimizer.tell([0.5], 0.0, {"c": 1.0}, context=[0.0])
    for v in (0.48, 0.52):
        optimizer.tell([v], 0.0, {"c": -2.0}, context=[1.0])
    assert optimizer.ask(context=[0.0]).x[0] == pytest.approx(0.5, abs=0.1)
    with pytest.raises(NoSafePoint, match="by its bounds, c is at least"):
        optimizer.ask(context=[1.0])


def test_what_the_prior_says_alone_is_no_evidence_against_a_seed():
    """The user states a low mean and a safe seed: the first value at the seed decides."""
    low = tm.Constraint(prior(mean=-4.0), at_least=0.0)
    optimizer = make(safe_seed=[[0.2], [0.8]], constraint=low)
    query = optimizer.ask()
    assert query.purpose == "seed" and query.probability_safe < 0.01
    optimizer.tell(query, 0.0, {"c": 0.1})
    assert optimizer.ask().x[0] == 0.8  # far from 0.2, of which nothing speaks against it
    optimizer.tell([0.7], 0.0, {"c": -5.0})
    optimizer.acknowledge()
    assert optimizer.ask().x[0] != 0.8


def test_a_query_of_a_seed_says_so_and_how_often_it_was_told():
    optimizer = make(safe_seed=[[0.5]], constraint=tm.Constraint(prior(), at_least=1.0))
    for times in range(3):
        query = optimizer.ask()
        assert query.times_told == times
        assert f"(declared seed, told {times} time{'s' * (times != 1)}; safe with" in str(query)
        optimizer.tell(query, 0.0, {"c": 1.1})


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), confidence=st.sampled_from([0.8, 0.99]))
def test_what_is_asked_for_is_a_standing_seed_or_has_the_stated_confidence(seed, confidence):
    rng = np.random.default_rng(seed)
    domain = np.linspace(0, 1, 15)
    optimizer = make(
        domain,
        constraint=tm.Constraint(prior(), at_least=-0.5, at_most=1.5),
        safe_seed=domain[rng.choice(15, size=2, replace=False)][:, None],
        confidence=confidence,
        on_violation="continue",
        on_miscalibration="log",
    )
    for _ in range(6):
        try:
            query = optimizer.ask()
        except NoSafePoint:
            return
        if query.purpose != "seed":
            assert query.probability_safe >= confidence - 1e-12
        lower, upper = optimizer.bounds("c")
        told = [trial.index for trial in optimizer.history if trial.status == "violated"]
        assert query.index not in told or query.purpose != "seed"
        assert upper[query.index] >= -0.5 and lower[query.index] <= 1.5
        optimizer.tell(query, rng.normal(), {"c": rng.normal() * 1.2})


def test_a_seed_with_a_context_is_declared_for_that_context_alone():
    def make_under_contexts(seeds):
        gp = tm.GP(tm.kernels.Gaussian([0.2, 1.0]), noise_std=0.1)
        limits = {"c": tm.Constraint(gp, at_least=0.0)}
        return make(objective=gp, constraints=limits, safe_seed=seeds, contexts=["load"])

    optimizer = make_under_contexts([[0.5, 1.0], [0.8, 5.0]])
    assert optimizer.ask(context=[1.0]).x.tolist() == [0.5]
    assert optimizer.ask(context=[5.0]).x.tolist() == [0.8]
    with pytest.raises(NoSafePoint, match="no declared seed is left"):
        optimizer.ask(context=[3.0])
    optimizer.tell([0.5], 1.0, {"c": 1.0}, context=[5.0])  # of no seed
    assert optimizer.ask(context=[1.0]).times_told == 0
    by_name = make_under_contexts([{"x0": 0.5, "load": 1.0}])
    assert by_name.ask(context={"load": 1.0}).purpose == "seed"
    everywhere = make_under_contexts([[0.5]])
    assert all(everywhere.ask(context=[load]).purpose == "seed" for load in (0.0, 7.0))


@settings(max_examples=15, deadline=None)
@given(
    told=st.lists(
        st.tuples(st.integers(0, 20), st.floats(-1.0, 1.0), st.integers(0, 1)),
        min_size=1,
        max_size=8,
    ),
    is_box=st.booleans(),
)
def test_the_log_names_exactly_the_seeds_that_a_round_finds_withdrawn(told, is_box):
    kernel = tm.kernels.Gaussian([0.2, 0.5])
    optimizer = make(
        tm.Box(0.0, 1.0, names=["v"]) if is_box else DOMAIN,
        objective=tm.GP(kernel, noise_std=0.1),
        constraint=tm.Constraint(tm.GP(kernel, noise_std=0.1), at_least=0.0),
        safe_seed=[[0.3], [0.5]],
        contexts=["load"],
        on_violation="continue",
        on_miscalibration="log",
    )
    found, before = 0, set()
    for place, value, load in told:
        optimizer.tell([place / 20], 0.0, {"c": value}, context=[float(load)])
        now = set(optimizer._rounds.latest().withdrawn())
        found, before = found + len(now - before), now
        assert len(withdrawn(optimizer)) == found
