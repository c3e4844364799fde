"""The methods of others, for example ``ActiveFineTuner(..., strategy=BADGE())``.

All baselines choose among the same candidates, by the same network, and differ in the choice.
InformationDensity and EIG look at the targets; the others do not. What is a rule of ``tm.rules``
has no class here: ``Targeted("cosine")``, ``Targeted("undirected-itl")``, and
``Targeted("uncertainty", conditional=False)``.
"""

from tellmost.finetune.baselines.covering import ProbCover, TypiClust
from tellmost.finetune.baselines.diverse import BADGE, BAIT, CoreSet, RandomChoice
from tellmost.finetune.baselines.uncertainty import (
    EIG,
    InformationDensity,
    LeastConfidence,
    Margin,
    MaxEntropy,
)

__all__ = [
    "BADGE",
    "BAIT",
    "EIG",
    "CoreSet",
    "InformationDensity",
    "LeastConfidence",
    "Margin",
    "MaxEntropy",
    "ProbCover",
    "RandomChoice",
    "TypiClust",
]
