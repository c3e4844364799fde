"""Curves of an experiment: accuracy and share of picks, after every round of every seed."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.shapes import Float, Int
from tellmost_reproduction.networks.experiments import Experiment
from tellmost_reproduction.networks.problems import TASKS
from tellmost_reproduction.networks.running import Run
from tellmost_reproduction.networks.settings import Configuration
from tellmost_reproduction.networks.storing import RunId

MEASURES = {"accuracy": "accuracy", "share": "share of picks from the task's classes"}


@dataclass(frozen=True, eq=False)
class Curves:
    """All runs of an experiment that there are; some configurations may have none, or few."""

    experiment: Experiment
    runs: Mapping[RunId, Run]

    @staticmethod
    def of(experiment: Experiment, runs: Mapping[RunId, Run]) -> "Curves":
        names = {one.name for one in experiment.configurations}
        return Curves(experiment, {key: run for key, run in runs.items() if key[0] in names})

    def configuration(self, name: str) -> Configuration:
        return next(one for one in self.experiment.configurations if one.name == name)

    def label(self, name: str) -> str:
        return self.configuration(name).label

    def of_name(self, name: str) -> list[Run]:
        return [run for key, run in sorted(self.runs.items()) if key[0] == name]

    def has(self, *names: str) -> bool:
        """Each with two seeds or more, so that there is an error to speak of."""
        return all(len(self.of_name(name)) > 1 for name in names)

    def is_stuck(self, name: str) -> bool:
        """Whether no seed bought as many labels of the task as it has classes.

        Such a network knows one class or two and answers nothing else, so that its curve says
        little about the rule that chose.
        """
        least = len(TASKS[self.configuration(name).dataset])
        return all(run.in_task[-1] < least for run in self.of_name(name))

    def stuck(self) -> list[str]:
        """All such configurations that there are runs of."""
        counts = self.counts()
        return [name for name in counts if counts[name] and self.is_stuck(name)]

    def idle(self, name: str) -> float:
        """The share of rounds that brought no image of the task, and so trained nothing."""
        return float(np.mean([np.diff([0, *run.in_task]) == 0 for run in self.of_name(name)]))

    def seeds(self, name: str) -> list[int]:
        return [run.seed for run in self.of_name(name)]

    def labels(self, name: str) -> Int[np.ndarray, " rounds"]:
        """How many were bought after each round."""
        run = self.of_name(name)[0]
        return run.batch * np.arange(1, len(run.accuracy) + 1)

    def values(self, measure: str, name: str) -> Float[np.ndarray, "seeds rounds"]:
        runs = self.of_name(name)
        return np.array([getattr(run, measure) for run in runs], dtype=np.float64)

    def at(self, measure: str, name: str, labels: int) -> Float[np.ndarray, " seeds"]:
        """After so many labels; a curve that ended before keeps its last value."""
        bought = self.labels(name)
        place = min(int(np.searchsorted(bought, labels)), len(bought) - 1)
        return self.values(measure, name)[:, place]

    def mean_at(self, measure: str, name: str, labels: int) -> Mean:
        return Mean.of(self.at(measure, name, labels))

    def last(self, measure: str, name: str) -> Mean:
        return Mean.of(self.values(measure, name)[:, -1])

    def area(self, measure: str, name: str) -> Mean:
        """The mean over all rounds."""
        return Mean.of(self.values(measure, name).mean(axis=1))

    def seconds(self, name: str, activity: str) -> float:
        """Of a round, the median over the runs; several of them shared a device."""
        return float(np.median([run.seconds[activity] for run in self.of_name(name)]))

    def counts(self) -> dict[str, int]:
        """Seeds of each configuration, those without any included."""
        return {one.name: len(self.of_name(one.name)) for one in self.experiment.configurations}
