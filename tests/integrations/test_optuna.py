"""SafeSampler: what a study of Optuna remembers, and that nothing gets past what is safe."""

import json
import pickle
import time

import numpy as np
import pytest

import tellmost as tm
from tellmost.safebo.trials import Halted, NoSafePoint, RiskSpent

optuna = pytest.importorskip("optuna")
from optuna.distributions import FloatDistribution  # noqa: E402
from optuna.trial import TrialState, create_trial  # noqa: E402

from tellmost.integrations import optuna as field  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)

SPACE = tm.Box(
    {
        "power": tm.Parameter(0, 5, step=0.25, unit="W"),
        "gas": tm.Parameter(choices=["argon", "helium"]),
        "nozzle": tm.Parameter(fixed=0.8, unit="mm"),
    }
)
KERNEL = tm.kernels.Matern(2.5, lengthscale=SPACE.lengthscales({"power": 1.0, "gas": 2.0}))
SEED = {"power": 1.0, "gas": "argon"}
FAR = {"power": 5.0, "gas": "helium"}


def heat_prior():
    return tm.GP(KERNEL, noise_std=0.05)


def sampler(at_most=1.0, space=SPACE, **settings):
    heat = tm.Constraint(heat_prior(), at_most=at_most)
    given = {"safe_seed": [SEED], "confidence": 0.95, "patience": 0.3, **settings}
    objective = tm.GP(KERNEL, noise_std=0.05)
    return field.SafeSampler(space, objective=objective, constraints={"heat": heat}, **given)


def study_of(storage=None, direction="maximize", name="laser", **settings):
    return optuna.create_study(
        storage=storage,
        study_name=name,
        sampler=sampler(**settings),
        direction=direction,
        load_if_exists=True,
    )


def measure(setting):
    x, is_helium = setting["power"], setting["gas"] == "helium"
    return float(np.sin(x) + 0.2 * is_helium), {"heat": float(0.25 * x - 0.4 + 0.1 * is_helium)}


def run(study, rounds):
    for _ in range(rounds):
        (trial,) = field.ask(study)
        field.tell(study, trial, *measure(trial.params))


def optimizer(**settings):
    heat = tm.Constraint(heat_prior(), at_most=1.0)
    objective = tm.GP(KERNEL, noise_std=0.05)
    given = {"constraints": {"heat": heat}, "safe_seed": [SEED], "confidence": 0.95, **settings}
    return tm.SafeOptimizer(SPACE, objective=objective, **given)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_study_asks_for_what_the_optimizer_asks_for(direction):
    study, opt = study_of(direction=direction), optimizer(direction=direction)
    for _ in range(6):
        (trial,), query = field.ask(study), opt.ask()
        assert trial.params == query.parameters
        safety = trial.user_attrs["safety"]
        assert safety["purpose"] == query.purpose and safety["margins"] == query.lower
        assert safety["probability_safe"] == query.probability_safe
        low, high = safety["bounds"]["heat"]
        assert high == pytest.approx(1.0 - query.lower["heat"]) and low < high
        y, limits = measure(trial.params)
        field.tell(study, trial, y, limits)
        opt.tell(query, y, limits)


def test_several_machines_are_asked_for_as_if_the_others_had_answered():
    study, opt = study_of(), optimizer()
    run(study, 2)
    for one in study.trials:
        opt.tell(one.params, one.value, {"heat": one.user_attrs["heat"]})
    asked = [one.params for one in field.ask(study, 3)]
    waiting = []
    for params in asked:
        waiting.append(opt.ask(pending=waiting))
        assert params == waiting[-1].parameters
    assert len({json.dumps(one) for one in asked}) == 3


def test_what_was_told_first_counts_first_whatever_was_asked_first():
    study = study_of()
    run(study, 1)
    first, second = field.ask(study, 2)
    field.tell(study, second, *measure(second.params))
    again = optuna.load_study(study_name="laser", storage=study._storage, sampler=sampler())
    told = [one.x.tolist() for one in study.sampler.replay(study).optimizer.history]
    field.tell(study, first, *measure(first.params))
    after = [one.x.tolist() for one in again.sampler.replay(again).optimizer.history]
    assert after[:2] == told and len(after) == 3


def test_any_process_goes_on_where_the_last_one_stopped():
    study = study_of()
    run(study, 3)
    other = optuna.load_study(study_name="laser", storage=study._storage, sampler=sampler())
    run(other, 3)
    known, fresh = study.sampler.replay(study), sampler().replay(study)
    assert len(fresh.optimizer.history) == 6
    kept, made = known.optimizer.state_dict(), fresh.optimizer.state_dict()
    assert kept["journal"] == made["journal"]
    assert field.ask(study)[0].params == fresh.optimizer.ask().parameters


def test_optimize_tells_what_the_objective_sets():
    def objective(trial):
        setting = {
            "power": trial.suggest_float("power", 0, 5, step=0.25),
            "gas": trial.suggest_categorical("gas", ["argon", "helium"]),
        }
        assert trial.suggest_float("nozzle", 0.8, 0.8) == 0.8
        value, limits = measure(setting)
        trial.set_user_attr("heat", limits["heat"])
        return value

    study, same = study_of(), study_of(name="same")
    study.optimize(objective, n_trials=4)
    run(same, 4)
    assert [one.params for one in study.trials] == [one.params for one in same.trials]
    heats = [one.user_attrs["heat"] for one in study.trials]
    excess = [one.system_attrs["constraints"] for one in study.trials]
    assert excess == [[heat - 1.0] for heat in heats]
    assert [list(one.constraints.values()) for one in study.trials] == excess


@pytest.mark.parametrize(
    ("suggest", "message"),
    [
        (lambda t: t.suggest_float("power", 0, 4, step=0.25), "'power' was declared as"),
        (lambda t: t.suggest_float("power", 5, 5), "'power' was declared as"),
        (lambda t: t.suggest_int("power", 0, 5), "different distribution kind"),
        (lambda t: t.suggest_float("power", 0, 5), "'power' was declared as"),
        (lambda t: t.suggest_categorical("gas", ["argon"]), "dynamic value space"),
        (lambda t: t.suggest_float("speed", 0, 1), "'speed' is not a parameter of the space"),
        (lambda t: t.suggest_int("speed", 1, 1), "'speed' is not a parameter of the space"),
    ],
)
def test_other_parameters_and_ranges_are_refused(suggest, message):
    study = study_of()
    trial = study.ask()
    with pytest.raises(ValueError, match=message):
        suggest(trial)
    with pytest.raises(ValueError, match="speed"):
        study.ask({"speed": FloatDistribution(0, 1)})
    assert [one.number for one in study.trials if one.state == TrialState.RUNNING] in ([], [0])


def test_a_trial_that_is_asked_with_distributions_has_the_judged_values():
    study = study_of()
    trial = study.ask(study.sampler.space)
    assert trial.params == {**SEED, "nozzle": 0.8}


def test_enqueued_points_are_judged():
    study = study_of()
    run(study, 1)
    study.enqueue_trial(FAR)
    study.enqueue_trial({"power": 1.25, "gas": "argon"})
    with pytest.raises(field.UnsafePoint, match=r"is not known to be safe.*take the risk"):
        study.ask()
    trial = study.ask()
    assert trial.params == {"power": 1.25, "gas": "argon", "nozzle": 0.8}
    refused = study.trials[1]
    assert (
        refused.state == TrialState.FAIL
        and "is not known to be safe" in refused.user_attrs["reason"]
    )
    assert len(study.sampler.replay(study).optimizer.history) == 1  # it counts nowhere


@pytest.mark.parametrize(
    "wish",
    [{"power": 1.0}, {"power": 1.1, "gas": "argon"}, {**SEED, "x": 1}, {**SEED, "nozzle": 9}],
)
def test_enqueued_points_that_are_none_are_failed(wish):
    study = study_of()
    study.enqueue_trial(wish)
    with pytest.raises(field.UnsafePoint):
        study.ask()
    assert study.trials[0].state == TrialState.FAIL and study.trials[0].user_attrs["reason"]


def test_a_risk_that_somebody_takes_is_stated():
    study = study_of()
    study.enqueue_trial(FAR, user_attrs={"risk": True})
    (trial,) = field.ask(study)
    assert trial.params["power"] == 5.0 and trial.user_attrs["safety"]["purpose"] == "risk"


def test_a_refused_ask_raises_and_leaves_no_running_trial():
    study = study_of(safe_seed=None)
    with pytest.raises(NoSafePoint):
        study.ask()
    with pytest.raises(NoSafePoint):
        field.ask(study, 2)
    assert [one.state for one in study.trials] == [TrialState.FAIL] * 2


def test_a_violation_halts_all_workers_until_somebody_acknowledges_it():
    study, other = study_of(), None
    run(study, 2)
    other = optuna.load_study(study_name="laser", storage=study._storage, sampler=sampler())
    mine, theirs = field.ask(study)[0], field.ask(other)[0]
    field.tell(other, theirs, 0.1, {"heat": 1.9})
    for one in (study, other):
        with pytest.raises(Halted, match=f"by trial {theirs.number}"):
            field.ask(one)
        with pytest.raises(Halted):
            one.ask()
    field.tell(study, mine, *measure(mine.params))  # what runs may end
    assert field.status(study)["halted_by"] == [theirs.number]
    assert field.acknowledge(study, by="operator") == [theirs.number]
    assert not sampler().replay(study).optimizer.is_halted
    (again,) = field.ask(other)
    field.tell(other, again, 0.1, {"heat": 1.9})
    with pytest.raises(Halted, match=f"by trial {again.number}"):
        field.ask(study)


def test_a_violation_is_not_acknowledged_by_what_did_not_know_it():
    study = study_of()
    run(study, 1)
    early, late = field.ask(study, 2)
    field.tell(study, late, *measure(late.params))
    field.acknowledge(study)
    field.tell(study, early, 0.1, {"heat": 1.9})
    with pytest.raises(Halted):
        field.ask(study)


def test_failed_abandoned_and_violating_trials_are_three_things():
    study = study_of()
    run(study, 1)
    failed, lost, broken, cut = field.ask(study, 4)
    field.tell(study, failed, failed="the sensor was unplugged")
    field.abandon(study, lost, "the operator went home")
    field.tell(study, cut, constraints={"heat": 0.2})  # no objective
    field.tell(study, broken, None, {"heat": 1.7})
    now = field.status(study)
    assert now["failed"] == {failed.number: "the sensor was unplugged"}
    assert now["abandoned"] == {lost.number: "abandoned: the operator went home"}
    assert now["violated"] == [broken.number] and now["told"] == 4 and now["pending"] == []
    with pytest.raises(ValueError, match="was abandoned or refused"):
        field.tell(study, lost, 0.1, {"heat": 0.1})
    with pytest.raises(ValueError, match="finished already"):
        field.abandon(study, broken, "too late")


def test_to_tell_the_same_again_changes_nothing_and_something_else_is_refused():
    study = study_of()
    (trial,) = field.ask(study)
    for _ in range(2):
        field.tell(study, trial.number, 0.5, {"heat": 0.1})
    with pytest.raises(ValueError, match="what is stored is not changed"):
        field.tell(study, trial.number, 0.5, {"heat": 0.2})
    with pytest.raises(ValueError, match="what is stored is not changed"):
        field.tell(study, trial.number, failed="no")
    assert field.status(study)["told"] == 1 and study.trials[0].user_attrs["heat"] == 0.1


@pytest.mark.parametrize(
    ("objective", "limits", "message"),
    [
        (float("nan"), {"heat": 0.1}, "objective must be finite"),
        (0.1, {"heat": float("inf")}, "heat must be finite"),
        (0.1, {"heat": "warm"}, "heat must be a number"),
        (0.1, {"cold": 0.1}, "there is no constraint 'cold'"),
        (None, None, "must be given"),
    ],
)
def test_values_are_checked_before_they_are_stored(objective, limits, message):
    study = study_of()
    (trial,) = field.ask(study)
    with pytest.raises((ValueError, TypeError), match=message):
        field.tell(study, trial, objective, limits)
    found = study.trials[0]
    assert found.state == TrialState.RUNNING and "heat" not in found.user_attrs
    with pytest.raises(ValueError, match="must be one of the study, 0 to 0; got 7"):
        field.tell(study, 7, 0.1, {"heat": 0.1})


@pytest.mark.parametrize("value", [float("nan"), "hot", 1e300, True, [1.0]])
def test_what_others_stored_unchecked_never_stops_the_study(value):
    study = study_of()
    run(study, 1)
    before = int(study.sampler.replay(study).optimizer.safe_mask.sum())
    trial = study.ask()
    trial.set_user_attr("heat", value)
    study.tell(trial, 1e299 if value == 1e300 else 0.2)
    after = study.sampler.replay(study)
    assert trial.number in after.notes or after.optimizer.history[1].values.get("heat") is None
    assert int(after.optimizer.safe_mask.sum()) <= before + 5
    assert field.ask(study)[0].params


def test_measurements_from_before_count_and_those_from_elsewhere_do_not():
    study = study_of(safe_seed=None)
    for power in (0.5, 1.0, 99.0):
        params = {"power": power, "gas": "argon"}
        ranges = {"power": FloatDistribution(0, 100), "gas": study.sampler.space["gas"]}
        value, limits = measure(params)
        study.add_trial(
            create_trial(params=params, distributions=ranges, value=value, user_attrs=limits)
        )
    now = field.status(study)
    assert now["told"] == 2 and "99.0" in now["notes"][2]
    assert field.ask(study)[0].user_attrs["safety"]["rests_on"]["trials"] == 2


def test_settings_are_stored_in_the_study():
    study = study_of()
    run(study, 2)
    named = {"study_name": "laser", "storage": study._storage}
    other = optuna.load_study(**named, sampler=sampler(at_most=0.5))
    with pytest.raises(ValueError, match="its limits is"):
        other.ask()
    changed = optuna.load_study(**named, sampler=sampler(at_most=0.5, changed={"limits"}))
    field.ask(changed)
    with pytest.raises(ValueError, match="its limits is"):  # the old ones do not count any more
        study.ask()
    texts = [v for k, v in study.user_attrs.items() if k.startswith("tellmost:decision:changed")]
    assert "1.0" in texts[0]["texts"]["limits"] and "0.5" in texts[0]["texts"]["limits"]
    assert changed.sampler.replay(changed).optimizer.history[1].values


def test_a_deadline_abandons_what_nobody_tells():
    study = study_of(deadline=0.2)
    (late,) = field.ask(study)
    time.sleep(0.25)
    field.ask(study)
    now = field.status(study)
    assert "not told within 0.2 seconds" in now["abandoned"][late.number]
    assert [one["trial"] for one in now["pending"]] == [late.number + 1]


def test_an_ask_that_was_cut_short_is_undone_by_the_next():
    study, same = study_of(), study_of(name="same")
    run(study, 2)
    run(same, 2)
    storage = study._storage
    lost = storage.create_new_trial(study._study_id)  # a worker died here ...
    storage.set_trial_system_attr(lost, "tellmost:turn", 1)  # ... before it had a point
    begun = storage.create_new_trial(study._study_id)
    assert field.ask(study)[0].params == field.ask(same)[0].params
    time.sleep(0.35)
    field.ask(study)
    ended = [one for one in study.trials if one.number in (2, 3)]
    assert [one.state for one in ended] == [TrialState.FAIL] * 2 and begun == ended[1]._trial_id
    assert all("its worker ended" in one.user_attrs["reason"] for one in ended)


def test_a_horizon_counts_what_every_worker_was_given():
    study = study_of(horizon=4, confidence=0.9)
    opt = optimizer(horizon=4, confidence=0.9)
    other = optuna.load_study(
        study_name="laser", storage=study._storage, sampler=sampler(horizon=4, confidence=0.9)
    )
    for one in (study, other, study):
        (trial,), query = field.ask(one), opt.ask()
        assert trial.params == query.parameters
        field.tell(one, trial, *measure(trial.params))
        opt.tell(query, *measure(trial.params))
        assert field.status(other)["risk_spent"] == pytest.approx(opt.risk_spent)
    (lost,) = field.ask(study)
    spent = field.status(study)["risk_spent"]
    field.abandon(study, lost, "nobody came back")
    assert field.status(other)["risk_spent"] >= spent
    with pytest.raises(RiskSpent):
        field.ask(other)


def test_a_glitch_is_asked_for_again_and_can_be_discarded():
    study = study_of()
    run(study, 4)
    (trial,) = field.ask(study)
    value, limits = measure(trial.params)
    field.tell(study, trial, value + 40.0, limits)
    assert list(field.status(study)["suspect"]) == [trial.number]
    (again,) = field.ask(study)
    assert again.params == trial.params
    assert again.user_attrs["safety"]["purpose"] == "repeat"
    field.decide(study, trial.number, "discarded")
    assert field.status(in_another_process(study))["suspect"] == {}
    with pytest.raises(ValueError, match="has no suspect values"):
        field.decide(study, 0, "confirmed")
    field.decide(study, 0, "retracted")
    assert field.status(study)["told"] == 4


def in_another_process(study):
    """The same study in another process."""
    return optuna.load_study(study_name="laser", storage=study._storage, sampler=sampler())


def test_the_best_safe_trial_is_not_the_luckiest():
    study = study_of()
    run(study, 6)
    best = field.best_safe_trial(study)
    opt = study.sampler.replay(study).optimizer
    lower, _ = opt.bounds("objective", np.stack([one.x for one in opt.history]))
    assert best.number == int(lower.argmax())  # all of them are safe
    study.enqueue_trial({"power": 4.75, "gas": "argon"}, user_attrs={"risk": True})
    (lucky,) = field.ask(study)
    field.tell(study, lucky, 3.0, {"heat": 0.99})
    field.acknowledge(study)
    assert field.best_safe_trial(study).number != lucky.number
    assert study.best_trial.number == lucky.number
    assert field.best_safe_trial(study_of(name="new")) is None


def test_what_is_no_study_for_a_safe_sampler_is_refused():
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler())
    with pytest.raises(ValueError, match="for one objective; the study has 2"):
        study.ask()
    with pytest.raises(TypeError, match="must have a SafeSampler; got TPESampler"):
        field.ask(optuna.create_study(sampler=optuna.samplers.TPESampler()))
    with pytest.raises(TypeError, match=r"'mode' must be .* What exists only under a condition"):
        sampler(space={"mode": {"if": "a"}})
    with pytest.raises(TypeError, match="parameters with names"):
        sampler(space=tm.Box(0, 1))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(sampler())
    heat = tm.Constraint(heat_prior(), at_most=1.0)
    with pytest.raises(ValueError, match="must not have the name of a parameter"):
        field.SafeSampler(SPACE, objective=tm.GP(KERNEL), constraints={"gas": heat})


def test_distributions_of_optuna_become_parameters():
    space = {
        "power": FloatDistribution(0, 5, step=0.25),
        "gas": optuna.distributions.CategoricalDistribution(["argon", "helium"]),
        "nozzle": FloatDistribution(0.8, 0.8),
        "count": optuna.distributions.IntDistribution(1, 9),
    }
    kernel = tm.kernels.Matern(2.5, lengthscale=2.0)
    made = field.SafeSampler(space, objective=tm.GP(kernel))
    assert made.space == space and made.box.names == ("power", "gas=argon", "gas=helium", "count")
