"""What a selection is worth: a probe learns from the picks' labels and answers for the targets."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.probes import fit_logistic, fit_ridge
from tellmost.rows.pool import Pool
from tellmost.shapes import Float, Int
from tellmost.studies.labels import Labels, number_classes


@dataclass(frozen=True)
class Features:
    """What a probe sees of rows: about the pool's mean, of mean squared length one."""

    mean: Float[Tensor, " d"]
    scale: float

    @classmethod
    def of(cls, pool: Pool, rng: np.random.Generator) -> "Features":
        few = min(len(pool), numerics.PROBE_SAMPLE)
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
