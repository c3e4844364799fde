"""What others do: ``ActiveFineTuner(..., strategy=BADGE())``.

All choose among the same candidates, by the same network, and differ in the choice. Directed are
CosineSimilarity, InformationDensity and EIG; the others do not look at the targets.
"""

from tellmost.finetune.baselines.covering import ProbCover, TypiClust
from tellmost.finetune.baselines.diverse import (
    BADGE,
    CoreSet,
    CosineSimilarity,
    InformationDensity,
    Random,
)
from tellmost.finetune.baselines.eig import EIG
from tellmost.finetune.baselines.undirected import (
    BAIT,
    LeastConfidence,
    Margin,
    MaxEntropy,
    UncertaintySampling,
    UndirectedITL,
)

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
