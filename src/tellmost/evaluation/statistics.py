"""Means with their standard errors, when a difference is one, and numbers as people write them."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.shapes import Float

if TYPE_CHECKING:
    import pandas

T_95 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157),
    *(2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922),
    *(2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831),
    *(2.048407, 2.045230, 2.042272),
)
"""A difference counts if it has so many standard errors: Student's t, two-sided at 95%, with 1 to
30 degrees of freedom."""

Z_95 = 1.959964
"""The same quantile of the normal distribution."""


def t_quantile(freedom: int) -> float:
    """Student's t, two-sided at 95%, expanded about the normal quantile from 31 degrees on."""
    if freedom <= len(T_95):
        return T_95[freedom - 1]
    z = Z_95
    first = (z**3 + z) / (4 * freedom)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return z + first + second


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

        Runs choose from overlapping halves of one pool and are asked about the same targets, so
        they are alike. Their spread alone says too little about the mean for other targets. So the
        spread over targets is added, with the degrees of freedom of Satterthwaite 1946.
        """
        runs, targets = cls.of(values.mean(axis=1)), cls.of(values.mean(axis=0))
        if runs.error is None or targets.error is None:
            return cls(runs.value, None, min(runs.count, targets.count))
        parts = [(one.error or 0.0, one.count - 1) for one in (runs, targets)]
        error = float(np.hypot(runs.error, targets.error))
        if error == 0:
            return cls(runs.value, error, min(runs.count, targets.count))
        freedom = error**4 / sum(part**4 / count for part, count in parts)
        return cls(runs.value, error, int(freedom) + 1)

    @property
    def sign(self) -> int:
        """1 or -1 if the mean differs from zero at 95%, and 0 otherwise."""
        if self.error is None or abs(self.value) <= t_quantile(self.count - 1) * self.error:
            return 0
        return 1 if self.value > 0 else -1

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
        text,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )


def entry(name: str, text: str, width: int) -> str:
    """A name with a text beside it."""
    return paragraph(text, f"{name:<{width}}", width)


def bullet(text: str) -> str:
    return paragraph(text, "- ", 2)


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], paragraphs: Sequence[str]
) -> str:
    """A small table for a notebook, with paragraphs below it. Everything is escaped."""
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    said = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>{said}"


def make_frame(records: list[dict[str, Any]]) -> "pandas.DataFrame":
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame() needs pandas; pip install 'tellmost[frame]'.") from error
    return pandas.DataFrame(records)
