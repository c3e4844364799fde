"""The numbers of an experiment that another run should come to, within its standard errors."""

from tellmost_reproduction.networks.curves import MEASURES, Curves
from tellmost_reproduction.networks.tables import counts_for, shown
from tellmost_reproduction.numbers import Numbers, Series, shorten

AGREEING_TRAININGS = 4.0
"""Standard errors within which a mean over the seeds of a network experiment is the expected one:
chance alone puts few of a hundred means so far off. Two runs on GPUs are not bit-equal, and
training amplifies the difference."""

LEAST_ERROR = 1e-3
"""Of an accuracy, where a standard error is smaller because the seeds happened to agree: a test
image of a thousand."""


def numbers_of(curves: Curves) -> Numbers:
    """By configuration; observations are places in the tables, whose labels differ by dataset."""
    methods = {
        one.name: {measure: _series(curves, measure, one.name, counts) for measure in MEASURES}
        for dataset in curves.experiment.datasets
        if shown(curves, dataset)
        for counts in [counts_for(curves, dataset)]
        for one in shown(curves, dataset)
    }
    lengths = {len(series.mean) for measured in methods.values() for series in measured.values()}
    return Numbers(list(range(1, max(lengths, default=0) + 1)), methods)


def _series(curves: Curves, measure: str, name: str, counts: list[int]) -> Series:
    means = [curves.mean_at(measure, name, count) for count in counts]
    return Series(
        [shorten(mean.value) for mean in means],
        None if means[0].error is None else [shorten(mean.error or 0.0) for mean in means],
    )


def is_near(got: float, expected: float, error: float | None) -> bool:
    """GPUs add in no fixed order and networks amplify it, so that runs agree by their errors."""
    return error is None or abs(got - expected) <= AGREEING_TRAININGS * max(error, LEAST_ERROR)
