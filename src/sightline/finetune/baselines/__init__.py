"""What others do: ``ActiveFineTuner(..., strategy=BADGE())``.

All choose among the same candidates, by the same network, and differ in the choice. Directed are
CosineSimilarity, InformationDensity and EIG; the others do not look at the targets.
"""

from sightline.finetune.baselines.badge import BADGE
from sightline.finetune.baselines.core_set import CoreSet
from sightline.finetune.baselines.eig import EIG
from sightline.finetune.baselines.prob_cover import ProbCover
from sightline.finetune.baselines.random import Random
from sightline.finetune.baselines.similarity import CosineSimilarity, InformationDensity
from sightline.finetune.baselines.softmax import LeastConfidence, Margin, MaxEntropy
from sightline.finetune.baselines.typi_clust import TypiClust
from sightline.finetune.baselines.undirected import BAIT, UncertaintySampling, UndirectedITL

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
