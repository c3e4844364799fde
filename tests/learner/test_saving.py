"""Save and resume."""

import numpy as np
import pytest

import tellmost as tm

POOL = np.random.default_rng(0).uniform(-1, 1, (30, 2))
TARGETS = {
    "fixed": POOL[:4],
    "sampled": tm.targets.Sampled(POOL, 3),
    "thompson": tm.targets.ThompsonMaximizers(3),
    "level": tm.targets.LevelSet(0.0),
}


def make(targets="sampled", rule="vtl", seed=3, pool=POOL):
    kernel = tm.kernels.Matern(2.5, 0.7)
    return tm.ActiveLearner(
        kernel, pool=pool, targets=TARGETS[targets], noise_std=0.1, rule=rule, seed=seed
    )


def experience(learner, rounds=5):
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        learner.tell(learner.ask(), rng.normal())
    learner.tell(rng.uniform(-1, 1, (2, 2)), rng.normal(size=2), noise_std=0.4)
    return learner


@pytest.mark.parametrize("rule", ["vtl", "itl", "random", "k-means++"])
@pytest.mark.parametrize("targets", sorted(TARGETS))
def test_a_learner_that_was_saved_asks_what_the_first_would_have(targets, rule, tmp_path):
    learner = experience(make(targets, rule))
    learner.save(tmp_path / "run.npz")
    resumed = make(targets, rule).load(tmp_path / "run.npz")
    copied = make(targets, rule)
    copied.load_state_dict(learner.state_dict())
    for other in (resumed, copied):
        assert len(other) == len(learner) == 7
        np.testing.assert_array_equal(other.target_points, learner.target_points)
        np.testing.assert_array_equal(other.gains(), learner.gains())
        np.testing.assert_array_equal(other.predict(), learner.predict())
    for _ in range(3):
        asked = learner.ask(2)
        for other in (learner, resumed, copied):
            assert other.ask(2).tolist() == asked.tolist()
            other.tell(asked, [0.3, -0.3])


def test_loading_forgets_what_was_told_before(tmp_path):
    learner = experience(make(), 2)
    state = learner.state_dict()
    learner.tell([0, 1, 2], [5.0, 6.0, 7.0])
    learner.load_state_dict(state)
    assert len(learner) == 4
    np.testing.assert_array_equal(learner.predict(), experience(make(), 2).predict())


def test_a_learner_that_was_told_nothing_can_be_saved(tmp_path):
    make().save(tmp_path / "empty.npz")
    assert len(make().load(tmp_path / "empty.npz")) == 0


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"seed": 4}, "its seed is 3"),
        ({"rule": "itl"}, "its rule is"),
        ({"pool": POOL[:20]}, "its pool is"),
    ],
    ids=["seed", "rule", "pool"],
)
def test_the_state_of_another_learner_is_refused(other, what):
    with pytest.raises(ValueError, match=what):
        make(**other).load_state_dict(experience(make()).state_dict())


def test_a_file_that_is_no_learner_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", y=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ValueError, match="is no saved learner"):
            make().load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        make().load(tmp_path / "missing.npz")
