"""The result of a comparison: the numbers, and for each number of picks a verdict in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.evaluation.judging import ERROR_REMOVED, Judge
from tellmost.evaluation.runs import IN_REGION
from tellmost.evaluation.statistics import (
    Mean,
    bullet,
    count_together,
    joined_by_and,
    number,
    paragraph,
)
from tellmost.running.extras import make_frame
from tellmost.running.notebooks import html_table
from tellmost.selecting.selection import TAKEN_AS_ALL
from tellmost.shapes import Bool, Float

if TYPE_CHECKING:
    import pandas

COLUMNS_PER_TABLE = 4
LEARNED = 0.25
"""A probe has learned something if it closes more than this share of the gap from an answer that
needs no picks to a perfect one, or if it closes any part of it beyond chance."""

NEAR_ONES = frozenset({"top-k", "nearest-in-turn", "cosine", IN_REGION})
"""These pick nearer to the targets than a selection that also spreads its picks."""


def percent_of(mean: Mean) -> str:
    return mean.text(100.0)


@dataclass(frozen=True)
class Measurement:
    """The scores that one judge gave each method at each number of picks, target by target."""

    judge: str
    measure: str  # accuracy, error removed, or variance for the share of it that is gone
    scores: Mapping[str, Float[np.ndarray, "runs budgets m"]]  # NaN unless held out
    steering: Mapping[str, Float[np.ndarray, "runs budgets m"]]  # NaN unless steering
    trivial: Float[np.ndarray, " m"]  # of an answer that needs no picks
    unit_of_error: float | None = None  # of numbers: the mean error of a constant answer

    @classmethod
    def of(
        cls,
        judge: Judge,
        scores: Mapping[str, Float[np.ndarray, "runs budgets m"]],
        steers: Bool[np.ndarray, "runs m"],
    ) -> "Measurement":
        """Tell the targets that were held out in a run from those that steered it."""
        has_steered = steers[:, None]
        return cls(
            judge=judge.name,
            measure=judge.measure,
            scores={name: np.where(has_steered, np.nan, s) for name, s in scores.items()},
            steering={name: np.where(has_steered, s, np.nan) for name, s in scores.items()},
            trivial=judge.trivial,
            unit_of_error=judge.unit_of_error,
        )

    def score(self, method: str, at: int) -> Mean:
        return Mean.of(np.nanmean(self.scores[method][:, at], axis=1))

    def difference(self, one: str, other: str, at: int) -> Mean:
        """The mean score of one method less that of another, in the same runs and targets."""
        return Mean.over_runs_and_targets(self.scores[one][:, at] - self.scores[other][:, at])

    def has_learned(self, at: int) -> bool:
        """Whether the picks of any method have taught more than can be answered without."""
        gaps = (scores[:, at] - self.trivial for scores in self.scores.values())
        gains = [Mean.over_runs_and_targets(gap) for gap in gaps]
        enough = LEARNED * (1 - self.trivial.mean())
        return any(gain.sign > 0 or gain.value > enough for gain in gains)

    def rmse(self, method: str, at: int) -> float:
        """The root mean squared error of numbers, in the mean over the runs."""
        assert self.unit_of_error is not None
        errors = self.unit_of_error * (1 - self.scores[method][:, at])
        return float(np.sqrt(np.nanmean(np.square(errors), axis=1)).mean())


@dataclass(frozen=True)
class Verdict:
    """The methods than which the rule is better, or worse, or neither, after so many picks."""

    picks: int
    has_learned: bool  # else no method's picks taught the probe anything that shows
    better: tuple[str, ...]
    alike: tuple[str, ...]
    worse: tuple[str, ...]

    def of(self, method: str) -> str:
        told = (("better", self.better), ("no better", self.alike), ("worse", self.worse))
        return next((name for name, some in told if self.has_learned and method in some), "")


@dataclass(frozen=True, repr=False)
class Comparison:
    """A rule beside other methods, at several numbers of picks. The rule comes first."""

    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    seeds: int
    rows: int
    candidates: int  # of each run, at least
    targets: int
    measured: tuple[Measurement, ...]  # by the judge, and by a probe that is shown beside it
    settings: Mapping[str, Any]
    labels: str | None = None  # classes or numbers, and how that was decided
    strangers: int = 0  # classes of the pool that no target has
    notes: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        return self.methods[0]

    @property
    def others(self) -> tuple[str, ...]:
        return self.methods[1:]

    @property
    def judge(self) -> Measurement:
        return self.measured[0]

    @property
    def is_circular(self) -> bool:
        """Without labels there is only target variance, which the rule may minimise itself."""
        return self.judge.measure == "variance"

    def score(self, method: str, budget: int) -> Mean:
        """The judge's score on targets that were held out. Larger is better."""
        return self.judge.score(method, self.budgets.index(budget))

    def difference(self, other: str, budget: int | None = None) -> Mean:
        """The rule's mean score less that of another method, on the same runs and targets.

        Its error counts what other candidates and what other targets would change.
        """
        at = -1 if budget is None else self.budgets.index(budget)
        return self.judge.difference(self.rule, other, at)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """A verdict for each number of picks, at 95% for all methods together."""
        found = []
        for at, budget in enumerate(self.budgets):
            gaps = {name: self.judge.difference(self.rule, name, at) for name in self.others}
            counted = count_together({name: gap.chance for name, gap in gaps.items()})
            better = tuple(name for name, gap in gaps.items() if name in counted and gap.value > 0)
            worse = tuple(name for name in gaps if name in counted and name not in better)
            alike = tuple(name for name in gaps if name not in counted)
            found.append(Verdict(budget, self.judge.has_learned(at), better, alike, worse))
        return tuple(found)

    @property
    def verdict(self) -> str:
        """The verdicts in words."""
        return " ".join(self._verdict_lines())

    def _verdict_lines(self) -> list[str]:
        if not self.is_circular:
            return list(map(self._sentence, self.verdicts))
        last = self.budgets[-1]
        gone = [f"{name} {percent_of(self.score(name, last))}%" for name in self.methods]
        return [
            f"Target variance gone after {last:,} picks: {', '.join(gone)}. Whether the picks are "
            f"better for a task cannot be told without labels."
        ]

    def _sentence(self, verdict: Verdict) -> str:
        k = verdict.picks
        if not verdict.has_learned:
            best = max((self.score(name, k) for name in self.methods), key=lambda s: s.value)
            return (
                f"After {k:,} picks nothing can be told: the probe learned nothing that shows "
                f"from any method's picks ({self.judge.measure} {percent_of(best)} at best)."
            )

        def with_size(other: str) -> str:
            gap = self.difference(other, k)
            return f"{other} ({'+' * (gap.value >= 0)}{percent_of(gap)})"

        told = (("better", verdict.better), ("no better", verdict.alike), ("worse", verdict.worse))
        parts = [f"{how} than {joined_by_and([*map(with_size, n)])}" for how, n in told if n]
        return f"After {k:,} picks {self.rule} is {', and '.join(parts)}."

    @property
    def advice(self) -> list[str]:
        """What to try after a bad verdict; nothing after a good one."""
        return [] if self.is_circular else list(advise(self.verdicts, self.others, self.settings))

    def describe(self) -> str:
        """The comparison as text for a terminal: tables, the verdicts and how they were found."""
        parts = [*self._tables(), *map(paragraph, self._verdict_lines())]
        parts += ["\n".join(["What to try:", *map(bullet, self.advice)])] * bool(self.advice)
        return "\n\n".join([*parts, *map(paragraph, self._notes())])

    __repr__ = describe

    def _repr_html_(self) -> str:
        """The comparison as a table for a notebook."""
        head = ["picks", *(f"{budget:,}" for budget in self.budgets)]
        rows = [[name, *self._cells(self.judge, name)] for name in self.methods]
        said = [self._headline(self.judge), *self._verdict_lines(), *self.advice, *self._notes()]
        return html_table(head, rows, said)

    def _headline(self, measured: Measurement) -> str:
        if self.is_circular:
            return (
                f"CIRCULAR: how much of the variance of the {self.targets:,} targets is gone, in "
                f"percent, under the model that does the choosing. VTL minimises it by "
                f"construction, so a high value is no proof of good picks. Give labels and "
                f"target_labels for one."
            )
        beside = "" if measured is self.judge else "Beside it: "
        measure = measured.measure
        if measure == ERROR_REMOVED:
            measure = "share of the mean error of a constant answer that is gone"
        return (
            f"{beside}{measure.capitalize()} in percent: {measured.judge} on those of the "
            f"{self.targets:,} targets that were held out; taught with the labels of the picks. "
            f"Mean ± standard error over {2 * self.seeds} runs."
        )

    def _tables(self) -> Iterator[str]:
        for measured in self.measured:
            yield paragraph(self._headline(measured))
            for start in range(0, len(self.budgets), COLUMNS_PER_TABLE):
                some = slice(start, start + COLUMNS_PER_TABLE)
                width = max(map(len, (*self.methods, "picks"))) + 1
                head = [f"{k:,}" for k in self.budgets]
                rows = [("picks", head), *((n, self._cells(measured, n)) for n in self.methods)]
                yield "\n".join(
                    f"{name:<{width}}" + "".join(f"{cell:>15}" for cell in cells[some])
                    for name, cells in rows
                )

    def _cells(self, measured: Measurement, name: str) -> list[str]:
        return [percent_of(measured.score(name, at)) for at in range(len(self.budgets))]

    def _notes(self) -> Iterator[str]:
        yield (
            f"Each run chooses from a random half of the pool ({self.candidates:,} or more of "
            f"{self.rows:,} rows), the same for all methods. Half of the targets steer it, and it "
            f"is judged on the other half; the next run takes the other halves of both."
        )
        if not self.is_circular:
            yield (
                "Differences are of the same runs and targets, and their error counts both: other "
                "candidates, and other targets like these. One counts at 95% for all methods of a "
                "number of picks together (Student's t, Holm's correction). Verdicts at several "
                "numbers of picks share their runs, so they do not confirm one another."
            )
            last = np.nanmean(self.judge.steering[self.rule][:, -1], axis=1)
            yield (
                f"Targets that steered the choice flatter it, so they are no judges: on them "
                f"{self.rule} scores {percent_of(Mean.of(last))} after {self.budgets[-1]:,} "
                f"picks, and {self._cells(self.judge, self.rule)[-1]} on those held out."
            )
            yield f"Labels were taken as {self.labels}."
        if self.judge.unit_of_error is not None:
            errors = (f"{name} {number(self.judge.rmse(name, -1))}" for name in self.methods)
            at_last = f"after {self.budgets[-1]:,} picks"
            yield f"Root mean squared errors {at_last}: {', '.join(errors)}."
        if self.strangers:
            yield (
                f"{self.strangers:,} classes of the pool are of no target; picks from them are "
                f"kept in training, so they can add wrong answers."
            )
        yield from self.notes

    def to_frame(self) -> "pandas.DataFrame":
        """A row per judge, method and number of picks. Needs pandas.

        ``difference`` is the rule's score less that of the method. Errors are standard errors.
        """
        return make_frame(list(self._records()))

    def _records(self) -> Iterator[dict[str, Any]]:
        for measured, name in product(self.measured, self.methods):
            is_told = measured is self.judge and not self.is_circular
            for at, budget in enumerate(self.budgets):
                score = measured.score(name, at)
                gap = measured.difference(self.rule, name, at)
                yield {
                    "judge": measured.judge,
                    "method": name,
                    "picks": budget,
                    "score": score.value,
                    "score_error": score.error,
                    "difference": gap.value,
                    "difference_error": gap.error,
                    "verdict": self.verdicts[at].of(name) if is_told else "",
                }

    def to_dict(self) -> dict[str, Any]:
        """The comparison for machines, ready for JSON."""
        plain = ("rule", "seeds", "rows", "candidates", "targets", "is_circular", "verdict")
        return {name: getattr(self, name) for name in plain} | {
            "methods": list(self.methods),
            "budgets": list(self.budgets),
            "has_learned": [verdict.has_learned for verdict in self.verdicts],
            "advice": self.advice,
            "notes": list(self.notes),
            "labels": self.labels,
            "settings": dict(self.settings),
            "measured": list(self._records()),
        }


def advise(
    verdicts: tuple[Verdict, ...], others: tuple[str, ...], settings: Mapping[str, Any]
) -> Iterator[str]:
    """What may help, by what went badly."""
    told = [verdict for verdict in verdicts if verdict.has_learned]
    worse = {name for verdict in told for name in verdict.worse}
    beaten_at_last = told[-1].better if told else ()
    ratio = settings["noise_ratio"]
    if not told:
        yield "more picks: at these numbers nothing was learned from the picks of any method."
    if not told or "random" in set(others) - set(beaten_at_last):
        yield (
            "check(pool, targets, labels=labels): do the rows carry the labels, and do the "
            "targets predict one another? More seeds, and more targets with labels, tell more."
        )
        yield (
            "another kernel, such as kernel='gaussian' for a table, or other embeddings. The "
            "judge takes the same kernel."
        )
    if worse & NEAR_ONES and ratio is not None:
        yield f"noise_ratio={number(10 * ratio)}, which picks nearer to the targets."
    is_open = TAKEN_AS_ALL not in settings["note_kinds"]  # else examples are no choice
    if worse and is_open and settings["rule"] in ("vtl", "ctl", "mm-itl"):
        other = {"all": "examples", "examples": "all"}[settings["targets_are"]]
        yield f"targets_are={other!r} in place of {settings['targets_are']!r}."
    if worse - NEAR_ONES and ratio is not None:
        yield f"noise_ratio={number(ratio / 10)}, which spreads the picks more."
    if worse:
        yield f"{joined_by_and(sorted(worse))}, if other draws of data say the same."
    if told and IN_REGION in set(others) - set(beaten_at_last):
        yield "random choice in the targets' region, to which no difference shows."
