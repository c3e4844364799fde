"""The numbers of a run that can be compared with those of another: means and standard errors."""

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from sightline.experiments.gp.curves import Curves
from sightline.experiments.gp.measures import MEASURES, measure
from sightline.experiments.gp.samples import Samples
from sightline.numerics import REPRODUCED

LOOKED_AT = (10, 25, 50, 100, 200, 300, 400, 500)
"""Numbers of observations after which results are written down."""

UNCOMPARED = frozenset({"rmse"})
"""Depends on y: two picks of equal gain that change places meet other errors."""


@dataclass(frozen=True)
class Series:
    """After each number of observations; no error where all seeds have the same curve."""

    mean: list[float]
    standard_error: list[float] | None


@dataclass(frozen=True)
class Numbers:
    """By method, then by what is measured."""

    observations: list[int]
    methods: dict[str, dict[str, Series]]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Numbers":
        methods = {
            key: {name: Series(**series) for name, series in measured.items()}
            for key, measured in given["methods"].items()
        }
        return cls(given["observations"], methods)


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
        [_short(value) for value in curves.mean(name, key)[counts]],
        None if error is None else [_short(value) for value in error[counts]],
    )


def _short(value: float) -> float:
    return float(f"{value:.8g}")


def numbers_of_samples(samples: Samples) -> Numbers:
    """What the last of the first picks leaves, and the share outside A: mirrored picks agree."""
    methods: dict[str, dict[str, Series]] = {}
    for key, by_setting in samples.picks.items():
        found = methods.setdefault(key, {})
        for name, picks in by_setting.items():
            known = measure(samples.settings[name], picks, range(1))
            found[f"{name}: share outside A"] = Series([samples.outside(key, name)], None)
            found[f"{name}: information"] = Series([_short(known.information[-1])], None)
            found[f"{name}: mean_sd"] = Series([_short(known.mean_sd[-1])], None)
    return Numbers([len(next(iter(samples.picks["itl"].values())))], methods)


def read_expected(name: str) -> Numbers:
    """As committed, and shipped with the package."""
    path = files("sightline.experiments.gp") / "expected" / f"{name}.json"
    return Numbers.from_dict(json.loads(path.read_text(encoding="utf-8")))


def find_differences(got: Numbers, expected: Numbers) -> list[str]:
    """Where a mean is not within the stated share of the expected one; the user's own aside."""
    if got.observations != expected.observations:
        return [f"observations {got.observations} in the place of {expected.observations}"]
    found = []
    for key, measured in expected.methods.items():
        for name, series in measured.items():
            if name in UNCOMPARED:
                continue
            ours = got.methods.get(key, {}).get(name)
            found += (
                [f"{key}, {name}: missing"]
                if ours is None
                else _compare(f"{key}, {name}", got.observations, ours.mean, series.mean)
            )
    return found


def _compare(what: str, counts: list[int], ours: list[float], theirs: list[float]) -> list[str]:
    return [
        f"{what} after {count} observations: {one:.6g}, expected {other:.6g}"
        for count, one, other in zip(counts, ours, theirs, strict=True)
        if not abs(one - other) <= REPRODUCED * abs(other)
    ]
