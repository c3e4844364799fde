"""Save and resume."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.posterior.gp import Data

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
        # what was told at once is computed at once, which rounds in another order
        np.testing.assert_allclose(other.gains(), learner.gains(), rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(other.predict(), learner.predict(), rtol=1e-11, atol=1e-15)
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


def changed(state, name, place, value):
    array = np.array(state[name], dtype=np.asarray(value).dtype)
    array[place] = value
    return {**state, name: array}


DAMAGE = {
    "no y": lambda s: {n: v for n, v in s.items() if n != "y"},
    "a row beyond": lambda s: changed(s, "rows", 1, 30),
    "a row before": lambda s: changed(s, "rows", 1, -2),
    "half a row": lambda s: {**s, "rows": s["rows"] + 0.5},
    "another row's point": lambda s: changed(s, "rows", 1, (s["rows"][1] + 1) % 30),
    "a value that is NaN": lambda s: changed(s, "y", 0, np.nan),
    "no noise": lambda s: changed(s, "noise_variance", 0, 0.0),
    "endless noise": lambda s: changed(s, "noise_variance", 0, np.inf),
    "fewer values": lambda s: {**s, "y": s["y"][:-1]},
    "other points": lambda s: {**s, "points": s["points"][:, :1]},
    "words": lambda s: {**s, "y": np.array(["a"] * len(s["y"]))},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_state_is_refused_and_nothing_changes(damage):
    learner = experience(make(), 2)
    before = learner.predict()
    with pytest.raises(ValueError, match=r"^the state is damaged, and nothing of it was taken"):
        learner.load_state_dict(damage(learner.state_dict()))
    np.testing.assert_array_equal(learner.predict(), before)


def test_a_state_without_the_data_of_the_prior_is_refused():
    def learner(points):
        data = Data(*(torch.as_tensor(part) for part in (points, [1.0, 2.0], [0.1, 0.1])))
        gp = tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1, data=data)
        return tm.ActiveLearner(gp, pool=POOL, targets=POOL[:4])

    mine = learner(POOL[:2] + 0.1)
    mine.load_state_dict(mine.state_dict())
    with pytest.raises(ValueError, match="must begin with the data of the prior"):
        mine.load_state_dict(learner(POOL[:2] + 0.2).state_dict())


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="annotations refuse it first")
def test_what_is_no_state_is_refused():
    with pytest.raises(TypeError, match=r"state must be a mapping, .*; got NoneType"):
        make().load_state_dict(None)
