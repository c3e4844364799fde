"""The numbers of an experiment that are compared with the expected ones."""

from tellmost.numerics import AGREEING_ERRORS, REPRODUCED
from tellmost_reproduction.numbers import Numbers, Series, find_differences, read_expected, shorten
from tellmost_reproduction.safebo.records import MEASURES, Record

PACKAGE = "tellmost_reproduction.safebo"


def numbers_of(record: Record) -> Numbers:
    methods = {key: {name: _series(record, name, key) for name in MEASURES} for key in record.keys}
    return Numbers(record.counts, methods)


def _series(record: Record, name: str, key: str) -> Series:
    mean, error = record.mean(name, key)[record.counts], record.error(name, key)[record.counts]
    return Series([shorten(value) for value in mean], [shorten(value) for value in error])


def agrees(got: float, expected: float, error: float | None) -> bool:
    """A rounding that differs between machines can change a pick, and all that follow it."""
    return abs(got - expected) <= max(REPRODUCED * abs(expected), AGREEING_ERRORS * (error or 0.0))


def differences(got: Numbers, name: str) -> list[str]:
    found = find_differences(got, read_expected(PACKAGE, name), agrees=agrees)
    return [f"{name}: {difference}" for difference in found]
