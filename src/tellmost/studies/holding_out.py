"""What rows tell about their labels, seen on rows that were held out."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.probes import fit_logistic, fit_ridge
from tellmost.shapes import Float, Int
from tellmost.studies.labels import Labels, number_classes
from tellmost.studies.statistics import Mean, rank_correlation


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
        max(rows.shape[1] // numerics.LEARNED_SHARE, numerics.LEAST_LEARNED),
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
