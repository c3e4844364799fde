"""The numbers of an experiment, and whether they are the expected ones."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from tellmost.numerics import REPRODUCED

Agrees = Callable[[float, float, float | None], bool]
"""Whether a mean is the expected one, for all that its expected standard error says."""


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


def shorten(value: float) -> float:
    return float(f"{value:.8g}")


def read_expected(package: str, name: str) -> Numbers:
    """As committed, and shipped with a package of experiments."""
    path = files(package) / "expected" / f"{name}.json"
    return Numbers.from_dict(json.loads(path.read_text(encoding="utf-8")))


def is_reproduced(got: float, expected: float, error: float | None) -> bool:
    """Within the stated share, whatever the error."""
    return abs(got - expected) <= REPRODUCED * abs(expected)


def find_differences(
    got: Numbers,
    expected: Numbers,
    *,
    uncompared: Collection[str] = (),
    agrees: Agrees = is_reproduced,
) -> list[str]:
    """Where a mean is not as expected; methods that are not expected are the user's own."""
    if got.observations != expected.observations:
        return [f"observations {got.observations} in the place of {expected.observations}"]
    found = []
    for key, measured in expected.methods.items():
        for name in (name for name in measured if name not in uncompared):
            ours = got.methods.get(key, {}).get(name)
            found += (
                [f"{key}, {name}: missing"]
                if ours is None
                else _compare(f"{key}, {name}", got.observations, ours, measured[name], agrees)
            )
    return found


def _compare(
    what: str, counts: list[int], ours: Series, theirs: Series, agrees: Agrees
) -> list[str]:
    errors: Sequence[float | None] = theirs.standard_error or [None] * len(counts)
    return [
        f"{what} after {count} observations: {one:.6g}, expected {other:.6g}"
        for count, one, other, error in zip(counts, ours.mean, theirs.mean, errors, strict=True)
        if not agrees(one, other, error)
    ]
