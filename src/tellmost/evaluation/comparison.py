"""The result of a comparison: the numbers, and a verdict in plain words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.evaluation.statistics import (
    Mean,
    html_table,
    joined_by_and,
    make_frame,
    number,
    paragraph,
    percent,
)

if TYPE_CHECKING:
    import pandas

COLUMNS_PER_TABLE = 4
VERDICTS = {1: "better", 0: "no better", -1: "worse"}


@dataclass(frozen=True)
class Measurement:
    """The scores of a probe for each method, as (runs, budgets, targets), if there are labels."""

    measure: str  # accuracy, or R²
    unit: str  # of a difference
    in_unit: float  # a score of one, in this unit
    scores: Mapping[str, np.ndarray]
    labels: str  # classes or numbers, and how that was decided
    strangers: int  # classes of the pool that no target has
    spread: float | None  # variance of the targets' numbers

    @property
    def digits(self) -> int:
        return 1 if self.in_unit == 100.0 else 3

    def rmse(self, method: str) -> list[float]:
        """The root mean squared error at each budget, in the mean over the runs."""
        assert self.spread is not None
        left = 1 - self.scores[method].mean(axis=2)
        return np.sqrt(left * self.spread).mean(axis=0).tolist()


@dataclass(frozen=True, repr=False)
class Comparison:
    """A rule beside other methods, at several budgets. The rule comes first."""

    rule: str
    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    seeds: int
    rows: int
    candidates: int  # of each run: half of the rows where there are labels
    targets: int
    variance_before: float
    variance: Mapping[str, np.ndarray]  # mean target variance: (runs, budgets) for each method
    measured: Measurement | None  # None without labels
    settings: Mapping[str, Any]

    @property
    def is_circular(self) -> bool:
        """Without labels there is only target variance, which the rule may minimise itself."""
        return self.measured is None

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.methods if name != self.rule)

    def score(self, method: str, budget: int) -> Mean:
        """The probe's score. Larger is better."""
        at = self.budgets.index(budget)
        return Mean.of(self._measured.scores[method][:, at].mean(axis=1))

    def target_variance(self, method: str, budget: int) -> Mean:
        return Mean.of(self.variance[method][:, self.budgets.index(budget)])

    def difference(self, other: str, budget: int | None = None) -> Mean:
        """The rule's mean score less that of another method on the same candidates.

        Its error counts what other candidates and what other targets would change.
        """
        at = self.budgets.index(self.budgets[-1] if budget is None else budget)
        scores = self._measured.scores
        return Mean.over_runs_and_targets(scores[self.rule][:, at] - scores[other][:, at])

    @property
    def best_other(self) -> str:
        """The other method with the best mean score at the largest budget."""
        return max(self.others, key=lambda name: self.score(name, self.budgets[-1]).value)

    @property
    def _measured(self) -> Measurement:
        if self.measured is None:
            raise ValueError("there are no scores: compare was called without labels.")
        return self.measured

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return " ".join(self._circular_sentences())
        best = self.best_other
        said = [self._versus("random", "random")] if "random" in self.others else []
        if best != "random":
            said.append(self._versus(best, f"the best other method, {best},"))
        return " ".join(said)

    def _circular_sentences(self) -> Iterator[str]:
        k = self.budgets[-1]
        if self.variance_before > 0:
            left = [
                f"{name} {percent(self.target_variance(name, k).value / self.variance_before)}"
                for name in self.methods
            ]
            yield f"Target variance left after {k:,} picks: {', '.join(left)}."
        yield "Whether the picks are better for a task cannot be told without labels."

    def _versus(self, other: str, words: str) -> str:
        gap, of = self.difference(other), self._measured
        at = f"({of.measure} after {self.budgets[-1]:,} picks)"
        verdict = f"{self.rule} is {VERDICTS[gap.sign]} than {words} here"
        if gap.sign != 0:
            size = Mean(abs(gap.value), gap.error, gap.count).text(of.in_unit, of.digits)
            verdict += f" by {size} {of.unit}"
        elif gap.value == 0:
            verdict += ": they are equal in the mean"
        else:
            signed = gap.text(of.in_unit, of.digits)
            verdict += (
                f": the difference, {signed} {of.unit}, may be chance; more seeds would tell"
            )
        return f"{verdict} {at}.{self._with_fewer(other, gap.sign)}"

    def _with_fewer(self, other: str, sign: int) -> str:
        """Say where fewer picks lead to another verdict."""
        told: dict[str, list[str]] = {name: [] for name in VERDICTS.values()}
        for budget in self.budgets[:-1]:
            one = self.difference(other, budget).sign
            if one != sign:
                told[VERDICTS[one]].append(f"{budget:,}")
        parts = [
            f"it is {name} after {joined_by_and(some)} picks"
            for name, some in told.items()
            if some
        ]
        return f" With fewer, {', and '.join(parts)}." if parts else ""

    def describe(self) -> str:
        """The comparison as text for a terminal: tables, the verdict and how it was found."""
        parts = [self._headline(), *self._tables(), paragraph(self.verdict)]
        return "\n\n".join([*parts, *map(paragraph, self._notes())])

    __repr__ = describe

    def _repr_html_(self) -> str:
        """The comparison as a table for a notebook."""
        head = ["picks", *(f"{budget:,}" for budget in self.budgets)]
        rows = [[name, *(self._cell(name, k) for k in self.budgets)] for name in self.methods]
        return html_table(head, rows, [self._headline(), self.verdict])

    def _headline(self) -> str:
        if self.measured is None:
            return paragraph(
                f"CIRCULAR: mean variance of the {self.targets:,} targets under the model that "
                f"does the choosing. VTL minimises it by construction, so a low value is no proof "
                f"of good picks. Give labels and target_labels for one."
            )
        scale = " in percent" if self.measured.in_unit == 100.0 else ""
        return paragraph(
            f"{self.measured.measure.capitalize()}{scale} of a linear probe on the "
            f"{self.targets:,} targets, taught with the labels of the picks: mean ± standard "
            f"error over {self.seeds} runs."
        )

    def _tables(self) -> Iterator[str]:
        for start in range(0, len(self.budgets), COLUMNS_PER_TABLE):
            some = self.budgets[start : start + COLUMNS_PER_TABLE]
            width = max(map(len, (*self.methods, "picks"))) + 1
            lines = [f"{'picks':<{width}}" + "".join(f"{k:>16,}" for k in some)]
            for name in self.methods:
                cells = "".join(f"{self._cell(name, k):>16}" for k in some)
                lines.append(f"{name:<{width}}{cells}")
            yield "\n".join(lines)

    def _cell(self, name: str, budget: int) -> str:
        if self.measured is not None:
            return self.score(name, budget).text(self.measured.in_unit, self.measured.digits)
        left = self.target_variance(name, budget)
        error = "" if left.error is None else f" ± {number(left.error)}"
        return f"{number(left.value)}{error}"

    def _notes(self) -> Iterator[str]:
        if self.measured is None:
            yield (
                f"Before any pick: {number(self.variance_before)}. Methods that draw at random: "
                f"mean ± standard error over {self.seeds} seeds."
            )
            return
        yield (
            f"Each run draws a random half of the pool ({self.candidates:,} of {self.rows:,} "
            f"rows) as candidates, the same for all methods, so that methods without chance have "
            f"an error too; in the table it is that of the runs. Differences are of the same runs "
            f"and targets, and their error counts both: other candidates, and other targets like "
            f"these. One counts at 95% by Student's t."
        )
        yield f"Labels were taken as {self.measured.labels}."
        if self.measured.spread is not None:
            at_last = ", ".join(
                f"{name} {number(self.measured.rmse(name)[-1])}" for name in self.methods
            )
            yield f"Root mean squared errors after {self.budgets[-1]:,} picks: {at_last}."
        if self.measured.strangers:
            yield (
                f"{self.measured.strangers:,} classes of the pool are of no target; picks from "
                f"them are kept in training, so they can add wrong answers."
            )

    def to_frame(self) -> "pandas.DataFrame":
        """A row per method and number of picks. Needs pandas.

        ``score`` is the probe's, and ``difference`` is the rule's score less that. Both are
        missing without labels. Errors are standard errors.
        """
        records = [self._record(name, k) for name in self.methods for k in self.budgets]
        return make_frame(records)

    def _record(self, method: str, budget: int) -> dict[str, Any]:
        means = dict.fromkeys(("score", "difference"), Mean(np.nan, None, 0))
        if self.measured is not None:
            means["score"] = self.score(method, budget)
            means["difference"] = self.difference(method, budget)
        means["variance"] = self.target_variance(method, budget)
        values = {name: mean.value for name, mean in means.items()}
        errors = {f"{name}_error": mean.error for name, mean in means.items()}
        return {"method": method, "picks": budget} | values | errors

    def to_dict(self) -> dict[str, Any]:
        """The comparison for machines, ready for JSON."""
        plain = ("rule", "seeds", "rows", "candidates", "targets", "is_circular", "verdict")
        return {name: getattr(self, name) for name in plain} | {
            "methods": list(self.methods),
            "budgets": list(self.budgets),
            "settings": dict(self.settings),
            "target_variance": {"before": self.variance_before} | self._all(self.target_variance),
            "measured": None if self.measured is None else self._measured_dict(self.measured),
        }

    def _all(self, measure: Any) -> dict[str, list[dict[str, Any]]]:
        return {name: [measure(name, k).to_dict() for k in self.budgets] for name in self.methods}

    def _measured_dict(self, of: Measurement) -> dict[str, Any]:
        gaps = {name: self.difference(name) for name in self.others}
        return {
            "measure": of.measure,
            "labels": of.labels,
            "scores": self._all(self.score),
            "rmse": None if of.spread is None else {name: of.rmse(name) for name in self.methods},
            "differences": {
                name: gap.to_dict() | {"verdict": VERDICTS[gap.sign]} for name, gap in gaps.items()
            },
            "best_other": self.best_other if self.others else None,
        }
