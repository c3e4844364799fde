"""Means with their standard errors, when a difference is one, and numbers as people write them."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tellmost.shapes import Float

LEVEL = 0.05  # a difference counts if chance makes one as large in fewer cases than this share


def t_tail(t: float, freedom: int) -> float:
    r"""The chance that Student's t is as far from 0, for a whole number of degrees of freedom.

    With :math:`\cos^2\theta = \nu / (\nu + t^2)` it is one less a finite series in powers of
    :math:`\cos^2\theta` (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    """
    theta, is_odd = np.arctan(abs(t) / np.sqrt(freedom)), freedom % 2
    j = 2.0 * np.arange(1, freedom // 2)
    powers = np.cumprod((j - 1 + is_odd) / (j + is_odd) * np.cos(theta) ** 2)
    inside = np.sin(theta) * (1.0 + powers.sum())
    if is_odd:
        inside = 2 / np.pi * (theta + (inside * np.cos(theta) if freedom > 1 else 0.0))
    return max(1.0 - float(inside), 0.0)


def count_together(chances: Mapping[str, float]) -> set[str]:
    """The names whose differences count when several are looked at together.

    The smallest chance is multiplied by the number of names, the next one by one less, and so on
    until one is above 5%. Then the chance that any of them is wrong is at most 5% (Holm 1979).
    """
    counted: set[str] = set()
    for left, name in zip(
        range(len(chances), 0, -1), sorted(chances, key=lambda name: chances[name]), strict=True
    ):
        if chances[name] * left >= LEVEL:
            break
        counted.add(name)
    return counted


@dataclass(frozen=True)
class Mean:
    """A mean of several values, and its standard error, which a single value does not have."""

    value: float
    error: float | None
    count: int

    @classmethod
    def of(cls, values: np.ndarray) -> "Mean":
        count = len(values)
        error = float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else None
        return cls(float(np.mean(values)), error, count)

    @classmethod
    def over_runs_and_targets(cls, values: Float[np.ndarray, "runs targets"]) -> "Mean":
        """The mean of values that vary with the run and with the target, both of them draws.

        Runs choose from overlapping halves of one pool and are asked about some of the same
        targets (NaN for the others), so they are alike. Their spread alone says too little about
        the mean for other targets. So the spread over targets is added, with the degrees of
        freedom of Satterthwaite 1946.
        """
        means = np.nanmean(values, axis=1), np.nanmean(values, axis=0)
        runs, targets = map(cls.of, means)
        if runs.error is None or targets.error is None:
            return cls(runs.value, None, min(runs.count, targets.count))
        parts = [(one.error or 0.0, one.count - 1) for one in (runs, targets)]
        error = float(np.hypot(runs.error, targets.error))
        if error == 0:
            return cls(runs.value, error, min(runs.count, targets.count))
        freedom = error**4 / sum(part**4 / count for part, count in parts)
        return cls(runs.value, error, int(freedom) + 1)

    @property
    def chance(self) -> float:
        """How often a mean as far from zero would come about if the truth were zero."""
        if self.error is None or self.value == 0:
            return 1.0
        return 0.0 if self.error == 0 else t_tail(self.value / self.error, self.count - 1)

    @property
    def sign(self) -> int:
        """1 or -1 if the mean differs from zero at 95%, and 0 otherwise."""
        return int(np.sign(self.value)) if self.chance < LEVEL else 0

    def to_dict(self) -> dict[str, float | int | None]:
        return {"mean": self.value, "standard_error": self.error, "count": self.count}

    def text(self, scale: float = 1.0, digits: int = 1) -> str:
        """The mean and its error, such as 12.3 ± 1.1, or the mean alone if there is no error."""
        mean = f"{scale * self.value:.{digits}f}"
        return mean if self.error is None else f"{mean} ± {scale * self.error:.{digits}f}"


def ranks(values: np.ndarray) -> np.ndarray:
    """The places of the values in ascending order. Equal values share the mean of their places."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[inverse]


def rank_correlation(x: np.ndarray, y: np.ndarray) -> Mean:
    """Spearman's correlation, 0 if either is constant. Its error is that without any relation."""
    a, b = (ranks(values) - (len(values) + 1) / 2 for values in (x, y))
    length = float(np.sqrt((a @ a) * (b @ b)))
    value = float(a @ b) / length if length > 0 else 0.0
    return Mean(value, 1 / np.sqrt(len(x) - 1) if len(x) > 1 else None, len(x))


COLUMNS = 80


def percent(share: float) -> str:
    """0.1234 is 12.3%. Only nothing is 0.0%, and only everything is 100.0%."""
    text = f"{100 * share:.1f}%"
    if text == "0.0%" and share > 0:
        return "below 0.1%"
    if text == "100.0%" and share < 1:
        return "above 99.9%"
    return text


def number(value: float) -> str:
    """A number with three digits, or with all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def count_of(count: int, one: str, several: str) -> str:
    """A count with the right word, such as "1 row is" and "2 rows are"."""
    return f"{count:,} {one if count == 1 else several}"


def joined_by_and(words: Sequence[str]) -> str:
    """Words as a list, such as "5", "5 and 10", "5, 10 and 20"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def paragraph(text: str, first: str = "", indent: int = 0) -> str:
    """Text in lines of 80 columns. The first begins with ``first``, the others are indented."""
    return textwrap.fill(
        text, COLUMNS, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def entry(name: str, text: str, width: int) -> str:
    """A name with a text beside it."""
    return paragraph(text, f"{name:<{width}}", width)


def bullet(text: str) -> str:
    return paragraph(text, "- ", 2)
