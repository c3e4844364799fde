"""What is known of the outputs takes in trials, whole blocks of them together.

A trial that is taken in alone reads all that is kept of the rows. So a block of LEAST_BLOCK trials
is taken in together once it is full. Trials of a block that is not full yet are taken in one by
one, and once more with their block. What is believed thus follows from the trials, and not from
when it was asked for, to the last bit.
"""

from collections.abc import Mapping, Sequence

from tellmost.posterior.gp import Step
from tellmost.safebo.kept_rows import LEAST_BLOCK
from tellmost.safebo.outputs import Marked, OutputPosterior, OutputValue

Told = tuple[int, Mapping[int, OutputValue]]
"""The row of a trial, and its value of each output."""


class TrialBlocks:
    """The posteriors of all outputs, and the trials of the block that is not full yet."""

    def __init__(self, posteriors: Sequence[OutputPosterior]) -> None:
        self._posteriors = posteriors
        self._open: list[Told] = []
        self._marks: list[Marked] = []  # what was known before the open block

    def fill(self, told: Sequence[Told]) -> None:
        """Take in trials by their blocks."""
        if not self._open:
            self._mark()
        before, self._open = len(self._open), [*self._open, *told]
        whole = len(self._open) - len(self._open) % LEAST_BLOCK
        if whole:
            if before:
                for posterior, mark in zip(self._posteriors, self._marks, strict=True):
                    posterior.return_to(mark)
            for start in range(0, whole, LEAST_BLOCK):
                self.take_in(self._open[start : start + LEAST_BLOCK])
            told = self._open = self._open[whole:]
            self._mark()
        for one in told:
            self.take_in([one])

    def _mark(self) -> None:
        self._marks = [one.mark() for one in self._posteriors]

    def take_in(self, told: Sequence[Told]) -> None:
        """Take in one trial, or several together. Outputs share a tracker while they are alike."""
        for number, posterior in enumerate(self._posteriors):
            first = first_alike(self._posteriors, number)
            if any(_noise(values, first) != _noise(values, number) for _, values in told):
                posterior.part()
        steps: dict[int, Step] = {}  # of each tracker
        for number, posterior in enumerate(self._posteriors):
            first = first_alike(self._posteriors, number)
            own = [values[number] for _, values in told if number in values]
            if len(told) > 1:
                posterior.observe_together(own, is_first=first == number)
            elif own:
                steps[first] = posterior.observe(own[0], steps.get(first))


def _noise(values: Mapping[int, OutputValue], number: int) -> float | None:
    return values[number].noise_variance if number in values else None


def first_alike(posteriors: Sequence[OutputPosterior], number: int) -> int:
    """The first output whose variances are those of an output."""
    one = posteriors[number]
    return next((i for i in range(number) if one.varies_as(posteriors[i])), number)
