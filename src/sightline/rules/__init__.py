"""Decision rules: a gain for each candidate, one rule per file."""

from collections.abc import Callable

from sightline.rules.cosine import CosineSimilarity
from sightline.rules.ctl import CTL
from sightline.rules.itl import ITL
from sightline.rules.k_center import KCenter
from sightline.rules.k_means import KMeansPlusPlus
from sightline.rules.local_uncertainty import LocalUncertainty
from sightline.rules.mm_itl import MMITL
from sightline.rules.mmr import MMR
from sightline.rules.random import Random
from sightline.rules.rule import Rule
from sightline.rules.top_k import TopK
from sightline.rules.truvar import TruVar
from sightline.rules.uncertainty import UncertaintySampling
from sightline.rules.undirected_itl import UndirectedITL
from sightline.rules.undirected_vtl import UndirectedVTL
from sightline.rules.vtl import VTL

BY_NAME: dict[str, Callable[[], Rule]] = {
    "vtl": VTL,
    "itl": ITL,
    "itl-y": lambda: ITL(about="y"),
    "mm-itl": MMITL,
    "ctl": CTL,
    "truvar": TruVar,
    "local-uncertainty": LocalUncertainty,
    "uncertainty": UncertaintySampling,
    "undirected-itl": UndirectedITL,
    "undirected-vtl": UndirectedVTL,
    "random": Random,
    "cosine": CosineSimilarity,
    "top-k": TopK,
    "mmr": MMR,
    "k-center": KCenter,
    "k-means++": KMeansPlusPlus,
}
"""The rules that ``select(rule=...)`` knows by name."""

__all__ = [
    "BY_NAME",
    "CTL",
    "ITL",
    "MMITL",
    "MMR",
    "VTL",
    "CosineSimilarity",
    "KCenter",
    "KMeansPlusPlus",
    "LocalUncertainty",
    "Random",
    "Rule",
    "TopK",
    "TruVar",
    "UncertaintySampling",
    "UndirectedITL",
    "UndirectedVTL",
]
