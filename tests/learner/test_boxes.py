"""Asking in a box: the gain of what is asked for against a dense grid of the box."""

import numpy as np
import pytest

import tellmost as tm

BOXES = {1: tm.Box(-1.0, 1.0), 2: tm.Box([-1.0, 0.0], [1.0, 50.0])}
KERNELS = {
    "gaussian": lambda box: tm.kernels.Gaussian((0.3 * box.width()).tolist()),
    "matern": lambda box: tm.kernels.Matern(2.5, (0.3 * box.width()).tolist()),
}


def grid(box, per_side):
    sides = [np.linspace(a, b, per_side) for a, b in zip(box.low, box.high, strict=True)]
    return np.stack(np.meshgrid(*sides), -1).reshape(-1, box.dimension)


def loud_on_the_left(points):
    return 0.1 + 0.5 / (1 + np.exp(8 * points[:, 0]))


def make(pool, box, targets, rule, kernel, observations, noise_std):
    learner = tm.ActiveLearner(
        KERNELS[kernel](box), pool=pool, targets=targets, rule=rule, noise_std=noise_std
    )
    told = box.sobol(16, 7)[:observations].numpy()
    for x in told:
        noise = noise_std(x[None])[0] if callable(noise_std) else noise_std
        learner.tell(x, np.sin(x[0]), noise_std=noise)
    return learner


@pytest.mark.parametrize("noise_std", [0.1, loud_on_the_left], ids=["even", "loud on the left"])
@pytest.mark.parametrize("observations", [0, 6])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl", "ctl", "uncertainty"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_what_is_asked_for_gains_at_least_what_the_best_point_of_a_dense_grid_does(
    dimension, rule, kernel, observations, noise_std
):
    box = BOXES[dimension]
    targets = box.sobol(16, 7)[10:].numpy()
    rest = box, targets, rule, kernel, observations, noise_std
    x = make(box, *rest).ask()
    assert box.contains(x).all() and x.shape == (1, dimension)
    dense = make(grid(box, 2_001 if dimension == 1 else 101), *rest).gains().max()
    (gained,) = make(x, *rest).gains()
    assert gained >= dense - 1e-9 * abs(dense)


@pytest.mark.parametrize("rule", ["vtl", "itl"])
def test_a_batch_in_a_box_is_chosen_as_if_those_before_had_been_measured(rule):
    box = BOXES[2]
    targets = box.sobol(8, 3).numpy()
    learner = make(box, box, targets, rule, "matern", 3, 0.1)
    batch = learner.ask(4)
    for x in batch:
        np.testing.assert_allclose(learner.ask()[0], x, atol=1e-5)
        learner.tell(x, 0.3)
    assert len(np.unique(batch.round(6), axis=0)) == 4


def test_asking_in_a_box_depends_on_nothing_but_what_was_told_and_the_seed(tmp_path):
    box = BOXES[2]

    def made(seed):
        return tm.ActiveLearner(
            KERNELS["matern"](box), pool=box, targets=box, noise_std=0.1, seed=seed
        )

    learner = made(3)
    for _ in range(3):
        learner.tell(learner.ask(), 0.5)
    learner.save(tmp_path / "box.npz")
    again = made(3).load(tmp_path / "box.npz")
    np.testing.assert_array_equal(again.ask(2), learner.ask(2))
    np.testing.assert_array_equal(learner.ask(2), learner.ask(2))


@pytest.mark.parametrize("rule", ["random", "k-center", "k-means++", "mmr", "undirected-vtl"])
def test_any_rule_that_makes_sense_in_a_box_asks_for_points_of_it(rule):
    box = BOXES[2]
    targets = None if rule in ("k-center", "k-means++", "random") else box.sobol(4, 1).numpy()
    learner = tm.ActiveLearner(
        KERNELS["matern"](box), pool=box, targets=targets, noise_std=0.1, rule=rule
    )
    asked = []
    for _ in range(4):
        asked.append(learner.ask()[0])
        learner.tell(asked[-1], 0.1)
    assert box.contains(np.array(asked)).all()
    assert len(np.unique(asked, axis=0)) == 4


def test_where_candidates_are_closed_the_open_points_are_all_there_is():
    box = BOXES[2]
    learner = tm.ActiveLearner(
        KERNELS["matern"](box),
        pool=box,
        targets=box,
        noise_std=0.1,
        candidates=lambda known: known.points[:, 0] > 0.5,
    )
    asked = learner.ask(3)
    assert (asked[:, 0] > 0.5).all()
    assert {tuple(x) for x in asked} <= {tuple(x) for x in learner.points}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replace": False}, "replace=False has no meaning in a Box"),
        ({"noise_std": np.full(1024, 0.1)}, r"noise_std in a Box must be a number"),
        ({"candidates": np.zeros(1024, dtype=bool)}, "candidates"),
        ({"rule": "truvar"}, "every target"),
    ],
)
def test_what_makes_no_sense_in_a_box_says_so(arguments, message):
    box = BOXES[1]
    given = {"targets": np.array([[0.1], [0.2]]), "noise_std": 0.1, **arguments}
    with pytest.raises(ValueError, match=message):
        tm.ActiveLearner(tm.kernels.Gaussian(0.3), pool=box, **given).ask()


@pytest.mark.parametrize("rule", ["itl", "mm-itl"])
def test_a_narrow_summit_at_a_target_is_found(rule):
    """A short lengthscale makes of the target a needle between the points of the box."""
    box, target = tm.Box(0.0, 100.0), np.array([[33.33333]])
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(0.002), pool=box, targets=target, noise_std=0.1, rule=rule
    )
    assert learner.ask()[0, 0] == pytest.approx(33.33333, abs=1e-5)
