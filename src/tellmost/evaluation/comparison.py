"""What came of comparing methods: the numbers, and a verdict in plain words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellmost.evaluation.statistics import Mean, listed, number, paragraph, percent

COLUMNS_PER_TABLE = 4


@dataclass(frozen=True)
class Measurement:
    """Scores of a probe, where there are labels: (runs, budgets, targets) for each method."""

    measure: str  # accuracy, or R²
    unit: str  # of a difference
    in_unit: float  # a score of one, in this unit
    scores: Mapping[str, np.ndarray]
    labels: str  # classes or numbers, and how that was decided
    strangers: int  # classes of the pool that no target has
    spread: float | None  # variance of the targets' numbers


@dataclass(frozen=True)
class Comparison:
    """A rule beside other methods, at several budgets; the rule comes first."""

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
        """Whether target variance is all there is, which the rule may minimise by construction."""
        return self.measured is None

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.methods if name != self.rule)

    def score(self, method: str, budget: int) -> Mean:
        """Of the probe; larger is better."""
        at = self.budgets.index(budget)
        return Mean.of(self._measured.scores[method][:, at].mean(axis=1))

    def target_variance(self, method: str, budget: int) -> Mean:
        return Mean.of(self.variance[method][:, self.budgets.index(budget)])

    def difference(self, other: str, budget: int | None = None) -> Mean:
        """The rule's score less that of another method on the same candidates, in the mean.

        Its error counts what other candidates and what other targets would change.
        """
        at = self.budgets.index(self.budgets[-1] if budget is None else budget)
        scores = self._measured.scores
        return Mean.over_runs_and_targets(scores[self.rule][:, at] - scores[other][:, at])

    @property
    def best_other(self) -> str:
        """With the best mean score at the largest budget; the first of equals."""
        return max(self.others, key=lambda name: self.score(name, self.budgets[-1]).value)

    @property
    def verdict(self) -> str:
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.measured is None:
            yield from self._circular_sentences()
            return
        if "random" in self.others:
            yield self._versus("random", "random")
        best = self.best_other
        if best != "random":
            yield self._versus(best, f"the best other method, {best},")

    def _versus(self, other: str, words: str) -> str:
        gap, of = self.difference(other), self._measured
        size = Mean(abs(gap.value), gap.error, gap.count).text(of.in_unit, self._digits)
        at = f"({of.measure} after {self.budgets[-1]:,} picks)"
        if gap.sign == 0:
            signed = gap.text(of.in_unit, self._digits)
            if gap.value == 0:
                why = "they are equal in the mean"
            else:
                why = f"the difference, {signed} {of.unit}, may be chance; more seeds would tell"
            return (
                f"{self.rule} is no better than {words} here: {why} {at}."
                f"{self._with_fewer(other, 0)}"
            )
        which = "better" if gap.sign > 0 else "worse"
        return (
            f"{self.rule} is {which} than {words} here by {size} {of.unit} {at}."
            f"{self._with_fewer(other, gap.sign)}"
        )

    def _with_fewer(self, other: str, sign: int) -> str:
        """Where fewer picks tell another story."""
        names = {1: "better", 0: "no better", -1: "worse"}
        told: dict[str, list[str]] = {name: [] for name in names.values()}
        for budget in self.budgets[:-1]:
            one = self.difference(other, budget).sign
            if one != sign:
                told[names[one]].append(f"{budget:,}")
        parts = [f"it is {name} after {listed(some)} picks" for name, some in told.items() if some]
        return f" With fewer, {', and '.join(parts)}." if parts else ""

    def _circular_sentences(self) -> Iterator[str]:
        k = self.budgets[-1]
        if self.variance_before > 0:
            left = [
                f"{name} {percent(self.target_variance(name, k).value / self.variance_before)}"
                for name in self.methods
            ]
            yield f"Target variance left after {k:,} picks: {', '.join(left)}."
        yield "Whether the picks are better for a task cannot be told without labels."

    @property
    def _measured(self) -> Measurement:
        if self.measured is None:
            raise ValueError("there are no scores: compare was called without labels.")
        return self.measured

    @property
    def _digits(self) -> int:
        return 1 if self._measured.in_unit == 100.0 else 3

    def describe(self) -> str:
        """For a terminal."""
        parts = [paragraph(self._headline()), *self._tables(), paragraph(self.verdict)]
        return "\n\n".join([*parts, *map(paragraph, self._notes())])

    def _headline(self) -> str:
        if self.measured is None:
            return (
                f"CIRCULAR: mean variance of the {self.targets:,} targets under the model that "
                f"does the choosing. VTL minimises it by construction, so a low value is no proof "
                f"of good picks. Give labels and target_labels for one."
            )
        scale = " in percent" if self.measured.in_unit == 100.0 else ""
        return (
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
            return self.score(name, budget).text(self.measured.in_unit, self._digits)
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
            errors = self._rmse(self.measured.spread)
            at_last = ", ".join(f"{name} {number(errors[name][-1])}" for name in self.methods)
            yield f"Root mean squared errors after {self.budgets[-1]:,} picks: {at_last}."
        if self.measured.strangers:
            yield (
                f"{self.measured.strangers:,} classes of the pool are of no target; picks from "
                f"them are kept in training, so they can add wrong answers."
            )

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "rule": self.rule,
            "methods": list(self.methods),
            "budgets": list(self.budgets),
            "seeds": self.seeds,
            "rows": self.rows,
            "candidates": self.candidates,
            "targets": self.targets,
            "is_circular": self.is_circular,
            "verdict": self.verdict,
            "settings": dict(self.settings),
            "target_variance": {"before": self.variance_before}
            | {
                name: [self.target_variance(name, k).to_dict() for k in self.budgets]
                for name in self.methods
            },
            "measured": None if self.measured is None else self._measured_dict(),
        }

    def _measured_dict(self) -> dict[str, Any]:
        of = self._measured
        return {
            "measure": of.measure,
            "labels": of.labels,
            "scores": {
                name: [self.score(name, k).to_dict() for k in self.budgets]
                for name in self.methods
            },
            "rmse": None if of.spread is None else self._rmse(of.spread),
            "differences": {name: self._difference_dict(name) for name in self.others},
            "best_other": self.best_other if self.others else None,
        }

    def _difference_dict(self, other: str) -> dict[str, Any]:
        gap = self.difference(other)
        return gap.to_dict() | {"verdict": {1: "better", 0: "no better", -1: "worse"}[gap.sign]}

    def _rmse(self, spread: float) -> dict[str, list[float]]:
        """Root mean squared errors, in the mean over the runs."""
        scores = self._measured.scores
        return {
            name: np.sqrt((1 - scores[name].mean(axis=2)) * spread).mean(axis=0).tolist()
            for name in self.methods
        }
