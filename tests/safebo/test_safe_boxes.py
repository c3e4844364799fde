"""Boxes: lines, Sobol sets and climbs inside the safe set; steps, contexts, plain optimization."""

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import tensor
from tellmost.numerics import TIE_TOLERANCE
from tellmost.safebo import CoordinateLines, RandomLines, SobolSet

BOX = tm.Box([0, -1], [1, 3], names=["kp", "kd"])
KERNEL = tm.kernels.Matern(2.5, [0.4, 1.6])
SEARCHES = [SobolSet(64), CoordinateLines(50), RandomLines(50)]


def bowl(x) -> float:
    """Largest, 1, at (0.7, 1); between 0 and 1 in the box."""
    x = np.asarray(x)
    return float(1 - (x[0] - 0.7) ** 2 - ((x[1] - 1) / 4) ** 2)


def make(box=BOX, **changed) -> tm.SafeOptimizer:
    arguments = {
        "objective": tm.GP(KERNEL, noise_std=0.05),
        "constraints": {"g": tm.Constraint(tm.GP(KERNEL, noise_std=0.05), at_least=0.3)},
        "safe_seed": [[0.5, 1.0]],
        "confidence": 0.9,
    }
    return tm.SafeOptimizer(box, **{**arguments, **changed})


def go(optimizer: tm.SafeOptimizer, rounds: int) -> list[tm.safebo.Query]:
    asked = []
    for _ in range(rounds):
        asked.append(optimizer.ask())
        optimizer.tell(asked[-1], bowl(asked[-1].x), {"g": bowl(asked[-1].x)})
    return asked


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize("rule", ["vtl", "itl"])
def test_what_is_asked_in_a_box_is_inside_it_and_safe_by_the_bounds(search, rule):
    optimizer = make(search=search, rule=rule)
    asked = go(optimizer, 5)
    assert asked[0].purpose == "seed"
    for query in asked[1:]:
        assert bool(BOX.contains(query.x[None])) and query.index is None
        assert query.lower["g"] >= 0 or query.purpose == "seed"
    assert len({tuple(query.x) for query in asked}) > 3
    last, now = asked[-2].x, optimizer.ask()
    assert now.lower["g"] == pytest.approx(lower_margin(optimizer, now.x), abs=1e-9)
    assert last.shape == (2,)


def lower_margin(optimizer: tm.SafeOptimizer, x: np.ndarray) -> float:
    mean, std = optimizer.predict(x[None], "g")
    return float(mean[0] - 1.2815515655446004 * std[0] - 0.3)


@pytest.mark.parametrize("kind", [CoordinateLines, RandomLines])
def test_lines_go_through_the_last_point_from_face_to_face(kind):
    optimizer = make(search=kind(50))
    go(optimizer, 3)
    optimizer.ask()
    line, last = optimizer.points[:50], optimizer.history[2].x
    assert bool(BOX.contains(line).all())
    direction = line[-1] - line[0]
    share = (line - line[0]) @ direction / (direction @ direction)
    np.testing.assert_allclose(line, line[0] + share[:, None] * direction, atol=1e-9)
    near = line[0] + (last - line[0]) @ direction / (direction @ direction) * direction
    np.testing.assert_allclose(near, last, atol=1e-9)
    on_faces = [np.isclose(end, bound) for end in (line[0], line[-1]) for bound in BOX.corners()]
    assert sum(face.any() for face in on_faces) >= 2
    if kind is CoordinateLines:
        assert (np.abs(direction) > 1e-12).sum() == 1
    known = {tuple(x) for x in optimizer.points[50:].tolist()}
    assert {tuple(trial.x) for trial in optimizer.history} <= known
    recommended = {tuple(x.tolist()) for x in optimizer._rounds.recommended.values()}
    assert recommended and {tuple(optimizer.best.x)} <= known | {tuple(x) for x in line}


@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl", "ctl", "uncertainty"])
def test_a_climb_gains_at_least_what_the_best_candidate_does_and_stays_safe(rule):
    optimizer = make(search=SobolSet(64), rule=rule)
    go(optimizer, 4)
    now = optimizer._rounds.present()
    targets = now.targets()
    is_open = now.near_rows() & now.state.sets.is_safe
    gain = targets.gain_anywhere([], BOX)
    best = float(gain(now.state.points[is_open]).max())
    query = optimizer.ask()
    found = float(gain(torch.from_numpy(query.x)[None]))
    assert found >= best - TIE_TOLERANCE * abs(best)
    assert query.lower["g"] >= 0


def test_a_climb_sees_a_noise_that_is_a_function_and_a_lipschitz_constant():
    def loud(points):
        return 0.05 + 0.5 * (points[:, 0] > 0.6)

    known = tm.safebo.Lipschitz(0.7)
    constraint = tm.Constraint(tm.GP(KERNEL, noise_std=0.05), at_least=0.3, lipschitz=known)
    optimizer = make(
        search=SobolSet(64), noise_std={"objective": loud}, constraints={"g": constraint}
    )
    plain = make(search=SobolSet(64))
    asked = go(optimizer, 3)
    go(plain, 1)
    assert asked[-1].lower["g"] >= -1e-12
    for query in asked:
        plain.tell(query.x, bowl(query.x), {"g": bowl(query.x)})
    assert optimizer.history[-1].noise_std["objective"] in (0.05, 0.55)
    X = BOX.sobol(64, 0)
    look = optimizer._rounds.present().state.beliefs_at(X)
    without = plain._rounds.present().state.beliefs_at(X)
    assert bool((look.sets.is_safe >= without.sets.is_safe).all())


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_no_parameter_moves_farther_than_its_longest_step(search):
    optimizer = make(search=search, max_step={"kp": 0.1})
    asked = [query.x for query in go(optimizer, 6)]
    steps = np.abs(np.diff(asked, axis=0))
    assert (steps[:, 0] <= 0.1 * (1 + 1e-8)).all()
    assert steps[:, 1].max() > 0.1


def test_a_point_between_two_ends_never_leaves_the_box():
    from tellmost.safebo.gains import last_allowed

    box = tm.Box([0.1], [0.7])
    starts = torch.linspace(0.1, 0.7, 999, dtype=torch.float64)[:, None]
    for end in (0.1, 0.7):
        ends = torch.full_like(starts, end)
        reached = last_allowed(starts, ends, box, lambda x: x[:, 0] < 0.69)
        assert bool(box.contains(reached).all())
        assert bool((reached[starts[:, 0] < 0.69] < 0.69).all())
    ends = tensor([[0.3], [0.7]])
    reached = last_allowed(tensor([[0.2], [0.2]]), ends, box, lambda x: x[:, 0] < 0.6)
    np.testing.assert_allclose(reached, [[0.3], [0.6]], atol=1e-3)
    ends = torch.full_like(starts, 0.7)
    everything = last_allowed(starts, ends, box, lambda x: x[:, 0] > 0)
    assert bool((everything == 0.7).all())


@pytest.mark.parametrize("domain", ["box", "points"])
def test_without_constraints_it_is_plain_optimization_and_finds_the_maximum(domain):
    where = BOX if domain == "box" else BOX.sobol(200, 1).numpy()
    gp = tm.GP(KERNEL, noise_std=0.05)
    for direction, sign in (("maximize", 1.0), ("minimize", -1.0)):
        search = SobolSet(128) if domain == "box" else None
        optimizer = tm.SafeOptimizer(where, objective=gp, direction=direction, search=search)
        assert optimizer.safe_mask.all() and optimizer.optimistic_mask.all()
        for _ in range(12):
            query = optimizer.ask()
            assert query.lower == {} and query.probability_safe == 1.0
            optimizer.tell(query, sign * bowl(query.x))
        assert bowl(optimizer.best.x) > 0.95


# ---- contexts


def test_contexts_are_observed_and_never_chosen_and_safety_depends_on_them():
    """What is safe at 0 is not at 1: the constraint falls with the context."""
    kernel = tm.kernels.Matern(2.5, [0.3, 0.8])
    gp = tm.GP(kernel, noise_std=0.05)
    domain = np.linspace(0, 1, 15)
    optimizer = tm.SafeOptimizer(
        domain,
        objective=tm.GP(kernel, noise_std=0.05),
        constraints={"g": tm.Constraint(gp, at_least=0.0)},
        safe_seed=[7],
        contexts=["load"],
        names=["kp"],
        confidence=0.95,
    )
    for load in (0.0, 0.1, 0.0, 0.2):
        query = optimizer.ask(context={"load": load})
        assert 0 <= query.index < 15 and query.x.tolist() == [domain[query.index]]
        assert query.context.tolist() == [load]
        y = 1 - (query.x[0] - 0.5) ** 2
        optimizer.tell(query, y, {"g": y - load})
    assert list(optimizer.history.columns) == ["kp", "load", "objective", "g", "status"]
    assert optimizer.history.columns["load"].tolist() == [0.0, 0.1, 0.0, 0.2]
    optimizer.ask(context=[0.0])
    calm = optimizer.safe_mask.sum()
    query = optimizer.ask(context=[3.0])
    assert optimizer.safe_mask.sum() < calm
    assert (query.index, query.purpose) == (7, "seed")


def test_pending_points_are_taken_for_measured_under_their_own_context():
    kernel = tm.kernels.Matern(2.5, [0.3, 0.8])
    optimizer = tm.SafeOptimizer(
        np.linspace(0, 1, 15), objective=tm.GP(kernel, noise_std=0.05), contexts=["load"]
    )
    first = optimizer.ask(context=[0.0])
    second = optimizer.ask(context=[0.0], pending=[first])
    elsewhere = optimizer.ask(context=[9.0], pending=[first])
    assert second.index != first.index
    assert elsewhere.index == optimizer.ask(context=[9.0]).index
    optimizer.tell(first, 0.3)
    assert optimizer.history[0].x.tolist() == [first.x[0], 0.0]


# ---- refits


def test_a_refit_is_logged_forgets_old_bounds_and_never_shrinks_the_noise():
    pytest.importorskip("botorch")
    rng = np.random.default_rng(0)
    gp = tm.GP(tm.kernels.Matern(2.5, 3.0), noise_std=0.02)
    loud = tm.GP(tm.kernels.Matern(2.5, 0.3), noise_std=0.5)
    optimizer = tm.SafeOptimizer(
        np.linspace(0, 1, 40),
        objective=gp,
        constraints={"g": tm.Constraint(loud, at_least=-2.0)},
        beta=2.0,
    )
    with pytest.raises(ValueError, match="nothing was told of 'objective' yet"):
        optimizer.refit()
    for row in [*range(0, 40, 4)] * 4:
        x = row / 39
        optimizer.tell(
            row=row, objective=np.sin(9 * x) + 0.3 * rng.normal(), constraints={"g": np.cos(4 * x)}
        )
    with pytest.raises(tm.safebo.MiscalibratedModel):
        optimizer.ask()
    optimizer.refit()
    assert optimizer.ask() is not None  # nothing is intersected with the old bounds
    texts = [event.text for event in optimizer.log if event.kind == "refit"]
    assert [text.split(":")[0] for text in texts] == ["objective", "g"]
    assert "noise kept: the fit found less" in texts[1] and "noise kept" not in texts[0]
    model = optimizer._model
    assert model.outputs[1].gp.noise_std == 0.5 and model.outputs[0].gp.noise_std > 0.1
    # values told before are taken for as noisy as the fit found them
    stds = {trial.noise_std["objective"] for trial in optimizer.history}
    assert stds == {model.outputs[0].gp.noise_std}
    _, std = optimizer.predict()
    lower, upper = optimizer.bounds()
    np.testing.assert_allclose(upper - lower, 4.0 * std, rtol=1e-9)
