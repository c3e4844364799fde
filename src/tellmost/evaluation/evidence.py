"""Labels as people have them, and how well rows predict those that are held out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.evaluation.probes import (
    PROBE_C,
    center_and_scale,
    fit_logistic,
    fit_ridge,
    predict_numbers,
)
from tellmost.evaluation.statistics import Mean, rank_correlation
from tellmost.rows.checks import check_word
from tellmost.shapes import Float, Int

LEARNED_SHARE = 4
"""Predicted variances are compared with errors after as many rows as a quarter of the features,
since a selection is about as small. After many more rows all variances are small, and the noise
makes the errors."""

LEAST_LEARNED = 16  # at least so many rows teach before variances are compared with errors

Folds = list[tuple[Int[Tensor, " _a"], Int[Tensor, " _b"]]]
"""For each fold the rows that teach, and the rows that are asked."""


@dataclass(frozen=True)
class KnownLabels:
    """The labels of some rows, all of one kind: classes or numbers."""

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


def take_labels(
    labels: Any, name: str, count: int, per: str, kind: str | None = None
) -> KnownLabels:
    """Check that there is one label per row. The dtype decides the kind unless it is given."""
    values = _as_vector(labels, name)
    if values.shape != (count,):
        raise ValueError(f"{name} must have one entry per {per}, ({count},); got {values.shape}.")
    check_word(kind, "kind", (None, "classes", "numbers"))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"{name} must not be missing; row {row} has {values[row]}. Drop such rows."
        )
    if kind == "numbers" and values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numbers for kind='numbers'; got dtype {values.dtype}.")
    if kind is not None:
        return KnownLabels(kind, values, "as you say")
    if values.dtype.kind == "f":
        return KnownLabels("numbers", values, "since they are floats")
    what = {"i": "whole numbers", "u": "whole numbers", "b": "true or false"}
    why = f"since they are {what.get(values.dtype.kind, 'names')}"
    return KnownLabels("classes", values, why)


def _as_vector(labels: Any, name: str) -> np.ndarray:
    values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.dtype != object:
        return values
    given = values.tolist()
    missing = [i for i, value in enumerate(given) if value is None or value != value]
    if missing:
        raise ValueError(f"{name} must not be missing; row {missing[0]} has none. Drop such rows.")
    if len({isinstance(value, str) for value in given}) > 1:
        raise TypeError(f"{name} must be all numbers or all names; got a mixture of both.")
    return np.array(given)


def number_classes(*labels: KnownLabels) -> tuple[list[Int[Tensor, " _"]], int]:
    """Number the classes alike in all these labels, and count them."""
    names, numbers = np.unique(np.concatenate([one.values for one in labels]), return_inverse=True)
    ends = np.cumsum([len(one) for one in labels])[:-1]
    parts = np.split(numbers.reshape(-1).astype(np.int64), ends)
    return [torch.from_numpy(part) for part in parts], len(names)


@dataclass(frozen=True)
class Evidence:
    """The scores of held-out labels, and if the predicted variance goes with the error."""

    kind: str  # classes or numbers
    labels: str  # how that was decided
    rows: int  # that were looked at
    folds: int
    score: Mean  # accuracy, or R²
    baseline: float  # the score of the trivial answer: the commonest class, or the mean
    gain: Mean  # the score less the baseline, on the same rows
    rmse: float | None  # of numbers
    rank_correlation: Mean  # of predicted variance and squared error
    learned_from: int  # rows that taught before variances were predicted
    noise_ratio: float  # at which variances were predicted
    likeliest_noise_ratio: float  # by marginal likelihood
    is_at_edge: bool  # whether that lies at an end of what was looked at

    @property
    def measure(self) -> str:
        return "accuracy" if self.kind == "classes" else "R²"

    @property
    def share_of_gap(self) -> float:
        """The share of the way from the trivial answer to a perfect one."""
        return self.gain.value / (1 - self.baseline)

    def to_dict(self) -> dict[str, Any]:
        means = {name: one.to_dict() for name, one in vars(self).items() if isinstance(one, Mean)}
        return vars(self) | means | {"measure": self.measure}


def folds_of(n: int, count: int, rng: np.random.Generator) -> Folds:
    """Each row is asked in one fold, and teaches in all others."""
    parts = [torch.from_numpy(part) for part in np.array_split(rng.permutation(n), count)]
    return [(torch.cat([*parts[:i], *parts[i + 1 :]]), asked) for i, asked in enumerate(parts)]


def hold_out(
    rows: Float[Tensor, "n d"],
    labels: KnownLabels,
    folds: int,
    noise_ratio: float,
    rng: np.random.Generator,
) -> Evidence:
    """Teach all folds but one and ask that one, in turn."""
    parts = folds_of(len(rows), folds, rng)
    wanted = _outputs(labels)
    better, worse = _losses(rows, labels, wanted, parts)
    score, baseline, gain = _sum_up(better, worse, are_classes=labels.are_classes)
    few = min(
        max(rows.shape[1] // LEARNED_SHARE, LEAST_LEARNED), min(len(taught) for taught, _ in parts)
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


def _outputs(labels: KnownLabels) -> Float[Tensor, "n c"]:
    """Numbers are one column; classes are a column each, with the commonest first."""
    if not labels.are_classes:
        return labels.numbers()[:, None]
    (numbers,), count = number_classes(labels)
    columns = torch.nn.functional.one_hot(numbers, count).to(torch.float64)
    return columns[:, columns.sum(dim=0).argsort(descending=True, stable=True)]


def _losses(
    rows: Tensor, labels: KnownLabels, wanted: Tensor, parts: Folds
) -> tuple[np.ndarray, np.ndarray]:
    """The losses of the probe and of the trivial answer per row: 0 and 1, or squared errors."""
    better, worse = torch.empty(2, len(rows), dtype=torch.float64)
    for taught, asked in parts:
        if labels.are_classes:
            mean, scale = center_and_scale(rows[taught])
            classes, right = wanted[taught].argmax(dim=1), wanted[asked].argmax(dim=1)
            probe = fit_logistic(
                (rows[taught] - mean) / scale, classes, wanted.shape[1], C=PROBE_C
            )
            better[asked] = (probe.predict((rows[asked] - mean) / scale) != right).double()
            worse[asked] = (right != 0).double()
        else:
            errors = predict_numbers(rows[taught], wanted[taught], rows[asked]) - wanted[asked]
            better[asked] = errors[:, 0].square()
            worse[asked] = (wanted[taught].mean(dim=0) - wanted[asked])[:, 0].square()
    return better.numpy(), worse.numpy()


def _sum_up(
    better: np.ndarray, worse: np.ndarray, *, are_classes: bool
) -> tuple[Mean, float, Mean]:
    """The score, the baseline and their difference, from losses of the same rows."""
    if are_classes:
        return Mean.of(1 - better), float(1 - worse.mean()), Mean.of(worse - better)
    left = better.mean() / worse.mean()
    error = Mean.of(better - left * worse).error  # of a ratio of two means
    explained = Mean(1 - left, None if error is None else error / worse.mean(), len(better))
    return explained, 0.0, explained


def _variance_and_error(
    rows: Tensor, wanted: Tensor, parts: Folds, few: int, noise_ratio: float
) -> Mean:
    """Ask the model that ``select`` uses, after a few rows, whether it knows where it errs."""
    variance, error = np.empty(len(rows)), np.empty(len(rows))
    for taught, asked in parts:
        some = taught[:few]  # in random order already
        mean = wanted[some].mean(dim=0)
        model = fit_ridge(rows[some], wanted[some] - mean, noise_ratio=noise_ratio)
        variance[asked] = model.variance(rows[asked]).numpy() / (model.scale or 1.0)
        errors = model.predict(rows[asked]) + mean - wanted[asked]
        error[asked] = errors.square().sum(dim=1).numpy()
    return rank_correlation(variance, error)
