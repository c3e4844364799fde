"""Wrong lengthscales: priors that are stretched, verdicts that can fall both ways, a small run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART
from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.misspecified import (
    FACTORS,
    PRESENT,
    SETTINGS,
    Ending,
    ending_of,
    group,
    judge,
    looks,
    numbers_of,
    stretch,
)
from tellmost_reproduction.safebo.process import small_process
from tellmost_reproduction.safebo.runs import Job, Run
from tellmost_reproduction.safebo.tasks import barriers, bumps, island


@pytest.mark.parametrize("factor", FACTORS)
def test_a_stretched_prior_sees_distances_divided_by_the_factor(factor):
    process = small_process()
    x = torch.from_numpy(process.domain[:5])
    for name, one in stretch(process, factor).constraints.items():
        gp, given = one.gp, process.constraints[name].gp
        torch.testing.assert_close(
            gp.kernel.block(x, x), given.kernel.block(x / factor, x / factor)
        )
        assert (gp.mean, gp.noise_std) == (given.mean, given.noise_std)
    task = stretch(island(), factor)
    y = torch.from_numpy(task.domain[:5])
    expected = island().objective.kernel.block(y / factor, y / factor)
    torch.testing.assert_close(task.objective.kernel.block(y, y), expected)
    shared = stretch(bumps(), factor)
    assert shared.constraints["g"].gp is shared.objective
    assert task.constraints["g"].gp is not task.objective
    assert task.name == f"2d-x{factor:g}" and task.beta == island().beta


def test_a_kernel_without_lengthscale_is_refused():
    with pytest.raises(TypeError, match="must have a lengthscale"):
        stretch(barriers(), 2.0)


def test_present_bounds_have_the_same_width_and_are_not_kept():
    setting = next(one for one in SETTINGS if one.key == PRESENT)
    task = setting.make_small()
    rng = np.random.default_rng(0)
    kept, present = (t.optimizer(rng) for t in (replace(task, is_intersected=True), task))
    assert "beta: 3" in str(kept) and "beta: 3" in str(present)
    assert "intersected" in str(kept) and "for each query" in str(present)


def test_an_ending_says_when_it_warned_violated_and_refused():
    zeros = np.zeros(6, dtype=int)
    violates = np.array([False, False, True, False, False])
    run = Run(
        method="vtl",
        seed=0,
        picks=np.arange(3),
        regret=np.linspace(1.0, 0.5, 6),
        safe=zeros + 4,
        wrong=zeros + 1,
        is_best_unsafe=np.zeros(6, dtype=bool),
        violates=violates,
        seconds=np.ones(5),
        refusal="MiscalibratedModel: empty",
        watched=("too consistent", "consistent overconfident"),
    )
    job = Job(small_process(), BY_KEY["vtl"], 0, 5, watched_at=(0, 2, 4))
    one = ending_of("process", 2.0, job, run)
    assert (one.violations, one.first_violation, one.refused_after) == (1, 3, 3)
    assert one.warned_after == 2 and one.is_warned_in_time
    assert not replace(one, warned_after=3).is_warned_in_time
    assert (one.regret, one.safe, one.wrong) == (0.5, 4, 1)


def test_calibration_is_asked_often_at_first_and_at_the_end():
    assert looks(3) == (0, 1, 2, 3)
    assert looks(60)[:21] == tuple(range(21)) and looks(60)[-1] == 60
    assert looks(600) == looks(200) and looks(200)[-1] == 200


def endings(*, violations, regret, refused, warned):
    """The same for every seed and task; each a function of the factor."""
    return [
        Ending(
            setting=setting.key,
            factor=factor,
            method=key,
            seed=seed,
            violations=violations(factor),
            first_violation=5 if violations(factor) else None,
            regret=regret(factor) + 0.01 * seed,
            is_best_unsafe=False,
            safe=10,
            wrong=0,
            refused_after=refused(factor),
            warned_after=warned(factor),
        )
        for setting in SETTINGS
        for factor in FACTORS
        for key in ("vtl", "eic")
        for seed in range(3)
    ]


def test_every_expectation_can_hold_and_can_fail():
    good = endings(
        violations=lambda factor: int(factor == 2.0),
        regret=lambda factor: 1 / factor,
        refused=lambda factor: 7 if factor == 2.0 else None,
        warned=lambda factor: 1 if factor == 2.0 else None,
    )
    assert {verdict.holds for verdict in judge(good)} == {HOLDS}
    bad = endings(
        violations=lambda factor: int(factor < 2.0),
        regret=lambda factor: factor,
        refused=lambda factor: None,
        warned=lambda factor: 1 if factor == 1.0 else None,
    )
    found = [verdict.holds for verdict in judge(bad)]
    assert found[:5] == [FAILS] * 5 and found[7] == FAILS
    assert found[5:7] == ["not tested"] * 2  # it warns of given priors: its warnings say nothing
    silent = [replace(one, warned_after=None) for one in good]
    assert [verdict.holds for verdict in judge(silent)[5:]] == [FAILS, FAILS, HOLDS]
    late = [replace(one, warned_after=5) if one.factor == 2.0 else one for one in good]
    assert judge(late)[6].holds == FAILS


def test_runs_that_refuse_at_once_are_not_expected_to_warn():
    refused = endings(
        violations=lambda factor: 0,
        regret=lambda factor: 1.0,
        refused=lambda factor: 0 if factor == 2.0 else None,
        warned=lambda factor: None,
    )
    found = judge(refused)[5]
    assert found.holds == "not tested" and "all refuse before the first round" in found.finding


def test_what_is_so_on_one_task_alone_holds_in_part():
    some = [
        replace(one, violations=1) if (one.setting, one.factor) == ("2d", 1.0) else one
        for one in endings(
            violations=lambda factor: 0,
            regret=lambda factor: 1.0,
            refused=lambda factor: None,
            warned=lambda factor: None,
        )
    ]
    assert judge(some)[0].holds == IN_PART
    assert "2d island: 3 of 3 runs violate" in judge(some)[0].finding


def test_numbers_are_the_means_of_the_seeds():
    runs = endings(
        violations=lambda factor: 0,
        regret=lambda factor: 1.0,
        refused=lambda factor: None,
        warned=lambda factor: None,
    )
    regret = numbers_of(group(runs)).methods["1d x1 vtl"]["regret"]
    assert regret.mean == pytest.approx([1.01])
    assert regret.standard_error == pytest.approx([0.01 / 3**0.5])
