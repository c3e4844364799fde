"""The numbers of an experiment, and whether they are the expected ones."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from tellmost_reproduction.frame.verdicts import Verdict

REPRODUCED = 1e-3
"""The share by which a number of an experiment may differ from the expected one. With other
products of matrices two picks changed places and numbers moved by 3e-9. A pick that goes elsewhere
among nearly equal ones moves them by more, and another rule by far more."""

AGREEING_ERRORS = 3.0
"""The standard errors by which a mean over seeds may differ from the expected one where the picks
depend on what was measured: if rounding moves one pick, all that follow it change."""

Agrees = Callable[[float, float, float | None], bool]
"""Whether a mean is the expected one, given the expected one and its standard error."""


@dataclass(frozen=True)
class Series:
    """Means after each number of observations. There is no error if all seeds agree."""

    mean: list[float]
    standard_error: list[float] | None

    @classmethod
    def of(cls, mean: Iterable[float], error: Iterable[float] | None) -> "Series":
        """Keep eight digits of each."""
        return cls(shorten(mean), None if error is None else shorten(error))


def shorten(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.8g}") for value in values]


@dataclass(frozen=True)
class Numbers:
    """A series for each method and measure, and what they say of the claims."""

    observations: list[int]
    methods: dict[str, dict[str, Series]]
    verdicts: list[Verdict] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Numbers":
        methods = {
            key: {name: Series(**series) for name, series in measured.items()}
            for key, measured in given["methods"].items()
        }
        verdicts = [Verdict(**verdict) for verdict in given["verdicts"]]
        return cls(given["observations"], methods, verdicts)


def read_expected(subject: str, name: str) -> Numbers:
    """Read the numbers that are shipped with the package."""
    package = Path(str(files("tellmost_reproduction")))
    return read_numbers(package / subject / "expected" / f"{name}.json")


def read_numbers(path: Path) -> Numbers:
    return Numbers.from_dict(json.loads(path.read_text(encoding="utf-8")))


def is_reproduced(got: float, expected: float, error: float | None) -> bool:
    """Compare by the stated share, whatever the error."""
    return abs(got - expected) <= REPRODUCED * abs(expected)


def agrees_within_errors(got: float, expected: float, error: float | None) -> bool:
    """Compare by the share or by the standard error, whichever allows more."""
    return abs(got - expected) <= max(REPRODUCED * abs(expected), AGREEING_ERRORS * (error or 0.0))


def find_differences(
    got: Numbers,
    expected: Numbers,
    *,
    uncompared: Collection[str] = (),
    agrees: Agrees = is_reproduced,
) -> list[str]:
    """Tell where a mean is not as expected. Methods that are not expected are the user's own.

    ``uncompared`` names methods and measures.
    """
    if got.observations != expected.observations:
        return [f"observations {got.observations} in the place of {expected.observations}"]
    found = []
    for key, measured in expected.methods.items():
        for name, series in measured.items():
            if key in uncompared or name in uncompared:
                continue
            ours = got.methods.get(key, {}).get(name)
            found += (
                [f"{key}, {name}: missing"]
                if ours is None
                else _compare(f"{key}, {name}", got.observations, ours, series, agrees)
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
