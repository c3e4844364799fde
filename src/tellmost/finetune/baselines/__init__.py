"""What others do: ``ActiveFineTuner(..., strategy=BADGE())``.

All choose among the same candidates, by the same network, and differ in the choice. Directed are
CosineSimilarity, InformationDensity and EIG; the others do not look at the targets.
"""

from tellmost.finetune.baselines.badge import BADGE
from tellmost.finetune.baselines.core_set import CoreSet
from tellmost.finetune.baselines.eig import EIG
from tellmost.finetune.baselines.prob_cover import ProbCover
from tellmost.finetune.baselines.random import Random
from tellmost.finetune.baselines.similarity import CosineSimilarity, InformationDensity
from tellmost.finetune.baselines.softmax import LeastConfidence, Margin, MaxEntropy
from tellmost.finetune.baselines.typi_clust import TypiClust
from tellmost.finetune.baselines.undirected import BAIT, UncertaintySampling, UndirectedITL

__all__ = [
    "BADGE",
    "BAIT",
    "EIG",
    "CoreSet",
    "CosineSimilarity",
    "InformationDensity",
    "LeastConfidence",
    "Margin",
    "MaxEntropy",
    "ProbCover",
    "Random",
    "TypiClust",
    "UncertaintySampling",
    "UndirectedITL",
]
