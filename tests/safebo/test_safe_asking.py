"""Safe starts, violations, failures and refusals: what is asked, and what a query says."""

import re
from statistics import NormalDist

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo import Halted

DOMAIN = np.linspace(0, 1, 21)
KERNEL = tm.kernels.Matern(2.5, 0.3)


def prior(noise_std: float = 0.1, **more) -> tm.GP:
    return tm.GP(KERNEL, noise_std=noise_std, **more)


def make(domain=DOMAIN, *, limit: float = 0.0, constraint=None, **changed) -> tm.SafeOptimizer:
    """The constraint's prior is measured in a unit of its own: its standard deviation is 3."""
    wide = tm.GP(tm.kernels.Scaled(KERNEL, 9.0), noise_std=0.3)
    made = tm.Constraint(wide, at_least=limit) if constraint is None else constraint
    arguments = {"objective": prior(), "constraints": {"g": made}, "confidence": 0.9}
    arguments |= {"on_miscalibration": "log", "suspect_z": np.inf}  # values need not be likely
    return tm.SafeOptimizer(domain, **{**arguments, **changed})


# ---- safe starts


def test_the_first_asks_are_the_untold_seeds_in_their_order():
    optimizer = make(safe_seed=[10, 4])
    for row in (10, 4):
        query = optimizer.ask()
        assert (query.index, query.purpose) == (row, "seed")
        optimizer.tell(query, 0.0, {"g": 3.0})
    assert optimizer.ask().purpose != "seed"


def test_seeds_that_are_pending_are_not_asked_for_again():
    optimizer = make(safe_seed=[10, 4])
    first = optimizer.ask()
    second = optimizer.ask(pending=[first])
    assert (first.index, second.index) == (10, 4)
    assert optimizer.ask(pending=second).index == 10


def test_seeds_come_as_rows_points_names_or_with_values():
    for seed in ([10], 10, [[0.5]], [0.5], np.array([0.5]), {"kp": 0.5}, [{"kp": 0.5}]):
        assert make(safe_seed=seed, names=["kp"]).ask().index == 10
    assert [make(safe_seed=[0.5, 0.75]).ask().index] == [10]
    told = make(safe_seed=([10, 4], {"objective": [1.0, 2.0], "g": [3.0, 4.0]}))
    assert told.history.columns["g"].tolist() == [3.0, 4.0]
    assert told.ask().purpose != "seed"
    box = make(tm.Box([0, 0], [1, 1]), safe_seed=[0.25, 1])
    assert box.ask().x.tolist() == [0.25, 1.0]


def test_a_seed_is_asked_again_while_nothing_is_known_to_be_safe():
    optimizer = make(safe_seed=[10], limit=2.0)
    for _ in range(2):
        query = optimizer.ask()
        assert (query.index, query.purpose) == (10, "seed")
        assert query.lower["g"] < 0
        optimizer.tell(query, 0.0, {"g": 2.2})
    assert not optimizer.safe_mask.any()
    for _ in range(30):
        optimizer.tell(row=10, objective=0.0, constraints={"g": 2.2})
    assert optimizer.safe_mask[10]


def test_a_seed_stays_askable_until_a_violation_of_it_is_told():
    optimizer = make(safe_seed=[10, 4], on_violation="continue", limit=2.5)
    optimizer.tell(row=10, objective=0.0, constraints={"g": -2.0})
    optimizer.tell(row=4, objective=0.0, constraints={"g": 2.45})  # marginal
    assert [trial.status for trial in optimizer.history] == ["violated", "marginal"]
    assert optimizer.ask().index == 4
    optimizer.tell(row=4, objective=0.0, constraints={"g": 0.0})
    with pytest.raises(tm.safebo.NoSafePoint, match="no declared seed is left"):
        optimizer.ask()


# ---- violations


def test_a_violation_is_a_value_beyond_the_limit_by_more_than_z_noise_deviations():
    z = tm.Constraint(prior(), at_least=0.0).violation_z
    for std, value, status in (
        (0.1, 0.0, "safe"),
        (0.1, -(z - 0.01) * 0.1, "marginal"),
        (0.1, -(z + 0.01) * 0.1, "violated"),
        (0.2, -(z + 0.01) * 0.1, "marginal"),
    ):
        optimizer = make(constraint=tm.Constraint(prior(), at_least=0.0))
        optimizer.tell(row=3, constraints={"g": value}, noise_std=std)
        assert optimizer.history[0].status == status
        assert optimizer.history[0].broken == (() if status == "safe" else ("g",))
        kinds = [event.kind for event in optimizer.log]
        assert kinds == {"safe": [], "marginal": ["marginal"], "violated": ["violation"]}[status]


@pytest.mark.parametrize(
    ("given", "status"),
    [({"critical": True}, "violated"), ({"violation_z": 0.5}, "violated"), ({}, "marginal")],
)
def test_what_counts_as_a_violation_can_be_said_for_each_constraint(given, status):
    optimizer = make(constraint=tm.Constraint(prior(), at_most=1.0, **given))
    optimizer.tell(row=3, constraints={"g": 1.08})
    assert optimizer.history[0].status == status


def test_a_violation_halts_until_it_is_acknowledged_and_says_where_to_return_to():
    optimizer = make(safe_seed=[10])
    optimizer.tell(row=10, objective=0.0, constraints={"g": 3.0})
    optimizer.tell(row=11, objective=0.0, constraints={"g": 6.0})
    optimizer.tell(row=0, objective=0.0, constraints={"g": -5.0})
    optimizer.tell(
        row=20, objective=0.0, constraints={"g": -0.1}
    )  # a marginal breach afterwards hides nothing
    assert optimizer.is_halted
    with pytest.raises(Halted, match=r"at \(0\): g -5, 5 beyond its limit.*restore_point"):
        optimizer.ask()
    assert optimizer.restore_point.tolist() == [DOMAIN[11]]
    optimizer.acknowledge()
    assert optimizer.ask().index != 0
    events = [(event.trials, event.kind) for event in optimizer.log]  # 6 beside 3 is too much
    kinds = "miscalibrated", "violation", "marginal", "acknowledged"
    assert events == list(zip((2, 3, 4, 4), kinds, strict=True))


def test_where_no_trial_is_safe_for_sure_a_seed_is_the_place_to_return_to():
    optimizer = make(safe_seed=[10])
    optimizer.tell(row=0, objective=0.0, constraints={"g": -5.0})
    assert optimizer.restore_point.tolist() == [0.5]
    optimizer.restore_point[:] = 7.0
    assert optimizer.restore_point.tolist() == [0.5]
    assert make().restore_point is None


def test_a_violation_of_a_shared_function_is_told_by_the_name_of_any_of_its_constraints():
    gp = prior()
    both = {"low": tm.Constraint(gp, at_least=0.0), "high": tm.Constraint(gp, at_most=1.0)}
    optimizer = tm.SafeOptimizer(DOMAIN, objective=prior(), constraints=both)
    optimizer.tell(row=3, objective=9.0, constraints={"low": 5.0})
    assert optimizer.history[0].broken == ("high",)
    assert optimizer.history[0].values == {"objective": 9.0, "low": 5.0, "high": 5.0}
    assert "high 5, 4 beyond its limit" in optimizer.log[0].text


# ---- failures and partial tells


def test_a_failed_point_is_passed_over_until_a_value_is_told():
    optimizer = make()
    optimizer.tell(row=10, objective=0.0, constraints={"g": 6.0})
    first = optimizer.ask()
    before = optimizer.bounds("g")[0]
    optimizer.tell(first, failed=True)
    np.testing.assert_array_equal(optimizer.bounds("g")[0], before)
    second = optimizer.ask()
    assert second.index != first.index
    optimizer.tell(second, failed=True)
    assert optimizer.ask().index not in (first.index, second.index)
    optimizer.tell(row=10, objective=0.0, constraints={"g": 6.0})
    assert first.index in (optimizer.ask().index, first.index)
    assert [trial.status for trial in optimizer.history][1:3] == ["failed", "failed"]


def test_in_a_box_a_failed_point_is_not_climbed_to_again():
    optimizer = make(tm.Box(0.0, 1.0), search=tm.safebo.SobolSet(32))
    optimizer.tell([0.5], 0.0, {"g": 6.0})
    asked = []
    for _ in range(3):
        asked.append(float(optimizer.ask().x[0]))
        optimizer.tell([asked[-1]], failed=True)
    assert min(np.diff(sorted(asked))) > 1e-3


def test_a_partial_tell_moves_only_what_was_told():
    optimizer = make()
    objective, constraint = optimizer.predict()[0], optimizer.predict(name="g")[0]
    optimizer.tell(row=4, objective=1.0)
    assert (optimizer.predict()[0] != objective).any()
    np.testing.assert_array_equal(optimizer.predict(name="g")[0], constraint)
    optimizer.tell(row=4, constraints={"g": 1.0})
    assert (optimizer.predict(name="g")[0] != constraint).any()


def test_the_history_is_a_table_with_a_column_for_everything():
    optimizer = make(names=["kp"])
    assert list(optimizer.history.columns) == ["kp", "objective", "g", "status"]
    optimizer.tell({"kp": 0.5}, 1.0)
    optimizer.tell(row=4, constraints={"g": -1e-3})
    columns = optimizer.history.columns
    assert columns["kp"].tolist() == [0.5, DOMAIN[4]]
    np.testing.assert_array_equal(columns["objective"], [1.0, np.nan])
    np.testing.assert_array_equal(columns["g"], [np.nan, -1e-3])
    assert columns["status"].tolist() == ["safe", "marginal"]
    pytest.importorskip("pandas")
    assert optimizer.history.to_frame().shape == (2, 4)


# ---- what a query says


def test_margins_are_in_the_unit_of_the_constraint_and_chances_those_of_the_model():
    both = tm.Constraint(
        tm.GP(tm.kernels.Scaled(KERNEL, 9.0), noise_std=0.3, mean=1.0), at_least=-2.0, at_most=5.0
    )
    other = tm.Constraint(prior(), at_most=2.0)
    optimizer = tm.SafeOptimizer(
        DOMAIN, objective=prior(), constraints={"g": both, "h": other}, confidence=0.7
    )
    for row, g in ((10, 1.0), (12, 2.0)):
        optimizer.tell(row=row, objective=0.3, constraints={"g": g, "h": 0.5})
    query = optimizer.ask()
    beta = NormalDist().inv_cdf(1 - 0.3 / 3)
    (g, sd), (h, sd_h) = ([part[query.index] for part in optimizer.predict(None, n)] for n in "gh")
    assert query.lower["g"] == pytest.approx(min(g - beta * sd + 2.0, 5.0 - (g + beta * sd)))
    assert query.lower["h"] == pytest.approx(2.0 - (h + beta * sd_h))
    rng = np.random.default_rng(0)
    drawn = g + sd * rng.standard_normal(100_000), h + sd_h * rng.standard_normal(100_000)
    share = ((drawn[0] >= -2.0) & (drawn[0] <= 5.0) & (drawn[1] <= 2.0)).mean()
    error = (share * (1 - share) / 100_000) ** 0.5
    assert abs(share - query.probability_safe) < 4 * error + 1e-6
    assert query.probability_safe >= 0.7
    assert query.parameters == {"x0": float(query.x[0])}
    assert re.search(r"safe with 0\.\d+; margins at least: g \+", str(query))
    shown = query._repr_html_()
    assert "<td>margin of g</td><td>at least " in shown and str(query)[:5] in shown


def test_a_query_says_whether_it_explores_what_is_safe_or_expands_it():
    optimizer = make(limit=-1.0, targets=lambda known: known.is_safe)
    optimizer.tell(row=10, objective=0.0, constraints={"g": 3.0})
    assert optimizer.ask().purpose == "explore"
    expanding = make(limit=-1.0, targets=tm.targets.PotentialExpanders())
    expanding.tell(row=10, objective=0.0, constraints={"g": 3.0})
    assert expanding.ask().purpose == "expand"


def test_printing_says_which_beta_follows_from_the_confidence():
    assert "confidence 0.9 for each query; beta: 1.28" in str(make())
    assert "bounds intersected over time; beta: 3" in str(make(confidence=None, beta=3.0))
    bound = tm.safebo.RKHSBound({"objective": 1.0, "g": 2.0}, 0.1)
    assert "beta: objective 3.45, g 4.45" in str(make(confidence=None, beta=bound))
    assert "confidence 0.99" in str(make(confidence=None))


def test_the_best_is_the_best_by_its_pessimistic_bound_of_what_is_safe():
    for direction, sign in (("maximize", 1.0), ("minimize", -1.0)):
        optimizer = make(direction=direction)
        for row, y in ((10, 0.5), (13, 0.9), (8, -0.4)):
            optimizer.tell(row=row, objective=y, constraints={"g": 6.0})
        lower, upper = optimizer.bounds()
        pessimistic = np.where(optimizer.safe_mask, lower if sign > 0 else -upper, -np.inf)
        best = optimizer.best
        assert best.index == pessimistic.argmax()
        assert best.bound == pytest.approx(sign * pessimistic.max())
        rising = upper if sign > 0 else -lower
        gap = rising[optimizer.optimistic_mask].max() - pessimistic.max()
        assert optimizer.regret_bound() == pytest.approx(gap)
    assert make(safe_seed=[3]).regret_bound() == float("inf")
    with pytest.raises(tm.safebo.NoSafePoint, match="ask\\(\\) repeats a declared seed"):
        _ = make(safe_seed=[3]).best


# ---- refusals keep their promises


def promised(error: str) -> tuple[int, float, int]:
    """The row, the beta and the repeats that a refusal names."""
    where = float(re.search(r"most promising one is \(([^)]+)\)", error)[1])
    beta = float(re.search(r"a beta of ([\d.e+-]+) would", error)[1])
    repeats = int(re.search(r"or ([\d,]+) measurements? there", error)[1])
    return int(np.abs(DOMAIN - where).argmin()), beta, repeats


WIDTHS = {
    "confidence": {"confidence": 0.999},
    "beta": {"confidence": None, "beta": 4.0},
    "rkhs": {"confidence": None, "beta": tm.safebo.RKHSBound(1.0, 0.1)},
    "schedule": {"confidence": None, "beta": lambda n: 2.5 + 0.2 * n**0.5},
}


@pytest.mark.parametrize("width", sorted(WIDTHS))
@pytest.mark.parametrize("value", [0.7, 0.5, 0.37])
def test_the_beta_and_the_repeats_that_a_refusal_promises_open_the_set(width, value):
    def start(**given) -> tm.SafeOptimizer:
        optimizer = make(limit=0.0, **given)
        optimizer.tell(row=7, objective=0.0, constraints={"g": value})
        return optimizer

    refused = start(**WIDTHS[width])
    with pytest.raises(tm.safebo.NoSafePoint) as caught:
        refused.ask()
    row, beta, repeats = promised(str(caught.value))
    assert start(confidence=None, beta=beta).safe_mask[row]
    assert not start(confidence=None, beta=1.02 * beta).safe_mask.any()
    for count in range(repeats):
        assert not refused.safe_mask[row], f"{count} repeats are enough"
        expected = float(refused.predict(None, "g")[0][row])
        refused.tell(row=row, objective=0.0, constraints={"g": expected})
    assert refused.safe_mask[row]


def test_a_refusal_says_where_even_the_most_promising_point_is_expected_to_violate():
    optimizer = make()
    for row in range(21):
        optimizer.tell(row=row, objective=0.0, constraints={"g": -0.05}, noise_std=0.5)
    with pytest.raises(
        tm.safebo.NoSafePoint, match="is expected to violate a constraint: declare"
    ):
        optimizer.ask()
