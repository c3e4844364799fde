"""The numbers of a run that are compared with the expected ones."""

from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.measures import MEASURES, measure
from tellmost_reproduction.gp.samples import Samples
from tellmost_reproduction.numbers import Numbers, Series, find_differences, read_expected, shorten

LOOKED_AT = (10, 25, 50, 100, 200, 300, 400, 500)
"""Numbers of observations after which results are written down."""

UNCOMPARED = frozenset({"rmse"})
"""Depends on y: two picks of equal gain that change places meet other errors."""


def observations(rounds: int) -> list[int]:
    return [count for count in LOOKED_AT if count < rounds] + [rounds]


def numbers_of(curves: Curves) -> Numbers:
    counts = observations(curves.size.rounds)
    methods = {
        method.key: {name: _series(curves, name, method.key, counts) for name in MEASURES}
        for method in curves.methods
    }
    return Numbers(counts, methods)


def _series(curves: Curves, name: str, key: str, counts: list[int]) -> Series:
    error = curves.error(name, key)
    return Series(
        [shorten(value) for value in curves.mean(name, key)[counts]],
        None if error is None else [shorten(value) for value in error[counts]],
    )


def numbers_of_samples(samples: Samples) -> Numbers:
    """What the last of the first picks leaves, and the share outside A: mirrored picks agree."""
    methods: dict[str, dict[str, Series]] = {}
    for key, by_setting in samples.picks.items():
        found = methods.setdefault(key, {})
        for name, picks in by_setting.items():
            known = measure(samples.settings[name], picks, range(1))
            found[f"{name}: share outside A"] = Series([samples.outside(key, name)], None)
            found[f"{name}: information"] = Series([shorten(known.information[-1])], None)
            found[f"{name}: mean_sd"] = Series([shorten(known.mean_sd[-1])], None)
    return Numbers([len(next(iter(samples.picks["itl"].values())))], methods)


def read_numbers(name: str) -> Numbers:
    return read_expected("tellmost_reproduction.gp", name)


def differences(got: Numbers, expected: Numbers) -> list[str]:
    return find_differences(got, expected, uncompared=UNCOMPARED)
