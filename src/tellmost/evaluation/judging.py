"""What a selection is worth: a probe learns from the picks' labels and answers for the targets.

What rows tell about their labels, seen on rows that were held out.

Labels as people have them: names, whole numbers or measured numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.evaluation.probes import fit_logistic, fit_ridge
from tellmost.evaluation.statistics import Mean, rank_correlation
from tellmost.rows.pool import Pool
from tellmost.shapes import Float, Int

PROBE_SAMPLE = 4_096
"""Random pool rows from which a probe takes the mean and the scale of its features."""

LEARNED_SHARE = 4
"""Predicted variances are compared with errors after so many rows as a quarter of the features:
as selections do. After many more rows they are all small, and noise makes the errors."""

LEAST_LEARNED = 16
"""And after so many rows at least."""


KINDS = ("classes", "numbers")


@dataclass(frozen=True)
class Labels:
    """Labels of some rows, as one kind of thing: classes, or numbers."""

    kind: str
    values: np.ndarray  # as given
    why: str  # how the kind was decided, in words

    @property
    def are_classes(self) -> bool:
        return self.kind == "classes"

    def numbers(self) -> Float[Tensor, " n"]:
        return torch.from_numpy(self.values.astype(np.float64))

    def __len__(self) -> int:
        return len(self.values)


def check_labels(labels: Any, name: str, count: int, per: str, kind: str | None = None) -> Labels:
    """One label per row, none missing; their kind comes from the dtype unless it is given."""
    values = _as_vector(labels, name)
    if values.shape != (count,):
        raise ValueError(f"{name} must have one entry per {per}, ({count},); got {values.shape}.")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind must be None, 'classes' or 'numbers'; got {kind!r}.")
    is_number = values.dtype.kind in "fiub"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"{name} must not be missing; row {row} has {values[row]}. Drop such rows."
        )
    if kind == "numbers" and not is_number:
        raise TypeError(f"{name} must be numbers for kind='numbers'; got dtype {values.dtype}.")
    if kind is not None:
        return Labels(kind, values, "as you say")
    if values.dtype.kind == "f":
        return Labels("numbers", values, "since they are floats")
    what = {"i": "whole numbers", "u": "whole numbers", "b": "true or false"}
    return Labels("classes", values, f"since they are {what.get(values.dtype.kind, 'names')}")


def _as_vector(labels: Any, name: str) -> np.ndarray:
    values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.dtype != object:
        return values
    missing = [i for i, value in enumerate(values.tolist()) if value is None or value != value]
    if missing:
        row = missing[0]
        raise ValueError(f"{name} must not be missing; row {row} has none. Drop such rows.")
    kinds = {isinstance(value, str) for value in values.tolist()}
    if len(kinds) > 1:
        raise TypeError(f"{name} must be all numbers or all names; got a mixture of both.")
    return np.array(values.tolist())


def number_classes(*labels: Labels) -> tuple[list[Int[Tensor, " _"]], list[str]]:
    """Numbers of the classes, the same for all, and the names of the classes."""
    texts = [label.values for label in labels]
    names, numbers = np.unique(np.concatenate(texts), return_inverse=True)
    ends = np.cumsum([len(text) for text in texts])[:-1]
    parts = np.split(numbers.reshape(-1).astype(np.int64), ends)
    return [torch.from_numpy(part) for part in parts], [str(name) for name in names]


@dataclass(frozen=True)
class Features:
    """What a probe sees of rows: about the pool's mean, of mean squared length one."""

    mean: Float[Tensor, " d"]
    scale: float

    @classmethod
    def of(cls, pool: Pool, rng: np.random.Generator) -> "Features":
        few = min(len(pool), PROBE_SAMPLE)
        rows = pool.rows(torch.from_numpy(np.sort(rng.choice(len(pool), few, replace=False))))
        rows = rows.cpu()
        mean = rows.mean(dim=0)
        scale = float((rows - mean).square().sum(dim=1).mean().sqrt())
        return cls(mean, scale if scale > 0 else 1.0)

    def __call__(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return (rows.cpu() - self.mean) / self.scale  # probes are small: they learn on the CPU


@runtime_checkable
class Judge(Protocol):
    """Scores picks, target by target; more is better, and the score is the mean."""

    measure: str  # what the score is
    unit: str  # of a difference, in words
    in_unit: float  # a score of one, in this unit

    def scores(
        self, rows: Float[Tensor, "b d"], picks: Int[Tensor, " b"]
    ) -> Float[np.ndarray, " m"]:
        """Of a probe that knows the labels of these picks, whose rows are given."""


class ClassJudge:
    """Accuracy of multinomial logistic regression."""

    measure, unit, in_unit = "accuracy", "points", 100.0

    def __init__(self, labels: Labels, targets: Float[Tensor, "m d"], of_targets: Labels) -> None:
        (self._labels, self._wanted), names = number_classes(labels, of_targets)
        self._targets, self.classes = targets, names

    @property
    def strangers(self) -> int:
        """Classes of the pool that no target has."""
        return len(self.classes) - len(torch.unique(self._wanted))

    def scores(
        self, rows: Float[Tensor, "b d"], picks: Int[Tensor, " b"]
    ) -> Float[np.ndarray, " m"]:
        probe = fit_logistic(rows, self._labels[picks], len(self.classes), C=numerics.PROBE_C)
        return (probe.predict(self._targets) == self._wanted).double().numpy()


class NumberJudge:
    """Share of the targets' variance that Bayesian linear regression explains."""

    measure, unit, in_unit = "R²", "in R²", 1.0
    strangers = 0

    def __init__(self, labels: Labels, targets: Float[Tensor, "m d"], of_targets: Labels) -> None:
        self._labels, self._wanted = labels.numbers(), of_targets.numbers()
        self._targets = targets
        self.spread = float((self._wanted - self._wanted.mean()).square().mean())
        if self.spread == 0:
            raise ValueError(
                "target_labels must not be all equal: no share of their variance can be explained."
            )

    def scores(
        self, rows: Float[Tensor, "b d"], picks: Int[Tensor, " b"]
    ) -> Float[np.ndarray, " m"]:
        outputs = self._labels[picks]
        mean, middle = outputs.mean(), rows.mean(dim=0)  # the intercept goes free
        probe = fit_ridge(rows - middle, (outputs - mean)[:, None])
        errors = probe.predict(self._targets - middle)[:, 0] + mean - self._wanted
        return (1.0 - errors.square() / self.spread).numpy()


@dataclass(frozen=True)
class Evidence:
    """How well held-out labels are predicted, and whether the model knows where it errs."""

    kind: str  # classes or numbers
    labels: str  # how that was decided
    rows: int  # that were looked at
    folds: int
    score: Mean  # accuracy, or R²
    baseline: float  # the same of the trivial answer: the commonest class, or the mean
    gain: Mean  # score less baseline, on the same rows
    rmse: float | None  # of numbers
    rank_correlation: Mean  # of predicted variance and squared error
    learned_from: int  # rows taught before variances were predicted
    noise_ratio: float  # at which they were
    likeliest_noise_ratio: float  # by marginal likelihood
    is_at_edge: bool  # whether that lies at an end of what was looked at

    @property
    def measure(self) -> str:
        return "accuracy" if self.kind == "classes" else "R²"

    @property
    def share_of_gap(self) -> float:
        """How far from the trivial answer to a perfect one."""
        return self.gain.value / (1 - self.baseline)


@dataclass(frozen=True)
class Fold:
    taught: Int[Tensor, " a"]
    asked: Int[Tensor, " b"]


def folds_of(n: int, count: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Each row is asked once."""
    parts = np.array_split(rng.permutation(n), count)
    for number, asked in enumerate(parts):
        taught = np.concatenate([part for other, part in enumerate(parts) if other != number])
        yield Fold(torch.from_numpy(taught), torch.from_numpy(asked))


def hold_out(
    rows: Float[Tensor, "n d"],
    labels: Labels,
    folds: int,
    noise_ratio: float,
    rng: np.random.Generator,
) -> Evidence:
    """Teach all folds but one, ask that one, in turn."""
    parts = list(folds_of(len(rows), folds, rng))
    wanted = _outputs(labels)
    better, worse = _losses(rows, labels, wanted, parts)
    score, baseline, gain = _sum_up(better, worse, are_classes=labels.are_classes)
    few = min(
        max(rows.shape[1] // LEARNED_SHARE, LEAST_LEARNED),
        min(len(fold.taught) for fold in parts),
    )
    likeliest = fit_ridge(rows, wanted - wanted.mean(dim=0))
    return Evidence(
        kind=labels.kind,
        labels=labels.why,
        rows=len(rows),
        folds=folds,
        score=score,
        baseline=baseline,
        gain=gain,
        rmse=None if labels.are_classes else float(np.sqrt(np.mean(better))),
        rank_correlation=_variance_and_error(rows, wanted, parts, few, noise_ratio),
        learned_from=few,
        noise_ratio=noise_ratio,
        likeliest_noise_ratio=likeliest.noise_ratio,
        is_at_edge=likeliest.is_at_edge,
    )


def _outputs(labels: Labels) -> Float[Tensor, "n c"]:
    """Numbers as one column, classes as a column each, the commonest first."""
    if not labels.are_classes:
        return labels.numbers()[:, None]
    (numbers,), names = number_classes(labels)
    columns = torch.nn.functional.one_hot(numbers, len(names)).to(torch.float64)
    return columns[:, columns.sum(dim=0).argsort(descending=True, stable=True)]


def _losses(
    rows: Tensor, labels: Labels, wanted: Tensor, parts: list[Fold]
) -> tuple[np.ndarray, np.ndarray]:
    """Per held-out row the loss of the probe, and of the trivial answer: 0 and 1, or squares."""
    better, worse = np.empty(len(rows)), np.empty(len(rows))
    ask = _ask_classes if labels.are_classes else _ask_numbers
    for fold in parts:
        better[fold.asked], worse[fold.asked] = ask(
            rows[fold.taught], wanted[fold.taught], rows[fold.asked], wanted[fold.asked]
        )
    return better, worse


def _ask_classes(
    rows: Tensor, outputs: Tensor, asked: Tensor, wanted: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    mean = rows.mean(dim=0)
    scale = (rows - mean).square().sum(dim=1).mean().sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    count = outputs.shape[1]
    taught, right = outputs.argmax(dim=1), wanted.argmax(dim=1)
    probe = fit_logistic((rows - mean) / scale, taught, count, C=numerics.PROBE_C)
    guessed = probe.predict((asked - mean) / scale)
    return (guessed != right).double().numpy(), (right != 0).double().numpy()


def _ask_numbers(
    rows: Tensor, outputs: Tensor, asked: Tensor, wanted: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    mean, middle = outputs.mean(dim=0), rows.mean(dim=0)  # the intercept goes free
    probe = fit_ridge(rows - middle, outputs - mean)
    errors = probe.predict(asked - middle) + mean - wanted
    return errors[:, 0].square().numpy(), (mean - wanted)[:, 0].square().numpy()


def _sum_up(
    better: np.ndarray, worse: np.ndarray, *, are_classes: bool
) -> tuple[Mean, float, Mean]:
    """Score, baseline and their difference, from losses of the same rows."""
    if are_classes:
        return Mean.of(1 - better), float(1 - worse.mean()), Mean.of(worse - better)
    left = better.mean() / worse.mean()
    error = Mean.of(better - left * worse).error  # of a ratio of two means
    explained = Mean(1 - left, None if error is None else error / worse.mean(), len(better))
    return explained, 0.0, explained


def _variance_and_error(
    rows: Tensor, wanted: Tensor, parts: list[Fold], few: int, noise_ratio: float
) -> Mean:
    """Of the model that ``select`` uses, after a few rows: does it know where it errs?"""
    variance, error = np.empty(len(rows)), np.empty(len(rows))
    for fold in parts:
        taught = fold.taught[:few]  # in random order already
        mean = wanted[taught].mean(dim=0)
        model = fit_ridge(rows[taught], wanted[taught] - mean, noise_ratio=noise_ratio)
        asked, right = rows[fold.asked], wanted[fold.asked]
        variance[fold.asked] = model.variance(asked).numpy() / (model.scale or 1.0)
        error[fold.asked] = (model.predict(asked) + mean - right).square().sum(dim=1).numpy()
    return rank_correlation(variance, error)
