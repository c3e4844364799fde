"""Judges: they see the picks of a method and score, target by target, what these have taught."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost.evaluation.evidence import KnownLabels, number_classes
from tellmost.evaluation.health import as_given, draw_rows
from tellmost.evaluation.probes import (
    PROBE_C,
    center_and_scale,
    fit_logistic,
    kernel_features,
    name_probe,
    predict_numbers,
)
from tellmost.kernels import Linear
from tellmost.kernels.linear import matrix_size
from tellmost.posterior.floor import retrace
from tellmost.selecting.data import SelectionData
from tellmost.shapes import Float, Int

PROBE_SAMPLE = 4_096  # random rows from which a linear probe takes the mean and the scale
ERROR_REMOVED = "error removed"  # of the mean absolute error of a constant answer

Features = Callable[[Int[Tensor, " b"]], tuple[Float[Tensor, "b r"], Float[Tensor, "m r"]]]
"""The features of picks, and those of the targets when these picks have taught."""


@dataclass(frozen=True)
class VarianceJudge:
    """The share of the targets' mean variance that is gone, under the model that chooses."""

    data: SelectionData
    noise_variance: Float[Tensor, " n"]
    name: str = "the model that chooses"
    measure: str = "variance"
    unit_of_error: None = None

    @property
    def trivial(self) -> Float[np.ndarray, " m"]:
        """The scores without any pick."""
        assert self.data.targets is not None
        return np.zeros(len(self.data.targets))

    def scores(
        self, picks: Int[np.ndarray, " k"], budgets: tuple[int, ...]
    ) -> Float[np.ndarray, "b m"]:
        """The score of each target after the first picks, for each budget."""
        data, rows = self.data, torch.from_numpy(picks)
        assert data.targets is not None
        noise = self.noise_variance[rows.to(self.noise_variance.device)]
        points = data.pool.rows(rows)
        falls = retrace(data.kernel, points, noise, data.targets).cumsum(dim=0)
        before = float(data.kernel.diagonal(data.targets).mean()) or 1.0
        return (falls[[budget - 1 for budget in budgets]] / before).cpu().numpy()


@dataclass(frozen=True)
class LabelJudge:
    """A probe learns from the labels of the picks, and answers for every target.

    Of classes the score is 1 if the answer is right. Of numbers it is one less the absolute error
    over that of the best constant answer. Of squares a few large errors would decide.
    """

    name: str
    features: Features
    labels: Tensor  # (n,): numbers of classes, or numbers
    wanted: Tensor  # (m,)
    classes: int = 0  # 0 for numbers

    @property
    def measure(self) -> str:
        return "accuracy" if self.classes else ERROR_REMOVED

    @property
    def unit_of_error(self) -> float | None:
        """The mean absolute error of the targets' median."""
        if self.classes:
            return None
        return float((self.wanted - self.wanted.median()).abs().mean())

    @property
    def trivial(self) -> Float[np.ndarray, " m"]:
        """The answer is the median of the targets; or the commonest class of the pool, or a random
        one as frequent as there, whichever is right more often."""
        if not self.classes:
            return self._score(self.wanted.median())
        shares = self.labels.bincount(minlength=self.classes) / len(self.labels)
        answers = self._score(shares.argmax()), shares.double()[self.wanted].numpy()
        return max(answers, key=lambda scores: float(scores.mean()))

    def _score(self, answers: Tensor) -> Float[np.ndarray, " m"]:
        if self.unit_of_error is None:
            return (answers == self.wanted).double().numpy()
        return (1.0 - (answers - self.wanted).abs() / self.unit_of_error).numpy()

    def scores(
        self, picks: Int[np.ndarray, " k"], budgets: tuple[int, ...]
    ) -> Float[np.ndarray, "b m"]:
        chosen = torch.from_numpy(picks)
        return np.stack([self._score(self._answer(chosen[:budget])) for budget in budgets])

    def _answer(self, picks: Int[Tensor, " b"]) -> Tensor:
        rows, targets = self.features(picks)
        if self.classes:
            return fit_logistic(rows, self.labels[picks], self.classes, C=PROBE_C).predict(targets)
        return predict_numbers(rows, self.labels[picks, None], targets)[:, 0]


Judge = VarianceJudge | LabelJudge


def choose_judges(
    data: SelectionData, given: Tensor, labels: KnownLabels, of_targets: KnownLabels
) -> tuple[Judge, ...]:
    """The judge has the kernel of the selection. Beside another kernel a linear probe is shown."""
    probes: dict[str, Features] = {}
    kernel, targets = data.kernel, data.targets
    assert targets is not None
    if not isinstance(kernel, Linear) or kernel.covariance is not None:
        probes[name_probe(kernel)] = lambda picks: kernel_features(
            kernel, data.pool.rows(picks), targets
        )
    if matrix_size(data.kernel) is None:
        probes["a linear probe"] = features_of_rows(data, given)
    if labels.are_classes:
        (known, wanted), count = number_classes(labels, of_targets)
    else:
        known, wanted, count = labels.numbers(), of_targets.numbers(), 0
    return tuple(LabelJudge(name, of, known, wanted, count) for name, of in probes.items())


def features_of_rows(data: SelectionData, given: Tensor) -> Features:
    """The rows as given, but for the mean and the scale of the pool."""
    pool = as_given(data.pool)
    some = draw_rows(np.random.default_rng(0), len(pool), PROBE_SAMPLE)
    mean, scale = center_and_scale(pool.rows(some).cpu())
    targets = (given.cpu() - mean) / scale
    return lambda picks: ((pool.rows(picks).cpu() - mean) / scale, targets)
