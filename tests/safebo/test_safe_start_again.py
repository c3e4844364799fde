"""What stands after failures, violations and moves; what is declared, and what is not."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.kernels import Gaussian, Linear
from tellmost.posterior.gp import Data
from tellmost.safebo import CoordinateLines

X = np.linspace(0, 1, 21)


def prior(lengthscale=0.2, noise_std=0.1):
    return tm.GP(Gaussian(lengthscale), noise_std=noise_std)


def make(domain=X, **more):
    arguments = {"safe_seed": [0.5], **more}
    return tm.SafeOptimizer(
        domain,
        objective=prior(),
        constraints={"c": tm.Constraint(prior(), at_least=0.0)},
        **arguments,
    )


def test_a_seed_that_failed_is_asked_for_again_where_nothing_else_is_safe():
    for domain in (X, tm.Box(0.0, 1.0)):
        optimizer = make(domain)
        optimizer.tell(optimizer.ask(), failed=True)
        query = optimizer.ask()
        assert query.purpose == "seed" and query.x[0] == 0.5


def test_a_standing_seed_is_a_candidate_though_the_bounds_do_not_prove_it():
    """Far from all that is known to be safe, and the best place to learn about the targets."""
    optimizer = make(
        safe_seed=[0.0, 1.0], targets=lambda known: known.points[:, 0] > 0.9, rule="vtl"
    )
    optimizer.tell(row=0, objective=0.0, constraints={"c": 2.0})
    optimizer.tell(row=20, objective=0.0, constraints={"c": 0.05})
    assert optimizer.safe_mask[0] and not optimizer.safe_mask[20]
    query = optimizer.ask()
    assert query.index == 20 and query.purpose == "seed" and query.lower["c"] < 0


def test_a_violation_is_never_where_to_return_to():
    """Earlier data make the place of the violation look safest, whatever was told there."""
    known = torch.tensor([[0.59], [0.6], [0.61]], dtype=torch.float64)
    data = Data(known, torch.full((3,), 3.0).double(), torch.full((3,), 1e-6).double())
    optimizer = tm.SafeOptimizer(
        X,
        objective=prior(),
        constraints={
            "c": tm.Constraint(tm.GP(Gaussian(0.2), noise_std=0.1, data=data), at_least=0.0)
        },
        on_violation="continue",
    )
    optimizer.tell(row=4, objective=0.0, constraints={"c": 1.0})
    optimizer.tell(row=12, objective=0.0, constraints={"c": -0.5})
    assert optimizer.safe_mask[12] and optimizer.history[-1].status == "violated"
    assert optimizer.restore_point[0] == pytest.approx(X[4])


def test_a_place_that_violated_once_is_not_where_to_return_to_however_often_it_was_fine():
    optimizer = make(on_violation="continue", safe_seed=None)
    optimizer.tell(row=2, objective=0.0, constraints={"c": 1.0})
    for _ in range(20):
        optimizer.tell(row=12, objective=0.0, constraints={"c": 1.0})
    optimizer.tell(row=12, objective=0.0, constraints={"c": -1.0})
    assert optimizer.safe_mask[12] and optimizer.history[-1].status == "violated"
    assert optimizer.restore_point[0] == pytest.approx(X[2])


def test_lines_go_through_where_the_system_was_brought(tmp_path):
    def fresh():
        return tm.SafeOptimizer(
            tm.Box([0.0, 0.0], [10.0, 10.0]),
            objective=tm.GP(Gaussian([1.0, 1.0]), noise_std=0.1),
            constraints={
                "c": tm.Constraint(tm.GP(Gaussian([1.0, 1.0]), noise_std=0.1), at_least=0.0)
            },
            safe_seed=[[5.0, 5.0]],
            search=CoordinateLines(200),
        )

    optimizer = fresh()
    for _ in range(2):
        optimizer.tell([5.0, 5.0], 0.0, {"c": 2.0})
    optimizer.tell([8.3, 7.7], 0.0, {"c": -2.0})
    optimizer.acknowledge()
    query = optimizer.ask()
    optimizer.save(tmp_path / "lines.json")
    np.testing.assert_array_equal(fresh().load(tmp_path / "lines.json").ask().x, query.x)
    assert (query.x == 5.0).sum() == 1 and query.purpose != "seed"


def test_a_seed_that_always_fails_is_not_tried_for_ever_where_others_are_safe():
    optimizer = make(safe_seed=[0.2, 0.8])
    asked = []
    for _ in range(8):
        query = optimizer.ask()
        asked.append(query.index)
        if query.index == 4:
            optimizer.tell(query, failed=True)
        else:
            optimizer.tell(query, 0.0, {"c": 2.0})
    assert asked.count(4) == 1


def test_where_to_return_to_is_judged_under_the_present_context():
    optimizer = tm.SafeOptimizer(
        X,
        objective=tm.GP(Gaussian([0.3, 1.0]), noise_std=0.05),
        constraints={
            "c": tm.Constraint(tm.GP(Gaussian([0.3, 1.0]), noise_std=0.05), at_least=0.0)
        },
        safe_seed=[0.5],
        contexts=["w"],
        names=["v"],
    )
    optimizer.tell([0.5], 0.0, {"c": 2.5}, context=[0.0])
    optimizer.tell([0.3], 0.0, {"c": 0.9}, context=[1.0])
    optimizer.tell([0.5], 0.0, {"c": -1.0}, context=[1.0])
    assert optimizer.restore_point[0] == pytest.approx(0.3)


def test_after_a_violation_steps_are_counted_from_where_the_system_was_brought(tmp_path):
    optimizer = make(max_step=0.1)
    optimizer.tell(row=10, objective=0.0, constraints={"c": 1.0})
    optimizer.tell(row=20, objective=0.0, constraints={"c": -2.0})
    optimizer.acknowledge()  # at the restore point
    query = optimizer.ask()
    assert abs(query.x[0] - 0.5) <= 0.1 + 1e-9
    optimizer.save(tmp_path / "moved.json")
    assert make(max_step=0.1).load(tmp_path / "moved.json").ask().index == query.index
    optimizer.acknowledge(at=[0.55])
    assert abs(optimizer.ask().x[0] - 0.55) <= 0.1 + 1e-9


def test_safe_points_out_of_reach_are_not_said_to_be_none():
    optimizer = make(max_step=0.1, on_violation="continue")
    optimizer.tell(row=10, objective=0.0, constraints={"c": 1.0})
    optimizer.tell(row=20, objective=0.0, constraints={"c": -2.0})
    nearest = f"{1 - X[optimizer.safe_mask].max():.4g}"
    with pytest.raises(tm.safebo.NoSafePoint, match=f"farther than.*x0 by {nearest}.*acknowledge"):
        optimizer.ask()


def test_earlier_recommendations_are_looked_at_in_later_rounds():
    box = tm.Box([0.0, 0.0], [1.0, 1.0])
    optimizer = tm.SafeOptimizer(
        box, objective=tm.GP(Gaussian([0.3, 0.3])), search=CoordinateLines(50), seed=1
    )
    best = []
    for _ in range(5):
        query = optimizer.ask()
        best.append(optimizer.best.x)
        optimizer.tell(query, float(np.sin(5 * query.x).sum()))
    optimizer.ask()
    for x in best:
        assert (np.abs(optimizer.points - x).max(axis=1) == 0).any()


def test_values_without_names_are_never_taken_for_seeds():
    with pytest.raises(TypeError, match="values by name"):
        make(safe_seed=([0.5], [1.0]))
    assert make(safe_seed=([0.5], {"objective": [1.0], "c": [2.0]})).history[0].values["c"] == 2.0


def test_whole_numbers_that_may_be_rows_or_points_are_refused():
    halves = np.arange(0, 10, 0.5)
    for seed in ([5], 5, np.array([5])):
        with pytest.raises(ValueError, match="may be rows of the domain, or the point"):
            make(halves, safe_seed=seed)
    assert make(halves, safe_seed=[5.0]).ask().x[0] == 5.0
    assert make(halves, safe_seed=halves[[5]]).ask().x[0] == 2.5
    assert make(X, safe_seed=[5]).ask().index == 5  # no point 5 in it
    assert len(make(np.arange(10.0), safe_seed=[3, 4]).state_dict()["safe_seed"]) == 2  # alike
    line = np.array([[i, 2 * i] for i in range(10)])
    with pytest.raises(ValueError, match="may be rows of the domain, or the point"):
        tm.SafeOptimizer(line, objective=tm.GP(Gaussian(1.0)), safe_seed=[3, 6])
    square = np.stack(np.meshgrid(np.arange(5), np.arange(5)), -1).reshape(-1, 2)
    with pytest.raises(ValueError, match="may be rows of the domain, or the point"):
        tm.SafeOptimizer(square, objective=tm.GP(Gaussian(1.0)), safe_seed=[2, 3])


def test_lipschitz_distances_are_exact_far_from_the_origin():
    known = tm.Constraint(prior(), at_least=0.0, lipschitz=10.0)
    masks = []
    for origin in (0.0, 1e7):
        optimizer = tm.SafeOptimizer(
            origin + np.arange(65) / 64, objective=prior(), constraints={"c": known}, beta=3.0
        )
        optimizer.tell(row=32, objective=0.0, constraints={"c": 1.0})
        masks.append(optimizer.safe_mask)
    np.testing.assert_array_equal(masks[0], masks[1])
    assert 1 < masks[0].sum() < 65


def test_a_damaged_state_changes_nothing():
    optimizer = make()
    optimizer.tell(row=10, objective=1.0, constraints={"c": 1.0})
    state = optimizer.state_dict()
    first = state["journal"][0]
    wrong = [{**first, "x": [7.0]}], [first, {"kind": "refit"}], [{**first, "noise": 1.0}]
    for bad in ({**state, "journal": journal} for journal in wrong):
        with pytest.raises(ValueError, match="damaged, and nothing of it was taken over"):
            optimizer.load_state_dict(bad)
        assert len(optimizer.history) == 1 and optimizer.state_dict() == state


def test_a_box_does_not_claim_to_intersect():
    assert "intersected" in str(make(beta=3.0))
    box = make(tm.Box(0.0, 1.0), beta=3.0)
    assert "intersected" not in str(box) and "present bounds" in str(box)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make().tell(x=True, objective=1.0), "must be a point or a row"),
        (lambda: make(targets=3), "targets must be an object"),
        (lambda: make(names=["a", "b"]), r"names must have one name per dimension"),
        (
            lambda: tm.SafeOptimizer(np.zeros((3, 1)), objective=tm.GP(Linear())),
            "has no variance anywhere",
        ),
    ],
)
def test_what_makes_no_sense_says_so(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("kind", ["points", "box"])
def test_trials_outside_a_domain_that_was_changed_stay_evidence_and_are_never_asked_for(kind):
    wide, narrow = (
        (X, X[: len(X) // 2]) if kind == "points" else (tm.Box(0.0, 1.0), tm.Box(0.0, 0.5))
    )

    def make_over(domain):
        return make(domain, safe_seed=[[X[3]]])

    first = make_over(wide)
    for x in (X[3], X[-1], X[len(X) // 2 - 2]):
        first.tell([x], float(np.sin(5 * x)), {"c": 1.5})
    state = first.state_dict()
    with pytest.raises(ValueError, match="its domain is"):
        make_over(narrow).load_state_dict(state)
    second = make_over(narrow)
    second.load_state_dict(state, changed={"domain"})
    assert len(second.history) == 3 and second.points.max() <= 0.5
    assert second.predict([[X[-1]]])[1] < 0.2  # it is known what was told there
    for _ in range(3):
        query = second.ask()
        assert query.x[0] <= 0.5
        second.tell(query, 0.1, {"c": 1.5})
    third = make_over(narrow)
    third.load_state_dict(second.state_dict())
    assert third.ask().x.tolist() == second.ask().x.tolist()
    assert second.restore_point[0] <= 0.5
    beyond = X[len(X) // 2 - 2]
    second.tell([beyond], float(np.sin(5 * beyond)), {"c": 1.5})
    narrower = X[: len(X) // 4] if kind == "points" else tm.Box(0.0, 0.25)
    fourth, fifth = make_over(narrower), make_over(narrower)
    fourth.load_state_dict(second.state_dict(), changed={"domain"})
    fifth.load_state_dict(fourth.state_dict())
    assert len(fifth.history) == 7 and fifth.points.max() <= 0.25
