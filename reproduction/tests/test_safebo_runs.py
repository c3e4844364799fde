"""Runs of safe optimization: the same seed gives the same run, refusals are kept, none is lost."""

import multiprocessing
from dataclasses import replace

import numpy as np
import pytest

from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.quadcopter.flight import plan_controls
from tellmost_reproduction.safebo.quadcopter.task import Quadcopter, fly_once
from tellmost_reproduction.safebo.quadcopter.tuning import CODE_BETA, Tuning
from tellmost_reproduction.safebo.records import Experiment, Record
from tellmost_reproduction.safebo.runs import Job, keep_run, path_of, read_run, run, run_all
from tellmost_reproduction.safebo.tasks import barriers, bumps, island

CURVES = ("picks", "regret", "safe", "wrong", "violates", "is_best_unsafe")


@pytest.fixture(scope="module")
def quadcopter():
    return Quadcopter(plan_controls().controls)


@pytest.mark.parametrize("key", ["vtl", "itl-thompson", "goose-oracle", "ise-bo", "random"])
def test_the_same_seed_gives_the_same_run_and_another_another(key):
    job = Job(bumps(), BY_KEY[key], 3, 6)
    one, again, other = run(job), run(job), run(replace(job, seed=4))
    for name in CURVES:
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
    assert not np.array_equal(one.regret, other.regret) or not np.array_equal(one.safe, other.safe)


def test_a_run_notes_what_the_task_says_of_every_round():
    task = island()
    one = run(Job(task, BY_KEY["eic"], 0, 12))
    assert len(one.picks) == 12 and len(one.regret) == len(one.safe) == 13
    np.testing.assert_array_equal(one.violates, ~task.is_safe[one.picks])
    assert (one.seconds > 0).all() and one.regret[0] > one.regret[-1] >= 0
    assert one.safe[-1] > one.safe[0] > 0 == one.wrong.max()


def test_methods_meet_the_same_start_and_the_same_noise():
    task = bumps()
    first = [run(Job(task, BY_KEY[key], 0, 1)) for key in ("itl", "ucb", "heuristic-safeopt")]
    assert len({(one.regret[0], one.safe[0]) for one in first}) == 1
    noise = [
        task.measure(row, np.random.default_rng(0))["objective"] - task.f[row] for row in (3, 9)
    ]
    assert noise[0] == pytest.approx(noise[1])


def test_a_refusal_is_kept_and_the_last_values_are_held():
    task = replace(bumps(), beta=60.0)  # so wide that nothing is known to be safe
    one = run(Job(task, BY_KEY["vtl"], 0, 4))
    assert one.refusal.startswith("NoSafePoint") and len(one.picks) == 0
    assert (one.regret == task.regret(int(task.starts[0]))).all() and len(one.regret) == 5
    assert np.isnan(one.seconds).all() and not one.violates.any()


def test_where_slopes_are_given_the_starts_are_declared_safe():
    task = replace(bumps(), beta=60.0)
    one = run(Job(task, BY_KEY["safeopt"], 0, 2))
    assert not one.refusal and set(one.picks) <= set(task.starts.tolist())


def test_a_watcher_is_called_when_it_is_told_to_be():
    job = Job(bumps(), BY_KEY["ucb"], 0, 4, watch=count_trials, watched_at=(0, 2, 4))
    assert run(job).watched == ("8", "10", "12")


def count_trials(optimizer):
    return str(len(optimizer.history))


def test_a_run_on_disk_is_read_and_not_run_again(tmp_path):
    jobs = [Job(bumps(), BY_KEY["ucb"], seed, 3) for seed in (0, 1)]
    one = replace(run(jobs[0]), refusal="a mark", watched=("a", "b"))
    keep_run(one, path_of(jobs[0], tmp_path))
    told = []
    found = run_all(jobs, workers=1, kept=tmp_path, tell=lambda *told_of: told.append(told_of))
    assert told == [(job, 2) for job in jobs] and [other.seed for other in found] == [0, 1]
    assert found[0].refusal == "a mark" and found[0].watched == ("a", "b")
    for name in CURVES:
        np.testing.assert_array_equal(getattr(found[0], name), getattr(one, name))
    assert read_run(path_of(jobs[1], tmp_path)).refusal == ""


def test_runs_in_other_processes_are_those_in_this_one():
    jobs = [Job(bumps(), BY_KEY[key], 0, 4) for key in ("vtl", "goose")]
    for here, there in zip(run_all(jobs, workers=1), run_all(jobs, workers=2), strict=True):
        assert here.method == there.method
        np.testing.assert_array_equal(here.picks, there.picks)


@pytest.mark.parametrize("key", ["itl", "safeopt-oracle"])
def test_a_replay_ends_where_the_run_did(key):
    task = island()
    experiment = Experiment("safebo-2d", "", island, (BY_KEY[key],), seeds=1, looked_at=())
    one = run(Job(task, BY_KEY[key], 2, 8))
    record = Record(experiment, task, 8, 1, (one,))
    assert record.replay(one).safe_mask.sum() == one.safe[-1]


def test_a_single_flight_is_that_of_the_tensors(quadcopter):
    x = 20 * np.random.default_rng(0).random((30, 4))
    x[:10] *= 0.02  # some of these fall
    x = np.vstack([x, np.zeros(4), quadcopter.disturbance])
    f, g = quadcopter.evaluate(x)
    alone = np.array([fly_once(quadcopter, tuple(row)) for row in x.tolist()])
    np.testing.assert_allclose(alone, np.stack([f, g], axis=1), rtol=1e-9, atol=1e-12)
    assert (g < 0).any() and (g > 0).any()


def test_a_single_flight_that_tumbles_crashes_where_the_tensors_do(quadcopter):
    """There rounding grows: how low it comes may differ, whether it crashes may not."""
    x = 2 * np.random.default_rng(1).random((60, 4))
    _, g = quadcopter.evaluate(x)
    alone = np.array([fly_once(quadcopter, tuple(row))[1] for row in x.tolist()])
    np.testing.assert_array_equal(alone < 0, g < 0)
    assert (g < 0).sum() > 5


def test_interrupting_ends_the_processes_that_run(tmp_path):
    jobs = [Job(bumps(), BY_KEY["ucb"], seed, 20_000 if seed else 1) for seed in range(3)]

    def interrupt(job, most):
        raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        run_all(jobs, workers=2, kept=tmp_path / "runs", tell=interrupt)
    assert set(multiprocessing.active_children()) <= before
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["1d-ucb-0-1.npz"]


def test_expanders_alone_are_picked_where_there_are_any():
    """From an expander some point that is not proven yet may be within reach of its slope."""
    task, rng = barriers(), np.random.default_rng(0)
    optimizer = task.optimizer(rng, BY_KEY["safeopt-expanders"])
    x, is_widest = task.domain[:, 0], []
    for _ in range(8):
        (lower, upper), mask = optimizer.bounds("g"), optimizer.safe_mask
        reach = upper / task.slopes["true"]["g"].constant
        expands = mask & (np.abs(x[:, None] - x[None, ~mask]).min(axis=1) <= reach)
        row = optimizer.ask().index
        assert expands[row]
        width = upper - lower
        assert width[row] == pytest.approx(width[expands].max())
        is_widest.append(width[row] == pytest.approx(width[mask].max()))
        optimizer.tell(row=row, **task.measure(row, rng))
    assert not all(is_widest)


def test_the_quadcopter_runs_with_every_kind_of_constant(quadcopter):
    tuning = Tuning("quadcopter-code", CODE_BETA, quadcopter)
    slopes = [tuning.constant(which, 0) for which in ("oracle", "estimated", "true")]
    assert slopes == sorted(slopes)
    sizes = []
    for key in ("safeopt-oracle", "safeopt-estimated", "safeopt"):
        one = run(Job(tuning, BY_KEY[key], 0, 3))
        assert one.picks.shape == (3, 4) and not one.violates.any()
        sizes.append(one.safe[0])
    assert sizes[0] > sizes[2] >= 1
