"""One glitch opens no safe set, and values that speak against a prior stop the asking."""

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo import MiscalibratedModel

DOMAIN = np.linspace(0, 1, 101)


def prior(lengthscale=0.2, noise_std=0.1, **more):
    return tm.GP(tm.kernels.Gaussian(lengthscale), noise_std=noise_std, **more)


def make(domain=DOMAIN, **more):
    arguments = {"safe_seed": [[0.5]], **more}
    return tm.SafeOptimizer(
        domain,
        objective=prior(),
        constraints={"c": tm.Constraint(prior(), at_least=0.0)},
        **arguments,
    )


def told(optimizer, *pairs):
    for x, c in pairs:
        optimizer.tell([x], 0.0, {"c": c})
    return optimizer


def margins(optimizer, *pairs):
    """The lower bounds if these values were told to an optimizer that takes all as told."""
    trusting = make(optimizer._task.space.rows.numpy(), suspect_z=np.inf)
    return told(trusting, *pairs).bounds("c")[0]


@pytest.mark.parametrize("domain", [DOMAIN, tm.Box(0.0, 1.0)], ids=["points", "box"])
def test_a_value_that_is_too_good_to_be_true_opens_nothing(domain):
    optimizer = told(make(domain), (0.5, 1.0))
    before = np.ptp(optimizer.points[optimizer.safe_mask])
    told(optimizer, (0.5, 5.0))
    assert 0 < np.ptp(optimizer.points[optimizer.safe_mask]) <= before
    (suspect,) = optimizer.suspects
    assert (suspect.id, suspect.name, suspect.value) == (1, "c", 5.0) and suspect.z > 4
    assert optimizer.log[-1].kind == "suspect" and "c 5 is suspect" in optimizer.log[-1].text
    assert optimizer.history[1].values["c"] == 5.0  # it is kept and shown


def test_lower_bounds_are_the_smaller_of_those_with_and_without_the_suspect():
    good, low = (0.5, 1.0), (0.52, 0.2)
    optimizer = told(make(suspect_z=2.0), good, low)
    assert [one.value for one in optimizer.suspects] == [0.2]
    with_it, without = margins(optimizer, good, low), margins(optimizer, good)
    np.testing.assert_allclose(optimizer.bounds("c")[0], np.minimum(with_it, without))
    assert (with_it > without).any() and (with_it < without).any()
    told(optimizer, (0.48, 1.0))  # what is told later counts with it and without it
    with_it, without = (
        margins(optimizer, good, low, (0.48, 1.0)),
        margins(optimizer, good, (0.48, 1.0)),
    )
    np.testing.assert_allclose(optimizer.bounds("c")[0], np.minimum(with_it, without), atol=1e-12)


def test_a_suspect_value_beyond_a_limit_is_a_violation_however_little_it_is_beyond():
    optimizer = told(make(), (0.5, 3.0), (0.5, -0.1))
    assert optimizer.history[1].status == "violated" and optimizer.is_halted
    optimizer.acknowledge()
    assert optimizer.ask().x[0] != 0.5  # nobody repeats a violation


def test_a_repeat_is_asked_for_and_confirms_if_it_agrees():
    optimizer = told(make(), (0.5, 1.5), (0.5, 5.0))
    query = optimizer.ask()
    assert (query.x[0], query.purpose) == (0.5, "repeat") and query.probability_safe >= 0.99
    assert optimizer.ask(pending=[query]).purpose != "repeat"
    optimizer.tell(query, 0.0, {"c": 5.1})
    assert optimizer.suspects == () and optimizer.log[-1].kind == "confirmed"
    np.testing.assert_allclose(
        optimizer.bounds("c")[0], margins(optimizer, (0.5, 1.5), (0.5, 5.0), (0.5, 5.1))
    )
    assert optimizer.ask().purpose != "repeat"  # one glitch that was none is no miscalibration


def test_a_repeat_that_disagrees_leaves_the_suspect_and_is_not_asked_for_again():
    optimizer = told(make(), (0.5, 1.5), (0.5, 5.0), (0.5, 1.45))
    assert len(optimizer.suspects) == 1 and optimizer.ask().purpose != "repeat"


def test_a_reading_at_another_point_confirms_nothing():
    square = np.stack([a.ravel() for a in np.meshgrid([0.0, 0.5, 1.0], [0.0, 0.5, 1.0])], axis=1)
    optimizer = make(square, safe_seed=[[0.5, 0.5]])
    for x, c in (([0.5, 0.5], 1.5), ([0.5, 0.5], 5.0), ([0.5, 1.0], 5.1)):
        optimizer.tell(x, 0.0, {"c": c})
    assert [one.id for one in optimizer.suspects] == [1, 2]


def test_a_value_is_as_implausible_as_the_prediction_says_in_any_unit():
    gp = tm.GP(tm.kernels.Scaled(tm.kernels.Gaussian(0.2), 16.0), noise_std=0.5)
    optimizer = tm.SafeOptimizer(DOMAIN, objective=gp, suspect_z=4.0)
    optimizer.tell([0.5], 1.0)
    optimizer.tell([0.5], 30.0)
    (suspect,) = optimizer.suspects
    assert suspect.expected == pytest.approx(16 / 16.25)
    variance = 16 - 16**2 / 16.25 + 0.25
    assert suspect.z == pytest.approx((30 - 16 / 16.25) / np.sqrt(variance))


def test_a_stuck_sensor_confirms_nothing():
    optimizer = told(make(), (0.5, 1.5), (0.5, 5.0), (0.5, 5.0))
    assert [one.id for one in optimizer.suspects] == [1, 2]


def test_no_repeat_is_asked_for_where_nothing_is_safe_without_the_suspect():
    optimizer = make(safe_seed=[[0.5], [0.9]])
    told(optimizer, (0.5, 1.5), (0.9, 0.0), (0.9, 5.0))
    assert [one.id for one in optimizer.suspects] == [2]
    assert optimizer.ask().x[0] != 0.9


@pytest.mark.parametrize("domain", [DOMAIN, tm.Box(0.0, 1.0)], ids=["points", "box"])
def test_a_person_confirms_or_discards_and_a_loaded_optimizer_knows_it(domain):
    pairs = (0.5, 1.5), (0.5, 5.0), (0.95, 0.3)
    confirmed, discarded = told(make(domain), *pairs), told(make(domain), *pairs)
    confirmed.confirm(1)
    discarded.discard(1)
    assert confirmed.suspects == discarded.suspects == ()
    plain = told(make(domain), pairs[0], pairs[2])
    parts = [one.bounds("c")[0][:101] for one in (discarded, plain)]
    np.testing.assert_allclose(*parts, atol=1e-9)
    trusting = told(make(domain, suspect_z=np.inf), *pairs)
    np.testing.assert_allclose(confirmed.bounds("c")[0], trusting.bounds("c")[0], atol=1e-9)
    for one in (confirmed, discarded):
        again = make(domain)
        again.load_state_dict(one.state_dict())
        assert again.ask().x.tolist() == one.ask().x.tolist() and again.log == one.log
    with pytest.raises(ValueError, match="id must be that of a trial with suspect values, none"):
        confirmed.confirm(1)


def test_three_suspects_in_a_row_are_a_wrong_model():
    optimizer = told(make(), (0.5, 1.5), (0.5, 6.0), (0.45, 6.5))
    optimizer.ask()
    told(optimizer, (0.55, 5.5))
    with pytest.raises(MiscalibratedModel, match="too many of the last values are impl"):
        optimizer.ask()
    assert "overconfident" in optimizer.calibration()["c"].verdict
    optimizer.acknowledge()
    optimizer.ask()


# ---- the verdict is read


def wavy(on_miscalibration="halt", count=40):
    """A function of lengthscale 0.03 or so, and a prior of lengthscale 0.2."""
    optimizer = make(on_miscalibration=on_miscalibration, suspect_z=np.inf)
    for x in np.linspace(0, 1, 101)[:: 101 // count]:
        optimizer.tell([x], np.cos(5 * x), {"c": 3.0 + 0.6 * np.sin(40 * x)})
    return optimizer


def test_asking_stops_where_the_values_speak_against_the_prior():
    optimizer = wavy()
    assert optimizer.calibration()["c"].is_overconfident
    message = r"the model of 'c' is overconfident.*\(a\) the lengthscale.*\(b\) the noise.*refit"
    for _ in range(2):
        with pytest.raises(MiscalibratedModel, match=message) as caught:
            optimizer.ask()
    assert caught.value.name == "c"
    assert [event.kind for event in optimizer.log].count("miscalibrated") == 1
    optimizer.acknowledge()
    assert optimizer.ask().probability_safe >= 0.99
    again = make(suspect_z=np.inf)
    again.load_state_dict(optimizer.state_dict())
    assert again.ask().index == optimizer.ask().index


def test_it_can_be_logged_instead():
    optimizer = wavy("log")
    optimizer.ask()
    assert optimizer.log[-1].kind == "miscalibrated"


@pytest.mark.parametrize("on_miscalibration", ["log", "halt"])
def test_the_log_names_the_tell_that_spoke_against_a_prior_whenever_it_is_read(on_miscalibration):
    def told(*, is_read):
        optimizer = make(on_miscalibration=on_miscalibration, suspect_z=np.inf)
        for place in range(0, 100, 3):
            optimizer.tell(row=place, objective=0.0, constraints={"c": 2.0 + place % 2})
            if is_read:
                optimizer.log  # noqa: B018
        for _ in range(40):  # what they tell makes up for it
            optimizer.tell(row=50, objective=0.0, constraints={"c": 2.0})
        return [event for event in optimizer.log if event.kind == "miscalibrated"]

    (read,), (unread,) = told(is_read=True), told(is_read=False)
    assert unread == read
    assert unread.trials < 34


def test_a_right_prior_is_hardly_ever_stopped():
    """Draws of the prior itself: 0.05 per output and run is the most, about 1 in 20 runs here."""
    rng, stopped = np.random.default_rng(0), 0
    K = tm.kernels.Gaussian(0.2).block(*[np_to_points(DOMAIN)] * 2).numpy()
    root = np.linalg.cholesky(K + 1e-9 * np.eye(101))
    for _ in range(20):
        f, c = root @ rng.normal(size=(101, 2)).T[0], 2 + root @ rng.normal(size=101)
        optimizer = tm.SafeOptimizer(
            DOMAIN,
            objective=prior(),
            constraints={"c": tm.Constraint(prior(mean=2.0), at_least=0.0)},
            on_violation="continue",
        )
        try:
            for _ in range(15):
                query = optimizer.ask()
                noise = 0.1 * rng.normal(size=2)
                optimizer.tell(query, f[query.index] + noise[0], {"c": c[query.index] + noise[1]})
        except MiscalibratedModel:
            stopped += 1
        except (tm.safebo.NoSafePoint, tm.targets.NoTargetsLeft):
            pass
    assert stopped <= 3


def np_to_points(x):
    import torch

    return torch.from_numpy(x)[:, None]


def test_evidence_is_carried_over_a_refit_and_nothing_is_reset():
    pytest.importorskip("gpytorch")
    optimizer = wavy()
    before = optimizer.calibration()["c"].evidence
    optimizer.refit()
    assert optimizer.calibration()["c"].evidence == pytest.approx(before, rel=1e-6)
    assert "overconfident" in optimizer.calibration()["c"].verdict
    optimizer.ask()  # the remedy was taken: only new evidence stops it again
    again = make(suspect_z=np.inf)
    again.load_state_dict(optimizer.state_dict())
    assert again.calibration()["c"].evidence == pytest.approx(before, rel=1e-6)


def test_log_ratios_are_those_of_all_values_together():
    from tellmost.safebo.calibration import examine
    from tellmost.safebo.outputs import Output

    rng, gp = np.random.default_rng(1), tm.GP(tm.kernels.Scaled(tm.kernels.Matern(2.5, 0.3), 4.0))
    X, y = rng.uniform(0, 1, (25, 1)), rng.normal(size=25)
    optimizer = tm.SafeOptimizer(tm.Box(0.0, 1.0), objective=gp, suspect_z=np.inf)
    for x, value in zip(X, y, strict=True):
        optimizer.tell(x, value)
        optimizer.calibration()
    points, noise = np_to_points(X[:, 0]), np.full(25, gp.noise_std**2)
    output = Output(("objective",), gp, 2.0, tm.kernels.Matern(2.5, 0.3))
    parts = [np_to_points(part)[:, 0] for part in (y, noise)]
    expected = examine(output, points, *parts)
    found = optimizer.calibration()["objective"]
    assert found.evidence == pytest.approx(expected.evidence, rel=1e-8)
    assert found.likeliest == expected.likeliest
