"""A laser that cuts: power, speed and gas are tuned for quality, and two limits must hold.

The lens must stay below 80 °C, and the laser must not reflect more than 6 % into itself. Ten
measurements are known. Two machines cut, an operator writes down results hours later, a sensor
glitches, the control computer restarts, and once a dirty lens breaks a limit.

    python examples/laser.py laser.db
"""

import sys
from pathlib import Path

import numpy as np
import optuna

import tellmost as tm
from tellmost.integrations import optuna as field

SPACE = tm.Box(
    {
        "power": tm.Parameter(5, 50, log=True, unit="W"),
        "speed": tm.Parameter(20, 200, step=10, unit="mm/s"),
        "gas": tm.Parameter(choices=["argon", "nitrogen"]),
        "nozzle": tm.Parameter(fixed=0.8, unit="mm"),
    }
)
NOISE = {"quality": 0.02, "lens": 0.5, "reflected": 0.1}
KNOWN = [  # ten settings that were cut before
    *({"power": p, "speed": v, "gas": "argon"} for p in (5.0, 8.0, 12.0) for v in (60, 100, 140)),
    {"power": 8.0, "speed": 100, "gas": "nitrogen"},
]


class Laser:
    """What the real machine would do. Nobody knows this function."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def cut(self, power, speed, gas, nozzle=0.8, dirt=0.0):
        """Quality, temperature of the lens, and reflected power, each measured with noise."""
        energy, is_nitrogen = power / speed, gas == "nitrogen"
        quality = np.exp(-(np.log(energy / 0.22) ** 2) / 0.8) + 0.1 * is_nitrogen
        lens = 25 + 1.1 * power + 0.02 * speed + dirt
        reflected = 2.0 + 3.0 * np.exp(-power / 15) + 0.008 * speed - 0.4 * is_nitrogen
        made = {"quality": quality, "lens": lens, "reflected": reflected}
        return {name: float(y + NOISE[name] * self.rng.normal()) for name, y in made.items()}


def prior(name, mean, scale):
    """What is believed before: how fast an output changes, and how far it lies from its mean."""
    each = SPACE.lengthscales({"power": 0.35, "speed": 80.0, "gas": 2.0})
    kernel = tm.kernels.Scaled(tm.kernels.Matern(2.5, lengthscale=each), scale**2)
    return tm.GP(kernel, mean=mean, noise_std=NOISE[name])


def make_sampler():
    """The same in every process: a study refuses a sampler with other settings."""
    return field.SafeSampler(
        SPACE,
        objective=prior("quality", mean=0.5, scale=0.5),
        constraints={
            "lens": tm.Constraint(prior("lens", mean=50, scale=20), at_most=80.0),
            "reflected": tm.Constraint(prior("reflected", mean=4, scale=1.5), at_most=6.0),
        },
        safe_seed=KNOWN[4],
        confidence=0.99,
    )


def open_study(path):
    """What any process does that has the path: the operator's, the machine's, yours."""
    return optuna.create_study(
        study_name="laser",
        storage=field.open_storage(str(path)),
        sampler=make_sampler(),
        direction="maximize",
        load_if_exists=True,
    )


def write_down_what_is_known(study, laser):
    """Measurements from before are trials like others."""
    for setting in KNOWN:
        measured = laser.cut(**setting)
        quality = measured.pop("quality")
        params = {**setting, "nozzle": 0.8}
        known = optuna.trial.create_trial(
            params=params,
            distributions=study.sampler.space,
            value=quality,
            user_attrs=measured,
        )
        study.add_trial(known)


def cut_and_tell(study, trial, laser, **disturbed):
    measured = laser.cut(**trial.params, **disturbed)
    field.tell(study, trial, measured.pop("quality"), measured)


def glitch(study, laser):
    """A sensor reads far too low once. The point is asked for again, and agrees with the rest."""
    (trial,) = field.ask(study)
    measured = laser.cut(**trial.params)
    quality, measured["lens"] = measured.pop("quality"), -40.0
    field.tell(study, trial, quality, measured)
    print("suspect:", *field.status(study)["suspect"].values())
    (again,) = field.ask(study)
    print("asked for again:", again.params == trial.params)
    cut_and_tell(study, again, laser)
    field.decide(study, trial.number, "discarded")


def main(path):
    laser, study = Laser(), open_study(path)
    write_down_what_is_known(study, laser)
    print("known:", field.status(study)["told"], "measurements")

    for _ in range(2):  # two machines at a time; the second is told after the next are asked for
        first, second = field.ask(study, 2)
        cut_and_tell(study, first, laser)
        cut_and_tell(study, second, laser)
    (late,) = field.ask(study)  # the operator goes home; this one is told tomorrow
    (trial,) = field.ask(study)
    cut_and_tell(study, trial, laser)

    study = open_study(path)  # the control computer restarts, and loses nothing
    waiting = field.status(study)["pending"]
    print("waiting for the operator: trial", waiting[0]["trial"], waiting[0]["parameters"])
    cut_and_tell(study, late, laser)

    glitch(study, laser)

    (trial,) = field.ask(study)  # the lens is dirty
    cut_and_tell(study, trial, laser, dirt=60.0)
    try:
        field.ask(study)
    except tm.safebo.Halted as halted:
        print("halted:", halted)
    field.decide(study, trial.number, "retracted")  # it says nothing about a clean lens
    field.acknowledge(study, at=KNOWN[4], by="operator, lens cleaned")

    for _ in range(3):
        (trial,) = field.ask(study)
        cut_and_tell(study, trial, laser)
    best = field.best_safe_trial(study)
    print("best for sure: trial", best.number, best.params, round(best.value, 2))
    return study


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "laser.db"))
